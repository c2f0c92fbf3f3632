"""URIs of folders in object stores and other file systems, as in `gs://bucket/folder`. Pure."""

import re

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_uri(folder: str) -> bool:
    """Tell whether `folder` is a URI and not a path."""
    return bool(_SCHEME.match(folder))

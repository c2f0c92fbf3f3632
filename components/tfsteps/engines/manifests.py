"""Reads compiled pipelines."""

from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # five times as fast, where libyaml is there


def documents(text: str) -> list[Any]:
    """Return the documents of a YAML or JSON text. yaml.YAMLError if it is neither."""
    return list(yaml.load_all(text, Loader=_LOADER))

"""urllib3 without `importlib.metadata`, which only its HTTP/2 support wants, and that we never use.

With all that it brings along it is a tenth of a launcher's start, and of its memory.
"""

import sys
import types

_NAME = "importlib.metadata"


def _version(distribution: str) -> str:
    from importlib.metadata import version  # noqa: PLC0415

    return version(distribution)


def _load() -> None:
    """Import urllib3 while a stand-in has the place of `importlib.metadata`, which does the same when it is called."""
    if _NAME in sys.modules:
        return
    stand_in = types.ModuleType(_NAME)
    stand_in.version = _version  # type: ignore[attr-defined]
    sys.modules[_NAME] = stand_in
    try:
        import urllib3  # noqa: F401, PLC0415
    except ImportError:  # a version of urllib3 that needs more of it: then it is imported as it is
        for name in [name for name in sys.modules if name.partition(".")[0] == "urllib3"]:
            del sys.modules[name]
    finally:
        del sys.modules[_NAME]


_load()

import urllib3  # noqa: E402
from urllib3.exceptions import HTTPError, ReadTimeoutError  # noqa: E402

__all__ = ["HTTPError", "ReadTimeoutError", "urllib3"]

"""Runs at the start of every Python program of a local run, whatever Python it uses; see docs/guides/local.md.

It prints the stack of all threads on a signal, for a deadline, and has the history of Keras' `fit` recorded. It must
never harm the program: it changes nothing else, is silent about its own failures, and runs the `sitecustomize` that
the program would have without it. Python 3.7 or newer, and few imports: each costs every program time and memory.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # that of `typing` takes time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_KERAS = ("keras", "tf_keras")
_FALSE = ("0", "false", "no", "off")


class _KerasFinder:
    """Has `keras_history.record_fits` called with each Keras that the program imports."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's own specification, whose loader calls `record_fits` afterwards; None = another module."""
        if fullname not in _KERAS:
            return None
        from importlib.machinery import PathFinder  # noqa: PLC0415

        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            _wrap(spec.loader)
        return spec


def _wrap(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        try:
            from importlib import util  # noqa: PLC0415

            spec = util.spec_from_file_location("tfsteps_keras_history", f"{_HERE}/keras_history.py")
            assert spec
            assert spec.loader
            history = util.module_from_spec(spec)
            spec.loader.exec_module(history)
            history.record_fits(module)
        except Exception:  # noqa: BLE001, S110  the program works without curves
            pass

    loader.exec_module = exec_module


def _prepare() -> None:
    number = os.environ.get("TFSTEPS_STACK_SIGNAL", "")
    if number.isdigit():
        import faulthandler  # noqa: PLC0415

        faulthandler.register(int(number), file=2, all_threads=True)
    if os.environ.get("TFSTEPS_LOG_DIR") and os.environ.get("TFSTEPS_AUTOLOG", "").lower() not in _FALSE:
        sys.meta_path.insert(0, _KerasFinder())


try:  # noqa: SIM105  contextlib is one more import
    _prepare()
except Exception:  # noqa: BLE001, S110
    pass
sys.path[:] = [folder for folder in sys.path if folder != _HERE]
_this = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ImportError as error:
    if error.name != "sitecustomize":
        raise
    if _this is not None:
        sys.modules["sitecustomize"] = _this

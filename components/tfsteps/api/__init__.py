"""The Python functions beside the command, for notebooks and programs. Each is loaded when it is asked for.

`run`, `runs`, `show`, `logs` and `compare` are the commands of these names. They print nothing: what the commands print
is in the objects that they return, and errors are exceptions.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfsteps.api.function_source import FunctionError
    from tfsteps.api.functions import RunFailed, RunStopped, compare, logs, run, runs, show
    from tfsteps.api.results import Attempt, Comparison, Line, Log, Replica, Run, RunList
    from tfsteps.api.shipped_function import FunctionRun, TrainFunction, train_function
    from tfsteps.console.errors import CommandError
    from tfsteps.spec import SpecError

__all__ = [
    "Attempt",
    "CommandError",
    "Comparison",
    "FunctionError",
    "FunctionRun",
    "Line",
    "Log",
    "Replica",
    "Run",
    "RunFailed",
    "RunList",
    "RunStopped",
    "SpecError",
    "TrainFunction",
    "compare",
    "logs",
    "run",
    "runs",
    "show",
    "train_function",
]

_MODULES = {
    "tfsteps.api.function_source": ("FunctionError",),
    "tfsteps.api.shipped_function": ("FunctionRun", "TrainFunction", "train_function"),
    "tfsteps.api.functions": ("RunFailed", "RunStopped", "compare", "logs", "run", "runs", "show"),
    "tfsteps.api.results": ("Attempt", "Comparison", "Line", "Log", "Replica", "Run", "RunList"),
    "tfsteps.console.errors": ("CommandError",),
    "tfsteps.spec": ("SpecError",),
}
_LATER = {name: module for module, names in _MODULES.items() for name in names}


def __dir__() -> list[str]:
    """Return the public names, for completion in notebooks."""
    return list(__all__)


def __getattr__(name: str) -> Any:
    """Return what is loaded when it is asked for: commands import modules of this package, and start quickly."""
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

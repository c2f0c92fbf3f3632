"""Distributed TensorFlow jobs as pipeline steps.

Import nothing heavy here: launchers start by importing this package, and their start-up is measured.
"""

__version__ = "0.1.0"


def __dir__() -> list[str]:
    """Return what is there, and what is loaded when it is asked for, for completion in notebooks."""
    return [*globals(), "train_function"]


def __getattr__(name: str) -> object:
    """Return `train_function`, which is loaded when it is asked for; `__init__.pyi` has its type."""
    if name == "train_function":
        import importlib  # noqa: PLC0415

        return importlib.import_module("tfsteps.api").train_function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

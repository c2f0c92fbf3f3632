"""The job systems, by name. Each is one module, imported when it is used."""

import importlib
from typing import cast

from tfsteps.spec import Options
from tfsteps.systems.base import System

NAMES = ("local", "kubeflow", "t9k", "tfjob-v1alpha1", "hai", "jobset", "trainjob", "jobs")
"""Every name that a job file's `systems:` may hold, so that one file serves them all."""

_MODULES = {"local": "tfsteps.systems.local", "kubeflow": "tfsteps.systems.kubeflow"}


def available() -> list[str]:
    """Return the names that `get` knows."""
    return list(_MODULES)


def get(name: str) -> System:
    """Return the job system called `name`. KeyError for an unknown one."""
    return cast("System", importlib.import_module(_MODULES[name]).system())


def options() -> Options:
    """Return the type of each system's options, for the parser; None where the system is not checked yet."""
    known = {name: importlib.import_module(f"{module}.options").OPTIONS for name, module in _MODULES.items()}
    return {name: known.get(name) for name in NAMES}

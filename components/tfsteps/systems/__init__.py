"""The job systems, by name. Each is one module, imported when it is used."""

import importlib
from typing import TYPE_CHECKING, cast

from tfsteps.spec import Options
from tfsteps.systems.base import System

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.kind import Kind

NAMES = ("local", "kubeflow", "t9k", "tfjob-v1alpha1", "hai", "jobset", "trainjob", "jobs")
"""Every name that a job file's `systems:` may hold, so that one file serves them all."""

_KUBERNETES = {"kubeflow": "tfsteps.systems.kubeflow"}
_MODULES = {"local": "tfsteps.systems.local", **_KUBERNETES}


def available() -> list[str]:
    """Return the names that `get` knows."""
    return list(_MODULES)


def get(name: str, **where: str) -> System:
    """Return the job system called `name`. KeyError for an unknown one.

    Args:
        name: Of `available()`.
        where: `context` and `namespace`, for those `on_kubernetes`; empty = what is configured.
    """
    return cast("System", importlib.import_module(_MODULES[name]).system(**where))


def on_kubernetes() -> list[str]:
    """Return the names of those systems whose jobs are objects of a Kubernetes cluster."""
    return list(_KUBERNETES)


def kinds() -> "list[Kind]":
    """Return the kind of job object of each system on Kubernetes."""
    return [importlib.import_module(module).kind() for module in _KUBERNETES.values()]


def options() -> Options:
    """Return the type of each system's options, for the parser; None where the system is not checked yet."""
    known = {name: importlib.import_module(f"{module}.options").OPTIONS for name, module in _MODULES.items()}
    return {name: known.get(name) for name in NAMES}

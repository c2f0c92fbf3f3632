"""The job systems, by name. Each is one module, imported when it is used."""

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from tfsteps.spec import Options, RoleName, TrainingJob
from tfsteps.systems.base import System

if TYPE_CHECKING:
    from tfsteps.systems.capabilities import Capability
    from tfsteps.systems.kubernetes.job_kind import JobKind

NAMES = ("local", "kubeflow", "t9k", "tfjob-v1alpha1", "hai", "jobset", "trainjob", "jobs")
"""Every name that a job file's `systems:` may hold, so that one file serves them all."""

_KUBERNETES = {
    "kubeflow": "tfsteps.systems.kubeflow",
    "jobset": "tfsteps.systems.jobset",
    "trainjob": "tfsteps.systems.trainjob",
    "jobs": "tfsteps.systems.jobs",
    "t9k": "tfsteps.systems.t9k",
    "tfjob-v1alpha1": "tfsteps.systems.tfjob_v1alpha1",
}
_MODULES = {"local": "tfsteps.systems.local", **_KUBERNETES, "hai": "tfsteps.systems.hai"}


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


def kinds_of(name: str) -> "list[JobKind]":
    """Return the kinds of job object of the system on Kubernetes called `name`: mostly one."""
    return cast("list[JobKind]", importlib.import_module(_KUBERNETES[name]).kinds())


def kinds() -> "list[JobKind]":
    """Return the kinds of job object of all systems on Kubernetes."""
    return [kind for name in _KUBERNETES for kind in kinds_of(name)]


def capabilities_of(name: str) -> "Mapping[str, Capability]":
    """Return what the job system called `name` can do, by the names of `FEATURES`."""
    return cast("Mapping[str, Capability]", importlib.import_module(f"{_MODULES[name]}.capabilities").CAPABILITIES)


def held(name: str, job: TrainingJob, commands: Mapping[RoleName, Sequence[str]]) -> TrainingJob | None:
    """Return a job whose roles run `commands` by a word of the job system's own; None = it has none for that."""
    module = importlib.import_module(_MODULES[name])
    hold = getattr(module, "held", None)
    return hold(job, commands) if hold else None


def options() -> Options:
    """Return the type of each system's options, for the parser; None where the system is not checked yet."""
    known = {name: importlib.import_module(f"{module}.options").OPTIONS for name, module in _MODULES.items()}
    return {name: known.get(name) for name in NAMES}

"""The job system `tfjob-v1alpha1`: the TfJob of tensorflow/k8s, tensorflow.org/v1alpha1, and of tf-operator 0.1.0."""

from typing import TYPE_CHECKING

from tfsteps.platforms.tfjob_v1alpha1.options import CAPABILITIES, TfJobOptions
from tfsteps.systems.base import System
from tfsteps.systems.plugin import SystemPlugin

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.job_kind import JobKind


def system(context: str = "", namespace: str = "") -> System:
    """Return the job system, on the cluster that `context` names and in `namespace`; empty = what is configured."""
    from tfsteps.platforms.tfjob_v1alpha1.job_system import TfJobSystem  # noqa: PLC0415  the options alone are cheap

    return TfJobSystem(context, namespace)


def kinds() -> "list[JobKind]":
    """Return the kinds of its job objects: those of either API."""
    from tfsteps.platforms.tfjob_v1alpha1.tfjob import KINDS  # noqa: PLC0415

    return list(KINDS.values())


PLUGIN = SystemPlugin(
    name="tfjob-v1alpha1",
    options=TfJobOptions,
    capabilities=CAPABILITIES,
    system=system,
    kinds=kinds,
    discovery_rank=40,
    permanent_failures=("MasterFailed",),
    readers={
        (f"{group}/v1alpha1", "TfJob"): "tfsteps.platforms.tfjob_v1alpha1.reader:read_tfjob_v1alpha1"
        for group in ("tensorflow.org", "kubeflow.org")
    },
)

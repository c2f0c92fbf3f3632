"""The Workflow that Kubeflow Pipelines runs a task of: what differs from any other of Argo's."""

from collections.abc import Mapping
from typing import Any

from tfsteps.engines.argo.pipeline import WorkflowContext
from tfsteps.engines.argo.workflow import controller
from tfsteps.engines.kfp import node_names, waits
from tfsteps.kube.client import Api

_COMPONENT = "pipelines.kubeflow.org/v2_component"


class KubeflowContext(WorkflowContext):
    """A run of Kubeflow Pipelines, seen from the pod of one of its tasks."""

    _find_wait = staticmethod(waits.find_wait)

    def _scope(self, step: str) -> str:
        return node_names.scope(step)


def find_pipeline(api: Api, pod: Mapping[str, Any]) -> KubeflowContext | None:
    """Return the run that a pod runs a task of; None = it is not of Kubeflow Pipelines."""
    meta = pod["metadata"]
    if _COMPONENT not in {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}:
        return None
    owner = controller(pod)
    return KubeflowContext(api, pod, owner) if owner else None

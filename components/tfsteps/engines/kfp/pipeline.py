"""The Workflow that Kubeflow Pipelines runs a task of: what differs from any other of Argo's."""

from collections.abc import Mapping
from typing import Any

from tfsteps.answer import NO, Answer
from tfsteps.engines.argo.pipeline import WorkflowContext
from tfsteps.engines.argo.workflow import controller
from tfsteps.engines.kfp import node_names
from tfsteps.kube.client import Api

_COMPONENT = "pipelines.kubeflow.org/v2_component"


class KubeflowContext(WorkflowContext):
    """A run of Kubeflow Pipelines, seen from the pod of one of its tasks."""

    def _is_step(self, step: str, node: str) -> bool:
        return super()._is_step(step, node) or node_names.is_task(step, node)

    def _scope(self, step: str) -> str:
        return node_names.scope(step)

    def _recreates_pod(self, workflow: Mapping[str, Any] | None) -> Answer:  # noqa: ARG002
        """Return NO: `set_retry` does not cover pods that are lost (observed on 2.15)."""
        return NO


def find_pipeline(api: Api, pod: Mapping[str, Any]) -> KubeflowContext | None:
    """Return the run that a pod runs a task of; None = it is not of Kubeflow Pipelines."""
    meta = pod["metadata"]
    if _COMPONENT not in {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}:
        return None
    owner = controller(pod)
    return KubeflowContext(api, pod, owner) if owner else None

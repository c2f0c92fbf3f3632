"""The pipeline engines: which one started a step, which one a pod belongs to, and where a job comes from."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsteps.engines.argo.engine import ENGINE as ARGO
from tfsteps.engines.base import StepTask
from tfsteps.engines.kfp.engine import ENGINE as KFP
from tfsteps.runs.graph import Node
from tfsteps.systems.pipeline import Origin, PipelineContext

if TYPE_CHECKING:
    from tfsteps.kube.client import Api

ENGINES = (KFP, ARGO)
"""Kubeflow Pipelines first: its pods are also pods of Argo Workflows."""


def step_task(arguments: Sequence[str]) -> StepTask:
    """Return the task that the command line of a step describes.

    Raises:
        ValueError: No engine recognizes it, or it is not complete.
    """
    for engine in ENGINES:
        if engine.recognizes(arguments):
            return engine.step_task(arguments)
    raise ValueError(f"expected {' or '.join(f'`{engine.usage}`' for engine in ENGINES)}")


def find_pipeline(api: "Api", pod: Mapping[str, Any]) -> PipelineContext | None:
    """Return the pipeline that a pod is a step of, whichever engine runs it; None = it is of none.

    The pod decides, not the command line: the `tfsteps` command may run in a pod of any engine.
    """
    return next((pipeline for engine in ENGINES if (pipeline := engine.find_pipeline(api, pod))), None)


def find_origin(owners: Sequence[Mapping[str, Any]], step: str) -> Origin:
    """Return where a job comes from that has these ownerReferences and was launched by this step."""
    from tfsteps.engines.argo.workflow import name_in  # noqa: PLC0415  steps do not need it
    from tfsteps.engines.kfp.node_names import task_name  # noqa: PLC0415

    return Origin(name_in(owners), task_name(step))


def pipeline_node(workflow: Mapping[str, Any], launched: Collection[str]) -> Node:
    """Return a Workflow as a node of a run's graph, with its steps that launch no job; `launched` = paths of others."""
    from tfsteps.engines.argo import steps  # noqa: PLC0415  programs of steps do not need them
    from tfsteps.engines.kfp.node_names import is_driver, task_name  # noqa: PLC0415

    return steps.pipeline_node(workflow, launched, named=task_name, is_internal=lambda step: is_driver(step.template))

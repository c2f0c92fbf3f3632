"""Argo Workflows, as an engine that starts steps."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsteps.engines.argo.argument import ARGUMENT
from tfsteps.engines.base import Engine, StepTask

if TYPE_CHECKING:
    from tfsteps.kube.client import Api
    from tfsteps.systems.pipeline import PipelineContext


def _recognizes(arguments: Sequence[str]) -> bool:
    return bool(arguments) and arguments[0] == ARGUMENT


def _step_task(arguments: Sequence[str]) -> StepTask:
    from tfsteps.engines.argo.task import ArgoTask  # noqa: PLC0415  start-up is measured

    return ArgoTask.from_arguments(arguments)


def _find_pipeline(api: "Api", pod: Mapping[str, Any]) -> "PipelineContext | None":
    from tfsteps.engines.argo.pipeline import find_pipeline  # noqa: PLC0415  local runs need no HTTP

    return find_pipeline(api, pod)


ENGINE = Engine(
    usage=f"{ARGUMENT} COMPONENT NAME=VALUE ...",
    recognizes=_recognizes,
    step_task=_step_task,
    find_pipeline=_find_pipeline,
)

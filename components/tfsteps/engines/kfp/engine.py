"""Kubeflow Pipelines, as an engine that starts steps."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsteps.engines.base import Engine
from tfsteps.engines.kfp.argument import ARGUMENT
from tfsteps.engines.kfp.executor import ExecutorInput

if TYPE_CHECKING:
    from tfsteps.kube.client import Api
    from tfsteps.systems.pipeline import PipelineContext


def _recognizes(arguments: Sequence[str]) -> bool:
    return ARGUMENT in arguments


def _find_pipeline(api: "Api", pod: Mapping[str, Any]) -> "PipelineContext | None":
    from tfsteps.engines.kfp.pipeline import find_pipeline  # noqa: PLC0415  local runs need no HTTP

    return find_pipeline(api, pod)


ENGINE = Engine(
    usage=f"{ARGUMENT} JSON",
    recognizes=_recognizes,
    step_task=ExecutorInput.from_arguments,
    find_pipeline=_find_pipeline,
)

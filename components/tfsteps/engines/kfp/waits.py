"""The `wait` tasks of a Workflow that Kubeflow Pipelines has made (observed on 2.15 and 2.17). Pure.

Each task has a driver, a task of the same DAG whose arguments are what the task runs and where its inputs come from.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps.engines.argo.pipeline import PROGRAM, Wait
from tfsteps.json_errors import NOT_READABLE

_DRIVER = "-driver"
_ARGUMENT = re.compile(r"\{\{workflow\.parameters\.([^{}]+)\}\}")


class _Producer(msgspec.Struct, rename="camel", frozen=True):
    producer_task: str = ""


class _Input(msgspec.Struct, rename="camel", frozen=True):
    task_output_parameter: _Producer = _Producer()


class _Inputs(msgspec.Struct, frozen=True):
    parameters: dict[str, _Input] = {}


class _Task(msgspec.Struct, frozen=True):
    inputs: _Inputs = _Inputs()


def find_wait(workflow: Mapping[str, Any], call: Mapping[str, Any]) -> Wait | None:
    """Return the wait whose driver a task of a DAG is; None = it is no driver, or that of another component."""
    name = str(call["name"])
    given = {item["name"]: str(item.get("value", "")) for item in (call.get("arguments") or {}).get("parameters") or []}
    if not name.endswith(_DRIVER) or "container" not in given:
        return None
    container = given["container"]
    if (shared := _ARGUMENT.fullmatch(container)) is not None:
        listed = ((workflow.get("spec") or {}).get("arguments") or {}).get("parameters") or []
        container = next((str(item.get("value", "")) for item in listed if item["name"] == shared[1]), PROGRAM)
    if PROGRAM not in container:
        return None
    try:
        inputs = msgspec.json.decode(given.get("task", "{}"), type=_Task).inputs.parameters
    except NOT_READABLE:
        inputs = {}
    return Wait(name.removesuffix(_DRIVER), inputs.get("job", _Input()).task_output_parameter.producer_task)

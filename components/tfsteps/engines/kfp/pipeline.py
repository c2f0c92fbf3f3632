"""The Workflow that Kubeflow Pipelines runs a task of: what differs from any other of Argo's."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.engines.argo.node_names import split
from tfsteps.engines.argo.pipeline import PROGRAM, Wait, WorkflowContext
from tfsteps.engines.argo.workflow import controller
from tfsteps.engines.engine_objects import NodeNames
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.client import Api

_ROOT, _LEAF = "root", "executor"
_COMPONENT = "pipelines.kubeflow.org/v2_component"
_DRIVER = "-driver"
_ARGUMENT = re.compile(r"\{\{workflow\.parameters\.([^{}]+)\}\}")
_CONDITIONS = re.compile(r"(\.condition(-branches)?-\d+)+$")


def task_name(step: str) -> str:
    """Return the name of the task that a step is, below the run; empty = it is not a task of Kubeflow Pipelines.

    For example `train`, or `for-loop-1.iteration-iterations(0:0).iteration-item.train` within a loop.
    """
    parts = split(step)
    if len(parts) < 4 or parts[1] != _ROOT or parts[-1] != _LEAF:
        return ""
    return ".".join(parts[2:-1])


def is_driver(template: str) -> bool:
    """Tell whether a template is that of the drivers, which prepare each task and DAG."""
    return template.startswith("system-") and template.endswith("-driver")


def scope(step: str) -> str:
    """Return the node that a task lies in: equal for the tasks of one pipeline or loop iteration.

    Conditions are no scopes of their own.

    Args:
        step: Such as `mnist-x2k4.root.for-loop-1.iteration-item(0:0).train.executor`.
    """
    parts = split(step)
    if len(parts) > 1 and parts[-1] == _LEAF:
        del parts[-1]
    return _CONDITIONS.sub("", ".".join(parts[:-1]))


NODE_NAMES = NodeNames(task_name, is_driver)


class _Producer(msgspec.Struct, rename="camel", frozen=True):
    producer_task: str = ""


class _TaskInput(msgspec.Struct, rename="camel", frozen=True):
    task_output_parameter: _Producer = _Producer()


class _TaskInputs(msgspec.Struct, frozen=True):
    parameters: dict[str, _TaskInput] = {}


class _DagTask(msgspec.Struct, frozen=True):
    inputs: _TaskInputs = _TaskInputs()


def find_wait(workflow: Mapping[str, Any], call: Mapping[str, Any]) -> Wait | None:
    """Return the wait whose driver a task of a DAG is; None = it is no driver, or that of another component."""
    name = str(call["name"])
    arguments = {
        item["name"]: str(item.get("value", "")) for item in (call.get("arguments") or {}).get("parameters") or []
    }
    if not name.endswith(_DRIVER) or "container" not in arguments:
        return None
    container = arguments["container"]
    if (shared := _ARGUMENT.fullmatch(container)) is not None:
        listed = ((workflow.get("spec") or {}).get("arguments") or {}).get("parameters") or []
        container = next((str(item.get("value", "")) for item in listed if item["name"] == shared[1]), PROGRAM)
    if PROGRAM not in container:
        return None
    try:
        inputs = typed_json.decode(arguments.get("task", "{}"), _DagTask).inputs.parameters
    except NOT_READABLE:
        inputs = {}
    return Wait(name.removesuffix(_DRIVER), inputs.get("job", _TaskInput()).task_output_parameter.producer_task)


class KubeflowContext(WorkflowContext):
    """A run of Kubeflow Pipelines, seen from the pod of one of its tasks."""

    _find_wait = staticmethod(find_wait)

    def _scope(self, step: str) -> str:
        return scope(step)


def find_pipeline(api: Api, pod: Mapping[str, Any]) -> KubeflowContext | None:
    """Return the run that a pod runs a task of; None = it is not of Kubeflow Pipelines."""
    meta = pod["metadata"]
    if _COMPONENT not in {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}:
        return None
    owner = controller(pod)
    return KubeflowContext(api, pod, owner) if owner else None

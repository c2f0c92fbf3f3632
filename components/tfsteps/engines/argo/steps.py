"""The steps of a Workflow as nodes of a run's graph, from the Workflow object alone. Pure.

Source: Argo Workflows 3.7, `workflow/util/pod_name.go` for the names of pods.
"""

import datetime as dt
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from tfsteps.engines.argo import workflow as workflows
from tfsteps.engines.argo.node_names import step_name
from tfsteps.engines.engine_objects import NodeNames, Step
from tfsteps.runs.graph import Node, NodeKind

_PREFIX_LENGTH = 242  # of a pod's name: 253 characters less the hash and its hyphen


def steps(workflow: Mapping[str, Any]) -> list[Step]:
    """Return the steps with a pod, in the order of their first try; empty if the Workflow does not store them."""
    tries: dict[str, list[Mapping[str, Any]]] = {}
    for node in workflows.nodes(workflow).values():
        if node.get("type") == "Pod":
            tries.setdefault(step_name(str(node.get("name", ""))), []).append(node)
    name = str(workflow["metadata"]["name"])
    result = [_step(name, path, sorted(listed, key=_started)) for path, listed in tries.items()]
    return sorted(result, key=lambda step: (step.node.started is None, step.node.started or 0.0))


def pipeline_node(workflow: Mapping[str, Any], launched: Collection[str], names: NodeNames) -> Node:
    """Return a Workflow as a node, with its steps that launch no job.

    Args:
        workflow: The object.
        launched: The paths of the steps that launch or follow jobs.
        names: The names of steps; those without one have their display name.
    """
    status = workflow.get("status") or {}
    children = [
        msgspec.structs.replace(step.node, name=names.task_name(step.path) or step.node.name)
        for step in steps(workflow)
        if step.path not in launched and not (names.is_internal(step.template) and step.node.state == "succeeded")
    ]
    return Node(
        kind=NodeKind.PIPELINE,
        name=str(workflow["metadata"]["name"]),
        state=str(status.get("phase") or "Pending").lower(),
        started=_seconds(status.get("startedAt")) or _seconds(workflow["metadata"].get("creationTimestamp")),
        ended=_seconds(status.get("finishedAt")),
        message=str(status.get("message") or ""),
        detail="is being stopped" if workflows.terminating(workflow) and not status.get("finishedAt") else "",
        children=tuple(children),
    )


def unreadable_steps(workflow: Mapping[str, Any]) -> str:
    """Return why the steps of a Workflow cannot be read, as a sentence; empty = they can, or there are none yet."""
    status, name = workflow.get("status") or {}, workflow["metadata"]["name"]
    if workflows.nodes(workflow):
        return ""
    if status.get("offloadNodeStatusVersion"):
        return f"Argo keeps the steps of Workflow {name} in its database; `argo get {name}` shows them."
    if status.get("compressedNodes"):
        return f"The compressed steps of Workflow {name} are damaged; `argo get {name}` may show them."
    return ""


def _step(workflow: str, path: str, tries: list[Mapping[str, Any]]) -> Step:
    last = tries[-1]
    template = str(last.get("templateName") or (last.get("templateRef") or {}).get("template") or "")
    node = Node(
        kind=NodeKind.STEP,
        name=step_name(str(last.get("displayName") or path)),
        state=str(last.get("phase") or "Pending").lower(),
        started=_seconds(tries[0].get("startedAt")),
        ended=_seconds(last.get("finishedAt")),
        place=_pod_name(workflow, last, template),
        host=str(last.get("hostNodeName") or ""),
        restarts=len(tries) - 1,
        message=str(last.get("message") or ""),
    )
    return Step(path, template, node)


def _pod_name(workflow: str, node: Mapping[str, Any], template: str) -> str:
    """Return the name that Argo gives the pod of a node: its prefix is cut, the hash is that of the node's id."""
    if node.get("name") == workflow:
        return workflow
    prefix = f"{workflow}-{template}" if template else workflow
    return f"{prefix[:_PREFIX_LENGTH]}-{str(node.get('id', '')).rpartition('-')[2]}"


def _started(node: Mapping[str, Any]) -> tuple[float, int, str]:
    name = str(node.get("name", ""))
    return _seconds(node.get("startedAt")) or 0.0, len(name), name  # (10) after (9)


def _seconds(text: Any) -> float | None:
    """Return an RFC 3339 time in seconds since the epoch; None if it is missing or no time."""
    try:
        return dt.datetime.fromisoformat(text).timestamp() if text else None
    except (TypeError, ValueError):
        return None

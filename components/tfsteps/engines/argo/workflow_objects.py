"""Workflows as the objects of runs, for every engine that compiles to Argo Workflows."""

import datetime as dt
import functools
import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from tfsteps.engines.argo import workflow as workflows
from tfsteps.engines.argo.node_names import pipeline_name, run_name, step_name
from tfsteps.engines.argo.workflow import CONTAINER, POD_LABEL, WORKFLOWS, end_of, reference_in, step_of, trigger_of
from tfsteps.engines.engine_objects import EngineObjects, NodeNames, Step
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import NAME, PODS, Owner, metadata_of
from tfsteps.runs.graph import Node, NodeKind
from tfsteps.systems.kubernetes.cleanup.retention import retention_policy

_PREFIX_LENGTH = 242  # of a pod's name: 253 characters less the hash and its hyphen
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_LONGEST_LABEL = 63
_Workflow = tuple[str, str, str]  # namespace, name, uid: an object in another namespace may contain any uid


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


class Workflows:
    """The Workflows of a namespace, or of all namespaces. Each request is sent once, when its result is needed."""

    def __init__(self, api: Api, namespace: str, name: str = "") -> None:
        """Send no request yet; `namespace` empty = all; `name` = only jobs of the Workflow of that name matter."""
        self._api, self._namespace = api, namespace
        self._selector = f"{POD_LABEL}={name}" if 0 < len(name) <= _LONGEST_LABEL else POD_LABEL
        self._ends: dict[_Workflow, str] = {}

    def why_abandoned(self, item: Mapping[str, Any]) -> str:
        """Return why no launcher will adopt a job, as the end of a sentence; empty = one may."""
        owner = owner_of(item)
        if not owner:
            return ""
        namespace = item["metadata"]["namespace"]
        return self.why_step_ended(namespace, owner.name, owner.uid, retention_policy(item).launcher)

    def why_step_ended(self, namespace: str, name: str, uid: str, step: str) -> str:
        """Return why a step of a Workflow will have no launcher, as the end of a sentence; empty = it may have one.

        ValueError if `namespace` or `name` cannot be the name of an object.
        """
        if not (re.match(NAME, namespace) and re.match(NAME, name)):
            raise ValueError(f"{namespace}/{name} is no name of an object")
        workflow = namespace, name, uid
        if (workflow, step) in self._steps:
            return ""
        end = self._end(workflow)
        return f"its Workflow {name} {end} and {step or 'its launcher'} has no unfinished pod" if end else ""

    @functools.cached_property
    def _steps(self) -> set[tuple[_Workflow, str]]:
        """The steps that have an unfinished pod, by Workflow and node."""
        steps = set()
        for pod in self._api.iterate(PODS, self._namespace, labelSelector=self._selector, fieldSelector=_UNFINISHED):
            if owner := owner_of(pod):
                steps.add(((pod["metadata"]["namespace"], owner.name, owner.uid), step_of(pod)))
        return steps

    def _end(self, workflow: _Workflow) -> str:
        """Return how a Workflow ends or has ended; empty = it continues."""
        namespace, name, uid = workflow
        if workflow not in self._ends:
            try:
                item = self._api.get(WORKFLOWS, namespace, name)
            except ApiError as error:
                if not error.missing:
                    raise
                item = None
            self._ends[workflow] = end_of(item, uid)
        return self._ends[workflow]


def owner_of(item: Mapping[str, Any]) -> Owner | None:
    """Return the Workflow that owns an object; None = no Workflow owns it. ValueError for invalid metadata."""
    owners = metadata_of(item).owner_references or []
    workflows = [owner for owner in owners if (owner.api_version, owner.kind) == (WORKFLOWS.api, WORKFLOWS.kind)]
    return next((owner for owner in workflows if re.match(NAME, owner.name)), None)


WORKFLOW_OBJECTS = EngineObjects(
    resource=WORKFLOWS,
    pod_label=POD_LABEL,
    owner_of=owner_of,
    reference_in=reference_in,
    run_name=run_name,
    pipeline_name=pipeline_name,
    step_of=step_of,
    steps=steps,
    unreadable_steps=unreadable_steps,
    pipeline_node=pipeline_node,
    end_of=end_of,
    trigger_of=trigger_of,
    stop_patch='{"spec":{"shutdown":"Stop"}}',
    abandoned=Workflows,
    container=CONTAINER,
)

"""The Workflow of a launcher's pod, watched: whether the step is to end, and whether another pod follows."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfsteps.answer import NO, YES, Answer, known, unknown
from tfsteps.engines.argo import node_names
from tfsteps.engines.argo.node_names import lies_within, without_groups
from tfsteps.engines.argo.workflow import (
    CONTAINER,
    LOOPS,
    NO_NODES,
    WORKFLOWS,
    controller,
    ended_steps,
    entrypoint,
    has_ended,
    has_succeeded,
    is_pending,
    node_id,
    node_name,
    retries_lost_pod,
    step_of,
    template_name,
    templates,
    terminating,
)
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.http_client import SETTLE_SECONDS
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch

_Node = Mapping[str, Any]

PROGRAM = "tfsteps.steps.wait.launcher"
"""The module that the container of a wait runs."""

_JOB = "job"
_OUTPUT = re.compile(r"\{\{\s*(?:tasks|steps)\.([^.\s{}]+)\.outputs\.")


class Wait(NamedTuple):
    """A call of the component `wait`.

    Attributes:
        task: Its name among the tasks or steps of its template.
        producer: The task or step whose output is the job; empty = the job comes from outside of the template, or that
            is not known.
    """

    task: str
    producer: str = ""


FindWait = Callable[[_Node, _Node], Wait | None]
"""Given a Workflow and a task or step of it, returns the wait that this one stands for; None = it stands for none."""


def find_wait(workflow: _Node, call: _Node) -> Wait | None:
    """Find the waits in a Workflow as tfsteps or its authors write it."""
    named = _callee(call)
    called = [call["inline"]] if call.get("inline") else [item for item in templates(workflow) if item["name"] == named]
    if not any(PROGRAM in ((item.get("container") or {}).get("command") or []) for item in called):
        return None
    parameters = (call.get("arguments") or {}).get("parameters") or []
    job = next((str(parameter.get("value", "")) for parameter in parameters if parameter["name"] == _JOB), "")
    match = _OUTPUT.search(job)
    return Wait(str(call["name"]), match[1] if match else "")


def awaited(workflow: _Node, step: str, find: FindWait) -> Answer:
    """Return whether a wait that has not ended may be for the job of a step; unknown = the Workflow has no nodes."""
    graphs = _Graphs(workflow)
    if not graphs.ended:
        return unknown(NO_NODES)
    waits = ((graph, find(workflow, call)) for graph, call in graphs.calls)
    return known(any(wait and graphs.may_wait(without_groups(step), graph, wait) for graph, wait in waits))


class _Graphs:
    """The templates that call others, with their nodes.

    Attributes:
        calls: The name of each such template, with each of its tasks or steps.
        ended: Of the nodes, by name without tries and groups, whether they have ended.
    """

    def __init__(self, workflow: _Node) -> None:
        self.calls = [(str(template["name"]), call) for template in templates(workflow) for call in _calls(template)]
        self.ended: dict[str, bool] = {}
        self._entrypoint = entrypoint(workflow)
        self._nodes: dict[str, set[str]] = {}  # by template
        for name, node, ended in ended_steps(workflow):
            path = without_groups(name)
            self.ended[path] = ended and self.ended.get(path, True)
            self._nodes.setdefault(template_name(node), set()).add(path)

    def may_wait(self, step: str, graph: str, wait: Wait) -> bool:
        """Tell whether a wait in the template `graph` may be for the job of `step`, and has not ended."""
        callers = self._nodes.get(graph, set())
        if wait.producer:
            callers = {node for node in callers if lies_within(step, f"{node}.{wait.producer}")}
        elif not self._is_complete(graph, frozenset()):
            return True
        return not all(self._is_over(node, wait.task) for node in callers)

    def _is_over(self, node: str, task: str) -> bool:
        """Tell whether a task or step below `node` has ended, or will not run."""
        return self.ended.get(node, False) or self.ended.get(f"{node}.{task}", False)

    def _is_complete(self, graph: str, within: frozenset[str]) -> bool:
        """Tell whether all calls of a template have a node; `within` = it is called by these."""
        if graph == self._entrypoint:
            return True
        sites = [(name, call) for name, call in self.calls if _callee(call) == graph]
        if not sites or graph in within:  # called by name from elsewhere, or by itself
            return False
        return all(self._is_complete(name, within | {graph}) and self._is_called(name, call) for name, call in sites)

    def _is_called(self, graph: str, call: _Node) -> bool:
        """Tell whether a task or step has all its nodes below each node of its template; those of a loop come late."""
        task, loops = str(call["name"]), any(call.get(loop) for loop in LOOPS)
        callers = self._nodes.get(graph, set())
        return all(self._is_over(node, task) or (not loops and f"{node}.{task}" in self.ended) for node in callers)


def _calls(template: _Node) -> Iterator[_Node]:
    yield from (template.get("dag") or {}).get("tasks") or []
    for group in template.get("steps") or []:
        yield from group or []


def _callee(call: _Node) -> str:
    return str((call.get("templateRef") or {}).get("template") or call.get("template") or "")


class WorkflowContext:
    """A Workflow as a `PipelineContext`, which describes the attributes."""

    container = CONTAINER

    def __init__(self, api: Api, pod: Mapping[str, Any], owner: Mapping[str, Any]) -> None:
        """Watch the Workflow that `owner`, an ownerReference of the launcher's pod, refers to."""
        reference = {key: owner[key] for key in ("apiVersion", "kind", "name", "uid")}
        self.owner: Mapping[str, Any] = {**reference, "blockOwnerDeletion": False}
        self.step = step_of(pod)
        self._node, self._node_id = node_name(pod), node_id(pod)
        self.terminating = self.pending = unknown("the Workflow was not read yet")
        self.recreates_pod = self._recreates_pod(None)
        self._warnings: list[str] = []
        self.failure = ""
        self._api, self._namespace = api, pod["metadata"]["namespace"]
        name, uid = owner["name"], owner["uid"]
        self._selector: dict[str, Any] = {"fieldSelector": f"metadata.name={name}"}
        self._watch = Watch(api, WORKFLOWS, self._namespace, self._on_event, sought=(name, uid), **self._selector)

    @property
    def warnings(self) -> list[str]:
        """See `PipelineContext`. A refusal is reported before the watch gives up: many jobs end earlier."""
        if not self._warnings and self._watch.refused_seconds >= SETTLE_SECONDS:
            self._warn(self._watch.error)
        return self._warnings

    def cleans_up_after(self, step: str, *, detached: bool) -> Answer:
        """Return whether a finalizer cleans up the jobs of another step of its Workflow.

        In a lifecycle hook or an exit handler, it cleans up jobs launched below the node that has ended; elsewhere,
        jobs of the ended steps in the same scope. A job that a step of the Workflow will still wait for is left.
        """
        if node := node_names.hooked(self.step):
            cleaned = known(node_names.lies_within(step, node))
        else:
            cleaned = self._ask(has_ended, step) if self._scope(step) == self._scope(self.step) else NO
        if not detached or cleaned.no or self.ends().yes:
            return cleaned
        return cleaned & ~self._ask(awaited, step, self._find_wait)

    def hooked_succeeded(self) -> Answer:
        """See `PipelineContext`."""
        if step := node_names.hooked(self.step):
            parts = node_names.split(self._node)  # with the tries above it, which may have ended in other ways
            return self._ask(has_succeeded, ".".join(parts[: len(node_names.split(step))]))
        return unknown(f"{self.step} is in no hook or exit handler")

    def ends(self) -> Answer:
        """Return whether the Workflow is ending; read it if the watch has not reported it yet."""
        if self.terminating.unknown and (item := self._item()):
            self._update(item)
        return self.terminating

    # --- overridden by engines that compile to Workflows

    _find_wait: FindWait = staticmethod(find_wait)

    def _scope(self, step: str) -> str:
        """Return the node that contains a step: equal for the steps of one DAG or loop iteration."""
        return node_names.scope(step)

    def _recreates_pod(self, workflow: Mapping[str, Any] | None) -> Answer:
        """Return whether another pod replaces this one if it is lost; `workflow` None = it was not observed yet."""
        if workflow is None:
            return unknown("the Workflow was not read yet")
        return retries_lost_pod(workflow, self._node)

    # --- state

    def _ask(self, question: Callable[..., Answer], *arguments: Any) -> Answer:
        """Ask the Workflow as it was at a finalizer's first request."""
        if isinstance(self._listed, Answer):
            return self._listed
        item = self._item()
        return question(item, *arguments) if item else unknown(f"Workflow {self.owner['name']} is not there")

    def _item(self) -> Mapping[str, Any] | None:
        """Return the Workflow as it was at a finalizer's first request; None = it was not there, or not read."""
        items = [] if isinstance(self._listed, Answer) else self._listed
        return next((item for item in items if item["metadata"]["uid"] == self.owner["uid"]), None)

    @functools.cached_property
    def _listed(self) -> Sequence[Mapping[str, Any]] | Answer:
        """The Workflow as it was at a finalizer's first request, in a list; an Answer = why it could not be read."""
        list_workflows = functools.partial(self._api.list, WORKFLOWS, self._namespace, once=True, **self._selector)
        try:
            items: Sequence[Mapping[str, Any]] = self._api.settled(list_workflows)["items"] or []
        except ApiError as error:
            return unknown(error)
        return items

    def _on_event(self, seen: Seen) -> None:
        """Record the Workflow's state. The watch confirms an absence before it reports it."""
        uid = self.owner["uid"]
        match seen:
            case Listed(items=items):
                workflow = next((item for item in items if item["metadata"]["uid"] == uid), None)
                if workflow is None:
                    self.terminating = YES
                else:
                    self._update(workflow)
            case Changed(item={"metadata": {"uid": changed}} as item) if changed == uid:
                self._update(item)
            case Deleted(item={"metadata": {"uid": deleted}}) if deleted == uid:
                self.terminating = YES
            case Refused(error=error, status=0):
                self.failure = error
            case Refused(error=error):
                self._warn(error)

    def _warn(self, error: str) -> None:
        self._warnings = [f"The Workflow cannot be watched ({error}): SIGTERM alone tells that it is ending."]

    def _update(self, workflow: Mapping[str, Any]) -> None:
        """Record whether the Workflow is ending and, until this pod's node has left Pending, whether a pod follows.

        Other threads read the attributes at any time: each is set once, to its final value.
        """
        self.terminating = known(terminating(workflow))
        if not self.pending.no:
            self.recreates_pod = self._recreates_pod(workflow)
            self.pending = is_pending(workflow, self._node_id)


def find_pipeline(api: Api, pod: Mapping[str, Any]) -> WorkflowContext | None:
    """Return the Workflow that a pod is a step of; None = it is not a pod of a Workflow."""
    owner = controller(pod)
    return WorkflowContext(api, pod, owner) if owner else None

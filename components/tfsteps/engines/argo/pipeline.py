"""The Workflow of a launcher's pod, watched: whether the step is to end, and whether another pod follows."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfsteps.answer import NO, YES, Answer, known, unknown
from tfsteps.engines.argo import node_names
from tfsteps.engines.argo.pending_waits import FindWait, awaited, find_wait
from tfsteps.engines.argo.workflow import (
    WORKFLOWS,
    controller,
    has_ended,
    is_pending,
    node_id,
    node_name,
    retries_lost_pod,
    step_of,
    terminating,
)
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.http_client import SETTLE_SECONDS
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch


class WorkflowContext:
    """A Workflow as a `PipelineContext`, which describes the attributes."""

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

"""The pod that this launcher runs in, and the Workflow that it is a step of: who wants it to end, and why."""

import base64
import contextlib
import functools
import os
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.kube.access import AccessError
from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.logs import PODS
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch
from tfsteps.runs.events import State
from tfsteps.systems.kubernetes.pipeline.finalizer_scope import hooked, is_leaf_of, lies_within, scope
from tfsteps.systems.kubernetes.pipeline.workflow import WORKFLOWS, has_ended, is_pending, retries_lost_pod, terminating

_NAMES = ("KFP_POD_NAME", "POD_NAME")
_KUBEFLOW = "pipelines.kubeflow.org/v2_component"
_TRY = re.compile(r"\((\d+)\)$")


class LauncherImage(msgspec.Struct, frozen=True):
    """The image of this launcher's pod, its pull policy, and the references to its pull secrets."""

    image: str
    pull_policy: str
    pull_secrets: Sequence[Mapping[str, Any]]


class LauncherPod:
    """The launcher's own pod, and its Workflow if it has one.

    Attributes:
        owner: The ownerReference to the Workflow that goes into the job; None = there is no Workflow.
        step: The node of the Workflow whose pods come here to launch, the same over its tries; empty = none.
        image: What the pod runs; None = its spec does not say.
        terminating: Whether the Workflow is known to be ending.
        successor: Whether another pod follows this one if it is evicted or deleted, as far as the Workflow tells.
        warnings: What we may not look at.
        failure: Why the Workflow is no longer watched, by a fault of ours; empty = it is.
    """

    def __init__(self, api: Api, pod: Mapping[str, Any]) -> None:
        """Look at `pod` once and watch its Workflow from now on."""
        self._api = api
        self._namespace = pod["metadata"]["namespace"]
        self._name, self._uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self._node, self._node_id = _node(pod), _annotation(pod, "workflows.argoproj.io/node-id")
        self._kubeflow = _by_kubeflow(pod)
        self.image = _image(pod)
        self.owner = _workflow(pod)
        self.step = step_of(pod) if self.owner else ""
        self.terminating = False
        self.successor = True
        self._settled = self._pending = False
        self.warnings: list[str] = []
        self.failure = ""
        if self.owner:
            name, uid = self.owner["name"], self.owner["uid"]
            self._this: dict[str, Any] = {"fieldSelector": f"metadata.name={name}"}
            Watch(api, WORKFLOWS, self._namespace, self._saw_workflow, sought=(name, uid), **self._this)

    @property
    def workflow(self) -> tuple[str, str, str] | None:
        """Namespace, name and uid of the Workflow; None = there is none."""
        return (self._namespace, self.owner["name"], self.owner["uid"]) if self.owner else None

    @classmethod
    def find(cls, api: Api) -> "LauncherPod | None":
        """Return the pod of this process; None outside of pods, or where we may not read pods."""
        given = [os.environ.get(name) for name in _NAMES]
        name = next((name for name in given if name), "") or _name_in(_token(api)) or socket.gethostname()
        try:
            return cls(api, api.get(PODS, api.access.namespace, name))
        except ApiError as error:
            if error.unavailable:
                raise
            return None

    def leaves_job(self, api: Api, *, new: bool = False) -> bool:
        """Tell whether SIGTERM came because this pod is taken away, and another one will go on with its job.

        While the node is Pending Argo may make the pod again, or, by timing, may have seen it run: that is enough for a
        job that there is something to lose of. Asks nothing where no pod follows: under Kubeflow Pipelines there is a
        tenth of a second to delete the job.

        Args:
            api: The cluster.
            new: This launcher has made the job.
        """
        follows = self.successor or (self._pending and not new)
        return not self.terminating and follows and self.is_taken_away(api)

    def is_taken_away(self, api: Api) -> bool:
        """Tell whether this pod is being evicted or deleted, or is gone; False where it cannot be looked at."""
        try:
            pod = api.get(PODS, self._namespace, self._name)
        except ApiError as error:
            return error.missing
        with contextlib.suppress(*MALFORMED):
            return pod["metadata"]["uid"] != self._uid or _taken_away(pod)  # another uid: the next one is there already
        return False

    def cleans_up_after(self, step: str, *, detached: bool) -> bool:
        """Tell whether this pod's step, a finalizer, is one for the jobs of another step of its Workflow.

        In a lifecycle hook or an exit handler it is for all that was launched below the node that has ended; else for
        the steps beside it that have ended.

        Args:
            step: The node whose pods launch or follow the job.
            detached: The job was left running on purpose, for a `wait` step that has not begun.
        """
        if node := hooked(self.step):
            awaited = detached and is_leaf_of(step, node) and not self.terminating
            return lies_within(step, node) and not awaited
        beside = scope(step, kubeflow=self._kubeflow) == scope(self.step, kubeflow=self._kubeflow)
        return beside and self._has_ended(step)

    def _has_ended(self, step: str) -> bool:
        """Tell whether a step has ended; True where we may not look."""
        return all(has_ended(item, step) for item in self._listed)

    @functools.cached_property
    def _listed(self) -> Sequence[Mapping[str, Any]]:
        """The Workflow as it was when a finalizer first asked; empty where it may not be listed."""
        try:
            items: Sequence[Mapping[str, Any]] = self._api.list(WORKFLOWS, self._namespace, **self._this)["items"] or []
        except ApiError as error:
            if error.unavailable:
                raise
            return []
        return items

    def _saw_workflow(self, seen: Seen) -> None:
        """Learn how our Workflow stands; the watch has confirmed that it is gone before it says so."""
        uid = self.owner["uid"] if self.owner else ""
        match seen:
            case Listed(items=items):
                ours = next((item for item in items if item["metadata"]["uid"] == uid), None)
                self.terminating = True
                if ours is not None:
                    self._look_at(ours)
            case Changed(item={"metadata": {"uid": found}} as item) if found == uid:
                self._look_at(item)
            case Deleted(item={"metadata": {"uid": found}}) if found == uid:
                self.terminating = True
            case Refused(error=error, status=0):
                self.failure = error
            case Refused(error=error):
                words = f"The Workflow cannot be watched ({error}): SIGTERM alone tells that it is ending."
                self.warnings.append(words)

    def _look_at(self, workflow: Mapping[str, Any]) -> None:
        """Learn whether it is ending, and once our node is no longer Pending, for good, whether a pod follows ours.

        The `set_retry` of Kubeflow Pipelines does not cover pods that are lost (observed on 2.15).
        """
        self.terminating = terminating(workflow)
        if not self._settled:
            self.successor = not self._kubeflow and retries_lost_pod(workflow, self._node_id, self._node)
            self._pending = is_pending(workflow, self._node_id)
            self._settled = not self._pending


def next_attempt(last: int, state: State, host: LauncherPod | None, *, reported: bool) -> int:
    """Return which attempt a launcher makes, or goes on with.

    The last one is gone on with until a launcher has reported its end: what nobody has reported is reported now. In an
    engine one that succeeded is reported again: its step is repeated for a lost pod alone.

    Args:
        last: The number of the task's last attempt.
        state: Of its job.
        host: The launcher's pod; None = it is in none.
        reported: Whether its end was reported.
    """
    again = state is State.SUCCEEDED and host is not None and host.owner is not None
    return last + 1 if state.terminal and reported and not again else last


def _image(pod: Mapping[str, Any]) -> LauncherImage | None:
    """Return the image of a launcher's pod: that of Argo's `main`, or of the container that is not a mesh's sidecar."""
    spec = pod.get("spec") or {}
    default = _annotation(pod, "kubectl.kubernetes.io/default-container")
    containers = sorted(spec.get("containers") or [], key=lambda each: each["name"] not in ("main", default))
    if not containers:
        return None
    policy = containers[0].get("imagePullPolicy", "IfNotPresent")
    return LauncherImage(containers[0]["image"], policy, spec.get("imagePullSecrets") or [])


def _taken_away(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    disrupted = any((each.get("type"), each.get("status")) == ("DisruptionTarget", "True") for each in conditions)
    return disrupted or bool(pod["metadata"].get("deletionTimestamp"))


class _Pod(msgspec.Struct):
    name: str = ""


class _Bound(msgspec.Struct):
    pod: _Pod = msgspec.field(default_factory=_Pod)


class _Claims(msgspec.Struct):
    bound: _Bound = msgspec.field(name="kubernetes.io", default_factory=_Bound)


def _token(api: Api) -> str:
    """Return the ServiceAccount's token; empty where it cannot be read, which the first request reports."""
    try:
        return api.access.token(False)
    except (OSError, AccessError):
        return ""


def _name_in(token: str) -> str:
    """Return the name of the pod that a token was made for; empty = it does not say. A host's name may be cut short."""
    try:
        payload = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=="), type=_Claims).bound.pod.name
    except (IndexError, ValueError, msgspec.DecodeError):
        return ""


def _workflow(pod: Mapping[str, Any]) -> dict[str, Any] | None:
    for owner in pod["metadata"].get("ownerReferences") or []:
        ours = (owner["apiVersion"], owner["kind"]) == (WORKFLOWS.api, WORKFLOWS.kind)  # others have such a kind, too
        if ours and owner.get("controller"):
            return {**{key: owner[key] for key in ("apiVersion", "kind", "name", "uid")}, "blockOwnerDeletion": False}
    return None


def step_of(pod: Mapping[str, Any]) -> str:
    """Return the name of a pod's node in its Workflow, without the number of the try; empty = it has none."""
    return _TRY.sub("", _node(pod))


def _by_kubeflow(pod: Mapping[str, Any]) -> bool:
    meta = pod["metadata"]
    return _KUBEFLOW in {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}


def _node(pod: Mapping[str, Any]) -> str:
    return _annotation(pod, "workflows.argoproj.io/node-name")


def _annotation(pod: Mapping[str, Any], name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))

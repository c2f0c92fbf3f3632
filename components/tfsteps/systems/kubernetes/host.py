"""The pod that this launcher runs in, and the Workflow that it is a step of: who wants it to end, and why."""

import base64
import os
import re
import socket
from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps.cluster.api import Api, ApiError, Resource
from tfsteps.cluster.logs import PODS
from tfsteps.cluster.watch import Changed, Deleted, Listed, Refused, Seen, Watch
from tfsteps.systems.kubernetes.scope import scope

WORKFLOWS = Resource("argoproj.io/v1alpha1", "workflows", "Workflow")
_NAMES = ("KFP_POD_NAME", "POD_NAME")
_KUBEFLOW = "pipelines.kubeflow.org/v2_component"
_TRY = re.compile(r"\((\d+)\)$")


class Host:
    """The launcher's own pod, and its Workflow if it has one.

    Attributes:
        owner: The ownerReference to the Workflow that goes into the job; None = there is no Workflow.
        attempt: Which try of its step this pod is; None = there is no Workflow.
        step: The node of the Workflow whose pods come here to launch, the same over its tries; empty = none.
        scope: The node that this step's lies in, and its siblings' lie in; None = there is no Workflow.
        terminating: Whether the Workflow is known to be ending.
        warnings: What we may not look at.
    """

    def __init__(self, api: Api, pod: Mapping[str, Any]) -> None:
        """Look at `pod` once and watch its Workflow from now on."""
        self._namespace = pod["metadata"]["namespace"]
        self._name, self._uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self.owner = _workflow(pod)
        self.attempt = _attempt(pod) if self.owner else None
        self.step = step_of(pod) if self.owner else ""
        self.scope = scope(self.step, kubeflow=_by_kubeflow(pod)) if self.owner else None
        self.terminating = False
        self.warnings: list[str] = []
        if self.owner:
            Watch(
                api, WORKFLOWS, self._namespace, self._saw_workflow, fieldSelector=f"metadata.name={self.owner['name']}"
            )

    @classmethod
    def find(cls, api: Api) -> "Host | None":
        """Return the pod of this process; None outside of pods, or where we may not read pods."""
        given = [os.environ.get(name) for name in _NAMES]
        name = next((name for name in given if name), "") or _name_in(api.access.token(False)) or socket.gethostname()
        try:
            return cls(api, api.get(PODS, api.access.namespace, name))
        except ApiError as error:
            if error.unavailable:
                raise
            return None

    def evicted(self, api: Api) -> bool:
        """Tell whether this pod is taken away while its Workflow goes on: its next one will go on with our work."""
        if self.terminating:
            return False
        try:
            pod = api.get(PODS, self._namespace, self._name)
        except ApiError as error:
            return error.missing
        if pod["metadata"]["uid"] != self._uid:  # the next one is there already
            return True
        conditions = pod.get("status", {}).get("conditions") or []
        disrupted = any(each["type"] == "DisruptionTarget" and each["status"] == "True" for each in conditions)
        return bool(pod["metadata"].get("deletionTimestamp")) or disrupted

    def _saw_workflow(self, seen: Seen) -> None:
        match seen:
            case Listed(items=[item, *_]) | Changed(item=item):
                self.terminating = terminating(item)
            case Listed(items=[]) | Deleted():
                self.terminating = True
            case Refused(error=error):
                words = f"The Workflow cannot be watched ({error}): SIGTERM alone tells that it is ending."
                self.warnings.append(words)


class _Pod(msgspec.Struct):
    name: str = ""


class _Bound(msgspec.Struct):
    pod: _Pod = msgspec.field(default_factory=_Pod)


class _Claims(msgspec.Struct):
    bound: _Bound = msgspec.field(name="kubernetes.io", default_factory=_Bound)


def _name_in(token: str) -> str:
    """Return the name of the pod that a token was made for; empty = it does not say. A host's name may be cut short."""
    try:
        payload = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=="), type=_Claims).bound.pod.name
    except (IndexError, ValueError, msgspec.DecodeError):
        return ""


def _workflow(pod: Mapping[str, Any]) -> dict[str, Any] | None:
    for owner in pod["metadata"].get("ownerReferences") or []:
        if owner["kind"] == WORKFLOWS.kind and owner.get("controller"):
            return {**{key: owner[key] for key in ("apiVersion", "kind", "name", "uid")}, "blockOwnerDeletion": False}
    return None


def _attempt(pod: Mapping[str, Any]) -> int:
    """Return the number at the end of the node's name: `train.executor(2)`; a step without retries has none."""
    found = _TRY.search(_node(pod))
    return int(found[1]) if found else 0


def step_of(pod: Mapping[str, Any]) -> str:
    """Return the name of a pod's node in its Workflow, without the number of the try; empty = it has none."""
    return _TRY.sub("", _node(pod))


def _by_kubeflow(pod: Mapping[str, Any]) -> bool:
    meta = pod["metadata"]
    return _KUBEFLOW in {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}


def _node(pod: Mapping[str, Any]) -> str:
    return str((pod["metadata"].get("annotations") or {}).get("workflows.argoproj.io/node-name", ""))


def terminating(workflow: Mapping[str, Any]) -> bool:
    """Tell whether a Workflow is stopped, terminated (as Kubeflow Pipelines does: no time left) or being deleted."""
    spec = workflow.get("spec", {})
    return bool(
        spec.get("shutdown") or spec.get("activeDeadlineSeconds") == 0 or workflow["metadata"].get("deletionTimestamp")
    )

"""The pod of this launcher: its image, its pipeline, and whether it is being evicted."""

import base64
import contextlib
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.kube import threads
from tfsteps.kube.access import AccessError
from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.logs import PODS
from tfsteps.runs.identity import MANAGED_BY, STEP, Identity
from tfsteps.systems.pipeline import FindPipeline, PipelineContext

_NAMES = ("KFP_POD_NAME", "POD_NAME")


class LauncherImage(msgspec.Struct, frozen=True):
    """The image of this launcher's pod, its pull policy, and the references to its pull secrets."""

    image: str
    pull_policy: str
    pull_secrets: Sequence[Mapping[str, Any]]


class LauncherPod:
    """The launcher's own pod.

    Attributes:
        namespace: Its namespace.
        image: The image of the pod; None = not in its spec.
        pipeline: The pipeline that it is a step of; None = no pipeline.
    """

    def __init__(self, api: Api, pod: Mapping[str, Any], find_pipeline: FindPipeline | None = None) -> None:
        """Read `pod` once; `find_pipeline` None = no pipeline."""
        self.namespace = str(pod["metadata"]["namespace"])
        self._name, self._uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self._labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
        self.image = _image(pod)
        self.pipeline: PipelineContext | None = find_pipeline(api, pod) if find_pipeline else None

    @classmethod
    def find(cls, api: Api, find_pipeline: FindPipeline | None) -> "LauncherPod | None":
        """Return the pod of this process; None outside of pods, or without the permission to read pods."""
        names = [os.environ.get(name) for name in _NAMES]
        name = next((name for name in names if name), "") or _name_in(_token(api)) or socket.gethostname()
        try:
            pod = api.get(PODS, api.access.namespace, name)
        except ApiError as error:
            if error.unavailable:
                raise
            return None
        return cls(api, pod, find_pipeline)

    def label(self, api: Api, identity: Identity, step: str = "") -> threading.Thread | None:
        """Label the pod as the launcher of a job, in a thread, if it is the pod of a step: then its run is found by it.

        Sent once. A failure changes nothing: the permission to patch pods is optional. The pod does not get the label
        `managed-by`, by which jobs and their pods are selected.

        Args:
            api: The cluster.
            identity: The launcher's.
            step: The component; empty = the label of the component is not changed.

        Returns:
            The thread; None = there is nothing to send.
        """
        labels = {key: text for key, text in identity.labels().items() if key not in MANAGED_BY}
        labels |= {STEP: step} if step else {}
        missing = {key: text for key, text in labels.items() if self._labels.get(key) != text}
        if self.pipeline is None or not missing:
            return None
        path, body = PODS.path(self.namespace, self._name), {"metadata": {"uid": self._uid, "labels": missing}}
        return threads.start("label", lambda: api.send("PATCH", path, body=body), lambda _error: None)

    def leaves_job(self, api: Api, *, new: bool = False) -> bool:
        """Tell whether SIGTERM came because this pod is being evicted, and another pod will continue its job.

        If the engine still sees this pod as pending, it may create the pod again, but not if it has just seen it run.
        A job with progress is left running for that chance; a new job is not. Without a successor no request is sent:
        under Kubeflow Pipelines there is a tenth of a second to delete the job.

        Args:
            api: The cluster.
            new: This launcher has created the job.
        """
        pipeline = self.pipeline
        terminating = pipeline is not None and pipeline.terminating
        follows = pipeline is None or pipeline.recreates_pod or (pipeline.pending and not new)
        return follows and not terminating and self.is_taken_away(api)

    def is_taken_away(self, api: Api) -> bool:
        """Tell whether this pod is being evicted or deleted, or is gone; False if it cannot be read."""
        try:
            pod = api.get(PODS, self.namespace, self._name)
        except ApiError as error:
            return error.missing
        with contextlib.suppress(*MALFORMED):
            return pod["metadata"]["uid"] != self._uid or _taken_away(pod)  # another uid: the successor exists already
        return False


def _image(pod: Mapping[str, Any]) -> LauncherImage | None:
    """Return the image of a launcher's pod: of Argo's container `main`, or of the default container."""
    spec = pod.get("spec") or {}
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    names = ("main", default)
    containers = sorted(spec.get("containers") or [], key=lambda container: container["name"] not in names)
    if not containers:
        return None
    policy = containers[0].get("imagePullPolicy", "IfNotPresent")
    return LauncherImage(containers[0]["image"], policy, spec.get("imagePullSecrets") or [])


def _taken_away(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    disrupted = any((item.get("type"), item.get("status")) == ("DisruptionTarget", "True") for item in conditions)
    return disrupted or bool(pod["metadata"].get("deletionTimestamp"))


class _Pod(msgspec.Struct):
    name: str = ""


class _Bound(msgspec.Struct):
    pod: _Pod = msgspec.field(default_factory=_Pod)


class _Claims(msgspec.Struct):
    bound: _Bound = msgspec.field(name="kubernetes.io", default_factory=_Bound)


def _token(api: Api) -> str:
    """Return the ServiceAccount's token; empty if it cannot be read, which the first request reports."""
    try:
        return api.access.token(False)
    except (OSError, AccessError):
        return ""


def _name_in(token: str) -> str:
    """Return the name of the pod that a token is bound to; empty = none. A host name may be shortened."""
    try:
        payload = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=="), type=_Claims).bound.pod.name
    except (IndexError, ValueError, msgspec.DecodeError):
        return ""

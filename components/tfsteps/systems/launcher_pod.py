"""The pod of this launcher: its image, its pipeline, and whether it is being evicted."""

import base64
import contextlib
import datetime as dt
import functools
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tfsteps import typed_json
from tfsteps.answer import NO, YES, Answer, unknown
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube import threads
from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.resource import PODS
from tfsteps.runs.demo import Mark, mark_of
from tfsteps.runs.identity import CLUSTER, MANAGED_BY, STEP, Identity, label_value
from tfsteps.systems.pipeline import FindPipeline, PipelineContext

if TYPE_CHECKING:
    from tfsteps.kube.client import Api

_NAMES = ("KFP_POD_NAME", "POD_NAME")
_GRACE_SECONDS, _REPORT_SECONDS = 30, 5  # Kubernetes' default; what a launcher needs of it to write its records
_ANSWER_SECONDS = 3.0
_DISRUPTED = ("DisruptionTarget", "True")  # type and status of the condition of a pod that is being evicted
_SIGN_SECONDS = 1.0
"""The kubelet sends SIGTERM before its report of an eviction reaches the API server."""


class LauncherImage(msgspec.Struct, frozen=True):
    """The image of this launcher's pod, its pull policy, and the references to its pull secrets."""

    image: str
    pull_policy: str
    pull_secrets: Sequence[Mapping[str, Any]]


class LauncherPod:
    """The launcher's own pod.

    Attributes:
        namespace: Its namespace.
        uid: Its uid; empty = not known.
        unread: Why the pod could not be read; empty = it was read. Until then image and pipeline are not known.
        image: The image of the pod; None = not in its spec, or not known.
        pipeline: The pipeline that it is a step of; None = no pipeline, or not known.
        demo: The mark of a demo, which its jobs get, too; None = it is none, or not known.
        grace_seconds: After SIGTERM, how long the launcher may ask for what it does not know.
    """

    def __init__(self, api: "Api", namespace: str, name: str, find_pipeline: FindPipeline | None = None) -> None:
        """Send no request; `api` is for the pipeline, `find_pipeline` None = no pipeline."""
        self.namespace = namespace
        self.unread = "it was not asked for"
        self.image: LauncherImage | None = None
        self.pipeline: PipelineContext | None = None
        self.demo: Mark | None = None
        self.grace_seconds = float(_GRACE_SECONDS - _REPORT_SECONDS)
        self._api = api
        self._name, self._find_pipeline = name, find_pipeline
        self.uid = ""
        self._clients: Sequence[Api] = ()  # of this pod's cluster, if the job is on another one
        self._labels: Mapping[str, str] = {}
        self._deleting = False
        self._unwatched = ""  # why this pod is not watched; empty = it is, or that was not begun

    @classmethod
    def find(cls, api: "Api", find_pipeline: FindPipeline | None) -> "LauncherPod":
        """Return the pod of this process, which runs in a pod.

        A refusal is believed only after some seconds. Then, and after a stop, the pod is `unread`, and the next
        question reads it again.

        Raises:
            ApiError: The server does not answer.
        """
        names = [os.environ.get(name) for name in _NAMES]
        name = next((name for name in names if name), "") or _name_in(_token(api)) or socket.gethostname()
        # not stopped with the start; nor a client of urgent requests, whose watch would end at the first refusal
        pod = cls(api.copy(), api.access.namespace, name, find_pipeline)
        try:
            pod.read(api.settled(functools.partial(api.get, PODS, pod.namespace, name, once=True)))
        except Stopped:
            pod.unread = "the launcher was stopped before"
        except MALFORMED as error:
            pod.unread = f"its object is not understood: {error!r}"
        except ApiError as error:
            if error.unavailable:
                raise
            pod.unread = str(error)
        return pod

    @classmethod
    def of(cls, api: "Api", item: Mapping[str, Any], find_pipeline: FindPipeline | None = None) -> "LauncherPod":
        """Return the launcher's pod from its object."""
        pod = cls(api, str(item["metadata"]["namespace"]), str(item["metadata"]["name"]), find_pipeline)
        pod.read(item)
        return pod

    def read(self, item: Mapping[str, Any]) -> None:
        """Take what is needed from the pod's object, and watch its pipeline."""
        self.uid = item["metadata"]["uid"]
        self._labels = item["metadata"].get("labels") or {}
        self.demo = mark_of(item)
        grace = (item.get("spec") or {}).get("terminationGracePeriodSeconds", _GRACE_SECONDS)
        self.grace_seconds = max(1.0, float(grace) - _REPORT_SECONDS)
        self.pipeline = self._find_pipeline(self._api, item) if self._find_pipeline else None
        self.image = _image(item, getattr(self.pipeline, "container", ""))  # engines of other packages may not say it
        self.unread = ""

    @property
    def warnings(self) -> list[str]:
        """Warnings about what is not known of the pod or its pipeline; the list of a pipeline grows."""
        pod = f"its own pod {self.namespace}/{self._name}"
        unwatched = f"This launcher cannot watch {pod} ({self._unwatched}): if it gets no SIGTERM, its job is left."
        warnings = [unwatched] if self._unwatched else []
        if not self.unread:
            return [*(self.pipeline.warnings if self.pipeline else []), *warnings]
        what = f"This launcher cannot read {pod} ({self.unread})"
        return [f"{what}: if it belongs to a pipeline, the end of the pipeline does not delete the job.", *warnings]

    def namespace_uid(self) -> str:
        """Return the uid of the pod's namespace; empty = it may not be read. ApiError if that is not known."""
        return self._api.namespace_uid(self.namespace)

    def launch_elsewhere(self) -> None:
        """Note that the job is on another cluster: it has no owner, and its clients know nothing of this pod."""
        self._clients = [self._api.without_retries(_ANSWER_SECONDS) for _ in range(2)]

    def passed_on(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Return the metadata of the job with its owner, and with the mark of a demo."""
        if self.demo:
            metadata = self.demo.put(metadata)
        return {**metadata, "ownerReferences": [self.owner]} if self.owner else metadata

    @property
    def owner(self) -> Mapping[str, Any] | None:
        """The ownerReference of the job; None = the job has no owner, because an owner must be on its own cluster."""
        return self.pipeline.owner if self.pipeline and not self._clients else None

    def label(self, api: "Api", identity: Identity, step: str = "", cluster: str = "") -> threading.Thread | None:
        """Label the pod as the launcher of a job, in a thread, if it is the pod of a step: then its run is found by it.

        Sent once. A failure changes nothing: the permission to patch pods is optional. The pod does not get the label
        `managed-by`, by which jobs and their pods are selected.

        Args:
            api: The pod's cluster.
            identity: The launcher's.
            step: The component; empty = the label of the component is not changed.
            cluster: The name of the job's cluster; empty = the pod's.

        Returns:
            The thread; None = there is nothing to send.
        """
        labels = {key: text for key, text in identity.labels().items() if key not in MANAGED_BY}
        labels |= {STEP: step} if step else {}
        labels |= {CLUSTER: label_value(cluster)} if cluster else {}
        missing = {key: text for key, text in labels.items() if self._labels.get(key) != text}
        if self.pipeline is None or not missing:
            return None
        path, body = PODS.path(self.namespace, self._name), {"metadata": {"uid": self.uid, "labels": missing}}
        return threads.start("label", lambda: api.send("PATCH", path, body=body), lambda _error: None)

    def followed(self, *, new: bool = False) -> Answer:
        """Return whether another pod will continue the job of this one if this one is being evicted. Sends no request.

        If the engine still sees this pod as pending, it may create the pod again, but not if it has just seen it run.
        A job with progress is left running for that chance; a `new` job, which this launcher has just created, is not.
        """
        if self.unread:
            return unknown(self.unread)
        if self.pipeline is None:
            return YES
        if self.pipeline.terminating.yes:
            return NO
        pending = NO if new or self.pipeline.pending.no else unknown("the engine may create this pod again")
        return self.pipeline.recreates_pod | pending

    @contextlib.contextmanager
    def watch_deletion(self, begins: Callable[[float], object]) -> Iterator[None]:
        """Call `begins` once, in another thread, when this pod's deletion has begun, within the block or before.

        The API server knows of a deletion or eviction 0.1 to 0.3 s before SIGTERM (observed with Kubeflow Pipelines
        2.15). What ends a pod in another way, or comes before the watch shows it, is found out after SIGTERM.

        Args:
            begins: Takes the seconds until this process is killed; 0 = it may be at any time.
        """
        from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch  # noqa: PLC0415  most commands need none

        api, uid = self._api.copy(), self.uid
        sought = (self._name, uid) if uid else None  # else the pod could not be read yet

        def saw(seen: Seen) -> None:
            match seen:
                case Listed(items=items):
                    listed = [item["metadata"] for item in items if item["metadata"]["uid"] == self.uid]
                    left = _seconds_left(listed[0], api.server_time()) if listed else 0.0 if sought else None
                case Changed(item={"metadata": meta}) if meta["uid"] == self.uid:
                    left = _seconds_left(meta, api.server_time())
                case Deleted(item={"metadata": meta}) if meta["uid"] == self.uid:
                    left = 0.0
                case Refused(error=error):
                    self._unwatched = error
                    return
                case _:
                    return
            if left is not None and not (self._deleting or api.stopping.is_set()):
                self._deleting = True
                begins(left)

        Watch(api, PODS, self.namespace, saw, sought=sought, fieldSelector=f"metadata.name={self._name}")
        try:
            yield
        finally:
            api.stopping.set()

    def is_taken_away(self, api: "Api", since: float) -> Answer:
        """Return whether this pod is being evicted or deleted, or is gone; no only from a second after SIGTERM on.

        `api` is a client of the job's cluster; in a signal handler, one that nothing else uses.
        """
        if self.unread:
            return unknown(self.unread)
        if self._deleting:
            return YES
        try:
            pod = self._client(api, urgent=not since).get(PODS, self.namespace, self._name, once=True)
            meta, conditions = pod["metadata"], (pod.get("status") or {}).get("conditions") or []
            disrupted = any((item.get("type"), item.get("status")) == _DISRUPTED for item in conditions)
            if meta["uid"] != self.uid or disrupted or meta.get("deletionTimestamp"):  # another uid: its successor
                return YES
        except (ApiError, *MALFORMED) as error:
            gone = isinstance(error, ApiError) and error.missing and error.about == self._name
            return YES if gone else unknown(error)
        return NO if since >= _SIGN_SECONDS else unknown("nothing shows yet why this pod got SIGTERM")

    def retry_read(self, api: "Api") -> None:
        """Read the pod if that failed before, by a client of the job's cluster. Not for a signal handler."""
        if self.unread:
            try:
                self.read(self._client(api).get(PODS, self.namespace, self._name, once=True))
            except (ApiError, *MALFORMED) as error:
                self.unread = str(error)

    def _client(self, job_api: "Api", *, urgent: bool = False) -> "Api":
        """Return a client of the pod's cluster; `urgent` = one for a signal handler, which must wait for no lock."""
        return self._clients[urgent] if self._clients else job_api


def _seconds_left(metadata: Mapping[str, Any], now: float | None) -> float | None:
    """Return how long a pod has until it is killed; None = it is not being deleted. `now` is the server's clock."""
    if (at := metadata.get("deletionTimestamp")) is None:
        return None
    grace = float(metadata.get("deletionGracePeriodSeconds") or 0.0)
    return grace if now is None else min(grace, max(0.0, dt.datetime.fromisoformat(at).timestamp() - now))


def _image(pod: Mapping[str, Any], container: str) -> LauncherImage | None:
    """Return the image of a launcher's pod: that of the container of this name, of the default one, or of the first."""
    spec = pod.get("spec") or {}
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    names = {default: 1, container: 0}
    containers = sorted(spec.get("containers") or [], key=lambda item: names.get(item["name"], 2))
    if not containers:
        return None
    policy = containers[0].get("imagePullPolicy", "IfNotPresent")
    return LauncherImage(containers[0]["image"], policy, spec.get("imagePullSecrets") or [])


class _BoundPod(msgspec.Struct):
    name: str = ""


class _Bound(msgspec.Struct):
    pod: _BoundPod = msgspec.field(default_factory=_BoundPod)


class _Claims(msgspec.Struct):
    bound: _Bound = msgspec.field(name="kubernetes.io", default_factory=_Bound)


def _token(api: "Api") -> str:
    """Return the ServiceAccount's token; empty if it cannot be read, which the first request reports."""
    try:
        return api.access.token(False)
    except (OSError, AccessError):
        return ""


def _name_in(token: str) -> str:
    """Return the name of the pod that a token is bound to; empty = none. A host name may be shortened."""
    try:
        payload = token.split(".")[1]
        return typed_json.decode(base64.urlsafe_b64decode(payload + "=="), _Claims).bound.pod.name
    except (IndexError, ValueError, *NOT_READABLE):
        return ""

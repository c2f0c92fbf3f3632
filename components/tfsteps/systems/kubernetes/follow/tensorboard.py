"""The TensorBoards of jobs: created, adopted, or found if the operator runs one, beside what follows the job.

`serve` starts the TensorBoard of a job description, without a job object, and waits until it serves.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfsteps import typed_json
from tfsteps.image import unqualified
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube import access
from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.resource import PODS
from tfsteps.runs.demo import check_changeable, mark_of
from tfsteps.runs.identity import Identity
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.dependents import create_dependent
from tfsteps.systems.kubernetes.follow.pods import pod
from tfsteps.systems.kubernetes.job_kind import JobKind, tensorboard_address, true_conditions
from tfsteps.systems.kubernetes.permissions import JOBS, SERVICES, TENSORBOARDS, how_to_opt_in
from tfsteps.systems.kubernetes.tensorboard import manifests
from tfsteps.systems.kubernetes.tensorboard.request import (
    KUBEFLOW,
    SETTINGS,
    URL,
    NoStorageError,
    TensorBoardRequest,
    TensorBoardSettings,
    request_for,
    request_of,
)
from tfsteps.systems.kubernetes.times import by_age, seconds
from tfsteps.tensorboard.address import public_url

START_SECONDS = 300.0
"""How long `serve` waits for a start: enough for an image of 1 GB, and for a node that is added."""

_SERVE_POLL_SECONDS = 1.0
_PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 3.0
_LAST_SECONDS = 2.0  # for a start that has not finished when the job ends
_DELETION_SECONDS = 60.0
_PAUSE_SECONDS = 0.5


class JobTensorBoard:
    """The TensorBoard of one job. Its errors are warnings: it never fails or delays the job.

    Attributes:
        url: Its address; empty = none yet.
        warning: Why there is none, or why it may show nothing; empty = no problem.
    """

    def __init__(
        self,
        api: Api,
        kind: JobKind,
        item: Callable[[], Mapping[str, Any]],
        age: Callable[[], float],
        *,
        required: bool,
    ) -> None:
        """Prepare; no request is sent.

        Args:
            api: The cluster.
            kind: The kind of the job.
            item: Returns the job object as it was last seen; of an attached job, only its metadata at first.
            age: Returns the job's age in seconds.
            required: Whether the job asks for a TensorBoard; else there is no thread and no request.
        """
        self.url = self.warning = ""
        self._api = api.copy(_PATIENCE_SECONDS)
        self._kind, self._item, self._age, self._required = kind, item, age, required
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tensorboard", daemon=True)

    def start(self) -> None:
        """Start the thread, if the job asks for a TensorBoard."""
        if self._required:
            self._thread.start()

    def end(self) -> None:
        """Stop waiting for a TensorBoard: the job has ended. A running start gets two seconds more."""
        if not self._required:
            return
        ours = SETTINGS in self._annotations()
        if ours:
            self._thread.join(_LAST_SECONDS)
        self._ended.set()
        self._api.stopping.set()
        if self.url or self.warning:
            return
        if ours:
            self.warning = "There is no TensorBoard: the cluster did not create it before the job ended."
        elif link := self._kind.tensorboard_link(self._item()):
            self.url = tensorboard_address(self._api.copy(_LAST_SECONDS), link, self._item()["metadata"]["namespace"])
            self.warning = f"The TensorBoard is not ready: {link.note}." if link.note else ""

    def _run(self) -> None:
        try:
            while "spec" not in self._item():
                if self._ended.wait(0.1):
                    return
            if SETTINGS in self._annotations():
                self.url = self._start()
                self._annotate()
            else:
                self._find()
        except (ApiError, NoStorageError, ValueError) as error:
            fix = how_to_opt_in("tensorboard", error)
            self.warning = f"There is no TensorBoard: {error}{fix and f'; {fix}'}."
        except MALFORMED as error:
            self.warning = f"There is no TensorBoard: an answer of the cluster is not understood: {error!r}."
        except Stopped:
            return

    def _start(self) -> str:
        item = self._item()
        try:
            settings = typed_json.decode(self._annotations()[SETTINGS], TensorBoardSettings)
        except NOT_READABLE as error:
            raise ValueError(f"the job's annotation {SETTINGS} is not valid: {error}") from error
        specs = [role.template["spec"] for role in self._kind.roles(item).values()]
        request = request_of(item, specs, self._kind.container, settings)
        return start(self._api, request, max(0.0, settings.total - self._age()))

    def _find(self) -> None:
        """Wait for the address of the operator's TensorBoard, while the job runs."""
        while not self.url:
            link = self._kind.tensorboard_link(self._item())
            self.url = tensorboard_address(self._api, link, self._item()["metadata"]["namespace"]) if link else ""
            if self.url or self._ended.wait(_POLL_SECONDS):
                return

    def _annotate(self) -> None:
        """Write the address to the job object, for commands that did not start it."""
        meta = self._item()["metadata"]
        if self._annotations().get(URL) != self.url:
            patch = {"metadata": {"uid": meta["uid"], "annotations": {URL: self.url}}}
            with contextlib.suppress(ApiError):  # the launcher knows the address in any case
                self._api.patch(self._kind.resource, meta["namespace"], meta["name"], patch)

    def _annotations(self) -> Mapping[str, str]:
        return self._item()["metadata"].get("annotations") or {}


def serve(job: TrainingJob, identity: Identity, log_dir: str, say: Callable[[str], None]) -> str:
    """Start the TensorBoard of a job description, wait until it serves, and return its address.

    Args:
        job: The job.
        identity: The run.
        log_dir: Folder or URI of the event files; empty = the folder of the run.
        say: Receives a line when the reason for waiting changes.

    Raises:
        NoStorageError: No pod can read the log directory.
        LaunchError: The cluster refuses it, a setting is not valid, or it does not start in time.
    """
    try:
        api = Api(access.find())
        request = request_for(job, identity, api.access.namespace, log_dir)
        url = start(api, request, job.deadlines.total)
    except (AccessError, ValueError) as error:
        raise LaunchError(str(error), retryable=False) from error
    except ApiError as error:
        raise LaunchError(str(error), retryable=error.unavailable) from error
    _await_ready(api, request, say)
    return url


def _await_ready(api: Api, request: TensorBoardRequest, say: Callable[[str], None]) -> None:
    began, printed = time.monotonic(), ""
    while reason := waits_for(api, request):
        waited = time.monotonic() - began
        if waited > START_SECONDS:
            wrong = f"TensorBoard {request.namespace}/{request.name} did not start within {waited:.0f} s: {reason}"
            raise LaunchError(f"{wrong}; Kubernetes goes on trying", retryable=True)
        if reason != printed:
            say(f"waiting for TensorBoard {request.namespace}/{request.name}: {reason}")
            printed = reason
        time.sleep(_SERVE_POLL_SECONDS)


def waits_for(api: Api, request: TensorBoardRequest) -> str:
    """Return what the pod of a TensorBoard waits for, or the refusal of this request; empty = the pod is ready."""
    try:
        items = by_age(api.list(PODS, request.namespace, labelSelector=manifests.selector(request))["items"] or [])
    except ApiError as error:
        return str(error)
    if not items:
        return "it has no pod yet; a quota may be exhausted (`kubectl describe job` shows it)"
    if "Ready" in true_conditions(items[-1]):
        return ""
    state = pod(items[-1], manifests.CONTAINER)
    return ": ".join(filter(None, (f"pod {state.name} is {state.state}", state.reason, state.message)))


def start(api: Api, request: TensorBoardRequest, remaining: float = 0.0) -> str:
    """Create a TensorBoard, or adopt the run's, and return its address. It need not be ready yet.

    One that has ended is replaced: its data is on the storage.

    Args:
        api: The cluster.
        request: What to start.
        remaining: Seconds for which the training may still go on.

    Raises:
        DemoError: The one that has ended is a demo.
        ApiError: The cluster refuses an object; nothing is left of the others that were created here.
        NoStorageError: Kubeflow's TensorBoard cannot read the log directory; nothing was created.
        ValueError: The setting of the public address is not valid, or no registry is set for the image.
        Stopped: The client's `stopping` was set.
    """
    address = public_url(request.namespace, request.name)
    dependent = manifests.dependent(request)
    manifest = manifests.job(request, address, remaining)
    if wrong := unqualified(manifest):
        raise ValueError(f"{wrong[0]}; or set tensorboard.image")
    item, is_new = _created(api, request, manifest)
    if not is_new:
        _extend(api, item, manifest)
    meta = item["metadata"]
    owner = {"apiVersion": JOBS.api, "kind": JOBS.kind, "name": meta["name"], "uid": meta["uid"]}
    dependent["metadata"]["ownerReferences"] = [owner]
    try:
        create_dependent(api, request.namespace, dependent)
    except ApiError as error:
        if is_new:  # another task may use the one that was there
            api.delete(JOBS, request.namespace, request.name, meta["uid"])
        if error.status == 404 and request.settings.via == KUBEFLOW:
            served = f"{TENSORBOARDS.kind} ({TENSORBOARDS.api})"
            raise ApiError(f"the cluster serves no {served}; remove `via`", 404) from error
        raise
    return address or service_url(api, request.namespace, request.name, request.port)


def service_url(api: Api, namespace: str, name: str, port: str = "http") -> str:
    """Return the address of a Service: inside of this pod's cluster, else through the API server."""
    if api.access.in_pod:
        return f"http://{name}.{namespace}.svc/"
    return api.access.server + proxy_path(namespace, name, port)


def proxy_path(namespace: str, name: str, port: str = "http") -> str:
    """Return the path by which the API server forwards requests to a Service."""
    return SERVICES.path(namespace, f"{name}:{port}", "proxy/")


def _created(api: Api, request: TensorBoardRequest, manifest: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Return the Job, after it was created or adopted, and whether it was created."""
    give_up = time.monotonic() + _DELETION_SECONDS
    while True:
        try:
            return api.create(JOBS, request.namespace, manifest), True
        except ApiError as error:
            if error.status != 409:
                raise
            refusal = error
        try:
            item = api.get(JOBS, request.namespace, request.name)
        except ApiError as error:
            if not error.missing:
                raise
            item = None
        if item and not has_ended(item) and "deletionTimestamp" not in item["metadata"]:
            return item, False
        if time.monotonic() > give_up:
            raise refusal
        if item and "deletionTimestamp" not in item["metadata"]:
            check_changeable(JOBS, item)
            api.delete(JOBS, request.namespace, request.name, item["metadata"]["uid"])
        if api.stopping.wait(_PAUSE_SECONDS):
            raise Stopped


def has_ended(item: Mapping[str, Any]) -> bool:
    """Tell whether the Job of a TensorBoard is complete or has failed."""
    return not true_conditions(item).keys().isdisjoint({"Complete", "Failed"})


def _extend(api: Api, item: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Give an adopted TensorBoard the later deadline of a further task, unless it is a demo."""
    if mark_of(item):
        return
    age = max(0.0, (api.server_time() or 0.0) - (seconds(item["metadata"].get("creationTimestamp")) or 0.0))
    deadline = round(age) + manifest["spec"]["activeDeadlineSeconds"] if age > 1 else 0
    if deadline > ((item.get("spec") or {}).get("activeDeadlineSeconds") or deadline) + 1:
        meta = item["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "spec": {"activeDeadlineSeconds": deadline}}
        api.patch(JOBS, meta["namespace"], meta["name"], patch)

"""Follows a job object on a cluster: its events, its logs, its end."""

import contextlib
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from tfsteps.image import TENSORBOARD_IMAGE
from tfsteps.kube.backoff import StopFlag
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS
from tfsteps.runs.events import Event, State, Verdict, replicas_of
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import REPORT_SECONDS, Cause, LaunchError
from tfsteps.systems.followed_job import FollowedJob
from tfsteps.systems.kubernetes.cleanup.keeper import JobOwner, detach_job, ends_with
from tfsteps.systems.kubernetes.dependents import apply
from tfsteps.systems.kubernetes.follow.following import Following
from tfsteps.systems.kubernetes.follow.job_object import REPLICAS, annotation
from tfsteps.systems.kubernetes.follow.tensorboard import JobTensorBoard
from tfsteps.systems.kubernetes.follow.tracker import Tracker
from tfsteps.systems.kubernetes.job_cluster import kubectl_delete
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.times import seconds
from tfsteps.systems.launcher_pod import LauncherPod
from tfsteps.systems.stop_controller import Clients, Detachment

_URGENT_SECONDS = 3.0  # for an answer to the deletion: the next signal is handled only after it
_OPERATOR_SECONDS = 5.0  # in which the operator may end a job that restarts too often, and keep its object
_READ_PATIENCE_SECONDS = 10.0  # with the API server, to run the volume reader
_DELETED_AT_ONCE = 8  # pods: one after another, a thousand keep the step for a quarter of a minute
_NEW_SECONDS = 60.0  # a job that is younger has no progress to lose
_DENIED_SECONDS = {Cause.CANCELLED: 20.0, Cause.LAUNCHER: 20.0, Cause.DEADLINE: 300.0}
"""How long a denied deletion is retried: a restarting server denies everything for some seconds. A pod that is being
stopped has 30 seconds to report."""


class KubernetesJob(FollowedJob):
    """A job object, followed by watches.

    Attributes:
        namespace: Its namespace.
        created: When it was created, in seconds since the epoch.
        owner: Gives it its owner, if it belongs to a pipeline.
    """

    platform = "the cluster"
    refused = "it could not be deleted"
    _tracker: Tracker
    _following: Following

    def __init__(
        self, api: Api, kind: JobKind, item: Mapping[str, Any], job: TrainingJob, host: LauncherPod | None
    ) -> None:
        """Take over the job object `item`; nothing is asked of the cluster before `events`."""
        self._urgent, self._in_handler = (Api(api.access, patience=0, read_seconds=_URGENT_SECONDS) for _ in range(2))
        urgent, in_handler = Clients(self._urgent, self._urgent), Clients(self._in_handler, self._in_handler)
        super().__init__(host, urgent, in_handler, _DENIED_SECONDS)
        self._tracker = Tracker(kind, item, replicas_of(job.roles.items()), time.time())
        known = self._tracker.object
        self.name, self.uid, self.namespace = known.name, known.uid, known.namespace
        self.hosts = self.name  # pods have their names as host names
        self.what = f"{kind.resource.kind} {self.namespace}/{self.name}"
        self._api, self._kind, self._job = api, kind, job
        self._began = time.monotonic()
        self.created = time.time() - self.age
        self._warnings: list[str] = []
        self.owner = JobOwner(host, kind.resource)
        self._restart_limit, self._end_due = kind.restart_limit(job), math.inf
        self._asked_to_stop = StopFlag()
        self._tensorboard = JobTensorBoard(
            api, kind, lambda: self._tracker.object.item, lambda: self.age, required=job.tensorboard is not None
        )

    @property
    def age(self) -> float:
        """Age of the object in seconds when following began, by the API server's clock; 0 until known."""
        created = seconds(self._tracker.object.item["metadata"].get("creationTimestamp"))
        return self._server_age.seconds(created, self._api.server_time())

    @property
    def warnings(self) -> list[str]:
        """Warnings for the user since the start, among them what is not known of the launcher's pod by now."""
        of_pod = self._host.warnings if self._host else []
        return [*of_pod, *self._warnings, *filter(None, [self._tensorboard.warning, self.owner.warning])]

    @property
    def tensorboard_url(self) -> str:
        """Address of the job's TensorBoard; empty = there is none, or not yet."""
        return self._tensorboard.url

    # --- its loop

    def _begin(self) -> None:
        # Under Kubeflow Pipelines the handler has a tenth of a second, so it needs an open connection. Another thread
        # opens it: the handler must not wait for a lock that the interrupted code holds.
        threading.Thread(target=self._in_handler.connect, name="connect", daemon=True).start()
        created = seconds(self._tracker.object.item["metadata"].get("creationTimestamp")) or time.time()
        self._following = Following(self._api, self._urgent, self._kind, self._tracker, created)
        self._following.pods.warnings = self._warnings
        self._tensorboard.start()

    def _next(self) -> Iterator[Event]:
        return self._following.next()

    def _tend(self) -> None:
        """Give the job its owner back, and find out why pods are missing."""
        self.owner.restore(self._urgent, self._tracker.object.item)
        self._following.explain_missing()

    def _limit(self) -> None:
        """End a job that restarts too often, unless its operator does that, and keeps the object.

        The count falls if a pause was counted as a restart.
        """
        restarts, now = self._tracker.restarts, time.monotonic()
        self._end_due = min(self._end_due, now + _OPERATOR_SECONDS) if restarts > self._restart_limit else math.inf
        if now > self._end_due:
            message = f"The replicas were restarted {restarts} times; the limit is {self._restart_limit}."
            self._stop.begin(Cause.DEADLINE, self._clients)
            self._tracker.stop(Verdict(State.FAILED, "BackoffLimitExceeded", message))

    def _rest(self) -> Iterator[Event]:
        assert self._tracker.final
        self._following.usage.end()
        self._tensorboard.end()  # it outlives the job
        self.owner.restore(self._urgent, self._tracker.object.item)  # if it was kept for a SIGTERM that came too late
        if not self._stop.cause and self._tracker.final.state in (State.SUCCEEDED, State.FAILED):
            # replicas that still run after the job's end, such as parameter servers, if the operator does not end them
            try:
                apply(self._urgent, self._kind.stop_stragglers(self._tracker.object.item), self.namespace, self.uid)
            except ApiError as error:
                self._warnings.append(f"What the ended job leaves running could not be ended: {error}")
        yield from self._following.drain(self._stop)
        yield from self._tracker.stop_remaining(time.time())
        self._api.stopping.set()
        self._following.pods.logs.close()

    # --- its end

    def stop(self, cause: Cause) -> None:
        """Delete the job object and its pods, and end the reader of a volume; as the base class says."""
        if cause.requested:
            self._asked_to_stop.set()
        super().stop(cause)

    def _detach(self, host: LauncherPod, cluster: Api, since: float) -> Detachment:
        what = self._kind.resource, self._tracker.object.item, self._job.on_evicted or 0.0
        return detach_job(cluster, host, *what, since=since, new=self._is_young)

    @property
    def ends_with_launcher(self) -> bool:
        """Whether nobody follows the job, and it is not to be kept."""
        return self._host is not None and ends_with(self._host, self._job.on_evicted or 0.0, new=self._is_young)

    @property
    def _is_young(self) -> bool:
        return self.is_new and time.monotonic() - self._began < _NEW_SECONDS

    def send_stop(self, client: Api) -> None:
        """Delete the job object. ApiError if that is denied, or there is no answer."""
        client.delete(self._kind.resource, self.namespace, self.name, self.uid)

    def _leftover(self) -> str:
        rest = kubectl_delete(self._api.access, self._kind.resource, self.namespace, self.name)
        return f"if it is still there: {rest}"

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Remove the ended job's pods, or the object with all that it owns."""
        if self._stop.repeated:
            return
        api = self._api.copy()
        try:
            if what == "job":
                api.delete(self._kind.resource, self.namespace, self.name, self.uid)
                return
            if self._tracker.pods:
                self._note_replicas()
            # not as a collection: only a deletion by name can say which uid is meant
            with ThreadPoolExecutor(_DELETED_AT_ONCE) as pool:
                pods = self._tracker.pods.values()
                for _ in pool.map(lambda seen: api.delete(PODS, self.namespace, seen.name, seen.uid), pods):
                    pass  # the first refusal is raised, and what has not begun is not sent
        except ApiError as error:
            raise LaunchError(f"the {what} of {self.name} could not be deleted: {error}", retryable=False) from error

    def _note_replicas(self) -> None:
        """Annotate the job with its replicas' states, which nobody can tell without the pods."""
        annotations = {REPLICAS: annotation(self._tracker.replica_states)}
        with contextlib.suppress(ApiError):  # the commands then say that the states are not known
            patch = {"metadata": {"uid": self.uid, "annotations": annotations}}
            self._api.copy(REPORT_SECONDS).patch(self._kind.resource, self.namespace, self.name, patch)

    def read_folder(self, folder: str, program: Sequence[str]) -> Any:
        """Run a Python program in a pod that reads what the replicas wrote, and return the JSON that it prints.

        None if this launcher also mounts the volume: then the folder was never created.
        """
        from tfsteps.systems.kubernetes.follow import volume_reader  # noqa: PLC0415  most launchers need none

        item, state = self._tracker.object.item, self._tracker.final.state if self._tracker.final else State.UNKNOWN
        if self._stop.requests or (state is State.CANCELLED and self._stop.cause is not Cause.DEADLINE):
            raise LaunchError("the job was stopped", retryable=False)
        api = Api(self._api.access, patience=_READ_PATIENCE_SECONDS)
        api.stopping = self._asked_to_stop
        image, owner = (self._host.image, self._host.owner) if self._host else (None, None)
        if self._stop.cause is None and state in (State.SUCCEEDED, State.FAILED):  # else the object is gone
            resource = self._kind.resource
            owner = {"apiVersion": resource.api, "kind": resource.kind, "name": self.name, "uid": self.uid}
        image_of_reader = (self._job.tensorboard.image if self._job.tensorboard else None) or TENSORBOARD_IMAGE
        roles = {uid: self._tracker.replica(uid).role for uid in self._tracker.pods}
        specs = volume_reader.replica_specs(self._urgent, self._kind, item, roles)
        trainer = volume_reader.Trainer(item, specs, self._kind.container, image_of_reader)
        return volume_reader.read(api, trainer, folder, owner=owner, launcher=image, program=program)

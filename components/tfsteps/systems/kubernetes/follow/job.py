"""Follows a job object on a cluster: its events, its logs, its end."""

import contextlib
import functools
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from tfsteps.image import TENSORBOARD_IMAGE
from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.http_client import StopFlag
from tfsteps.kube.inbox import Inbox
from tfsteps.kube.logs import PODS
from tfsteps.kube.watch import Changed, Listed, Refused, Seen, Watch
from tfsteps.runs.events import TICK_SECONDS, Event, JobChanged, LogLines, State, Tick, one_line, replicas_of
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import REPORT_SECONDS, Cause, LaunchError
from tfsteps.systems.departure import Departure, Leave
from tfsteps.systems.kubernetes.cleanup.keeper import JobOwner, leave
from tfsteps.systems.kubernetes.dependents import apply
from tfsteps.systems.kubernetes.follow.own_pods import OwnPods
from tfsteps.systems.kubernetes.follow.pod_logs import Drain, PodLogs
from tfsteps.systems.kubernetes.follow.tensorboard import JobTensorBoard
from tfsteps.systems.kubernetes.follow.tracker import Tracker
from tfsteps.systems.kubernetes.follow.usage import PodUsage
from tfsteps.systems.kubernetes.follow.warning_events import WarningEvents
from tfsteps.systems.kubernetes.job_kind import JobKind, Verdict
from tfsteps.systems.kubernetes.launcher_pod import LauncherPod
from tfsteps.systems.kubernetes.ownership import OwnerIndex
from tfsteps.systems.kubernetes.replica_states import REPLICAS, annotation
from tfsteps.systems.kubernetes.times import by_age, seconds
from tfsteps.systems.pipeline import PipelineContext
from tfsteps.systems.stop_controller import ServerAge, StopController

_URGENT_SECONDS = 3.0  # for an answer to the deletion: the next signal is handled only after it
_OPERATOR_SECONDS = 5.0  # in which the operator may end a job that restarts too often, and keep its object
_READ_PATIENCE_SECONDS = 10.0  # with the API server, to run the volume reader
_NEW_SECONDS = 60.0  # a job that is younger has no progress to lose
_DENIED_SECONDS = {Cause.CANCELLED: 20.0, Cause.LAUNCHER: 20.0, Cause.DEADLINE: 300.0}
"""How long a denied deletion is retried: a restarting server denies everything for some seconds. A pod that is being
stopped has 30 seconds to report."""


class KubernetesJob:
    """A job that was created or adopted.

    Attributes:
        name: The object's name.
        uid: Its uid.
        namespace: Its namespace.
        created: When it was created, in seconds since the epoch.
        is_new: This launcher has created it.
        owner: Gives it its owner, if it belongs to a pipeline.
    """

    is_new = False

    def __init__(
        self, api: Api, kind: JobKind, item: Mapping[str, Any], job: TrainingJob, host: LauncherPod | None
    ) -> None:
        """Take over the job object `item`; nothing is asked of the cluster before `events`."""
        self._replicas = replicas_of(job.roles.items())
        meta = item["metadata"]
        self.name, self.uid, self.namespace = str(meta["name"]), str(meta["uid"]), str(meta["namespace"])
        self.hosts = self.name  # pods have their names as host names
        self._api = api
        self._server_age = ServerAge()
        self._urgent = Api(api.access, patience=0, read_seconds=_URGENT_SECONDS)
        # For the signal handler only: it may interrupt code that holds a lock of another client's pool.
        self._in_handler = Api(api.access, patience=0, read_seconds=_URGENT_SECONDS)
        self._kind = kind
        self._host = host
        self._began = time.monotonic()
        self._warnings: list[str] = []
        self._backoff = kind.restart_limit(job)
        created = seconds(meta.get("creationTimestamp")) or time.time()
        self._complaints = WarningEvents(self._urgent, self.namespace, self.name, created)
        self._over_since: float | None = None  # when the backoff limit was passed
        self._keep_seconds = job.on_evicted or 0.0
        self._image_of_reader = (job.tensorboard.image if job.tensorboard else None) or TENSORBOARD_IMAGE
        self.owner = JobOwner(host, kind.resource)
        what = f"{kind.resource.kind} {self.namespace}/{self.name}"
        grace = host.grace_seconds if host else math.inf
        self._departure = Departure(self._leave, what, grace)
        continues = f"{what} continues: it could not be deleted"
        self._stop = StopController(self._delete, continues, _DENIED_SECONDS, grace_seconds=grace)
        self._asked_to_stop = StopFlag()
        self._tracker = Tracker(kind, item, self._replicas, time.time())
        self._own_pods = OwnPods(kind, OwnerIndex(self._urgent, self.namespace, self.name))
        self.created = time.time() - self.age
        self._tensorboard = JobTensorBoard(
            api, kind, lambda: self._tracker.item, lambda: self.age, wanted=job.tensorboard is not None
        )
        self._queue = Inbox()  # log readers wait while it is full, to limit memory
        self._tick_due = 0.0
        self._logs = PodLogs(api, self.namespace, kind.container, self._queue.put)
        self._usage = PodUsage(api, self.namespace, self.name, kind, self._tracker, put=self._put)
        self._vanished: set[str] = set()  # uids of pods that were gone at the job's end, before the watch reported it
        self._pods_known = False  # pods were seen, or the reason why not was reported

    @property
    def age(self) -> float:
        """Age of the object in seconds when following began, by the API server's clock; 0 until known."""
        created = seconds(self._tracker.item["metadata"].get("creationTimestamp"))
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

    def events(self) -> Iterator[Event]:
        """Yield events in order; the last is a JobChanged to a terminal state.

        Raises:
            LaunchError: The job object cannot be watched, or an answer is not valid.
        """
        try:
            yield from self._followed()
        except MALFORMED as error:
            message = f"{self.name} continues, but an answer of the cluster is not understood: {error!r}"
            raise LaunchError(message, retryable=True) from error

    def _followed(self) -> Iterator[Event]:
        # Under Kubeflow Pipelines the handler has a tenth of a second, so it needs an open connection. Another thread
        # opens it: the handler must not wait for a lock that the interrupted code holds.
        threading.Thread(target=self._in_handler.connect, name="connect", daemon=True).start()
        self._watch()
        self._tensorboard.start()
        self._usage.start()
        while not (final := self._tracker.final):
            yield from self._next()
            self._look_after()
        self._usage.end()
        self._tensorboard.end()  # it outlives the job
        self._conclude(final)
        yield from self._drain()
        yield from self._tracker.dismissed(time.time())
        self._api.stopping.set()
        self._logs.close()
        yield self._tracker.explained(final)

    def stop(self, cause: Cause) -> None:
        """Delete the job object and its pods, and return. A second call does not wait. Safe in a signal handler."""
        if cause.requested:
            self._stop.requests += 1
            self._asked_to_stop.set()
        if self._leaving and cause is Cause.CANCELLED:
            self._departure.hurry()
        elif self._stop.hurried and not self._leaving:
            rest = f"kubectl delete {self._kind.resource.plural} {self.name} --namespace {self.namespace}"
            message = f"its end was not waited for; if it is still there: {rest}"
            self._tracker.give_up(Verdict(State.CANCELLED, "Stopped", message), time.time())
        elif self._stop.cause is None and not self._tracker.final:
            if not cause.requested:
                self._end(self._urgent, cause, Verdict(State.CANCELLED, "Stopped"))
            elif self._host is None or cause is Cause.INTERRUPTED:
                self._end(self._in_handler, Cause.CANCELLED, Verdict(State.CANCELLED, "Stopped"))
            else:
                self._end_unless_left(self._in_handler, self._departure.begin(self._in_handler))

    @property
    def _leaving(self) -> bool:
        """Whether the launcher got SIGTERM, and it is not known yet what becomes of the job."""
        return self._departure.pending and not self._stop.cause and not self._tracker.final

    def _leave(self, api: Api, since: float) -> Leave:
        """Return whether the job goes on without this launcher, whose pod got SIGTERM `since` seconds ago."""
        assert self._host
        if since:  # not in the signal handler
            self._host.retry_read(api)
        new = self.is_new and time.monotonic() - self._began < _NEW_SECONDS
        what = self._kind.resource, self._tracker.item, self._keep_seconds
        return leave(api, self._host, *what, since=since, new=new)

    def _end_unless_left(self, api: Api, leave: Leave) -> None:
        if leave.answer.no:
            self._end(api, Cause.CANCELLED, Verdict(State.CANCELLED, "Stopped", leave.sentence))

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Remove the ended job's pods, or the object with all that it owns."""
        if self._stop.hurried:
            return
        api = self._api.copy()
        try:
            if what == "job":
                api.delete(self._kind.resource, self.namespace, self.name, self.uid)
                return
            if self._tracker.pods:
                self._note_replicas()
            for seen in self._tracker.pods.values():
                api.delete(PODS, self.namespace, seen.name, seen.uid)
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

        item, state = self._tracker.item, self._tracker.final.state if self._tracker.final else State.UNKNOWN
        if self._stop.requests or (state is State.CANCELLED and self._stop.cause is not Cause.DEADLINE):
            raise LaunchError("the job was stopped", retryable=False)
        api = Api(self._api.access, patience=_READ_PATIENCE_SECONDS)
        api.stopping = self._asked_to_stop
        image, owner = self._host.image if self._host else None, self._owner
        if self._stop.cause is None and state in (State.SUCCEEDED, State.FAILED):  # else the object is gone
            resource = self._kind.resource
            owner = {"apiVersion": resource.api, "kind": resource.kind, "name": self.name, "uid": self.uid}
        specs = volume_reader.replica_specs(self._urgent, self._kind, item, self._tracker.pods)
        trainer = volume_reader.Trainer(item, specs, self._kind.container, self._image_of_reader)
        return volume_reader.read(api, trainer, folder, owner=owner, launcher=image, program=program)

    @property
    def _pipeline(self) -> PipelineContext | None:
        return self._host.pipeline if self._host else None

    @property
    def _owner(self) -> Mapping[str, Any] | None:
        return self._pipeline.owner if self._pipeline else None

    # --- following

    def _watch(self) -> None:
        about = functools.partial(Watch, self._api)
        selected: dict[str, Any] = self._kind.watch_selector(self.name)
        self._job_watch = about(
            self._kind.resource,
            self.namespace,
            functools.partial(self._put, self._tracker.job),
            sought=(self.name, self.uid),
            **selected,
        )
        self._pod_watch = about(
            PODS,
            self.namespace,
            functools.partial(self._put, self._saw_pods),
            labelSelector=self._kind.selector(self.name),
        )

    def _put(self, handler: Callable[..., Iterator[Event]], *what: Any) -> None:
        self._queue.put((handler, what))

    def _next(self) -> Iterator[Event]:
        """Yield what follows from the next watch event or log line, and a Tick when it is due."""
        try:
            handler, what = self._queue.get(timeout=TICK_SECONDS)
        except queue.Empty:
            yield from self._tracker.state(time.time())
        else:
            yield from handler(*what, time.time())
        if time.monotonic() >= self._tick_due:
            self._tick_due = time.monotonic() + TICK_SECONDS
            for seen in self._own_pods.decided(self._tracker.item):
                yield from self._saw_pods(seen, time.time())
            watched = self._job_watch.connected and self._pod_watch.connected
            yield Tick(
                time.time(),
                visible=watched and not self._own_pods.complaint,
                readable=not self._logs.failing(self._tracker.pods),
            )

    def _saw_pods(self, seen: Seen, now: float) -> Iterator[Event]:
        if isinstance(seen, Refused):
            if not seen.status:
                raise LaunchError(f"{self.name} continues, but {seen.error}", retryable=True)
            yield from self._no_pods(seen.error)
        self._pods_known = True
        if (own := self._own_pods.among(seen, self._tracker.item)) is None:
            return
        seen = own
        yield from self._tracker.seen_pod(seen, now)
        items = seen.items if isinstance(seen, Listed) else [seen.item] if isinstance(seen, Changed) else []
        for item in items:  # only changed pods, for speed with a thousand replicas
            if known := self._tracker.pods.get(item["metadata"]["uid"]):
                self._logs.read(known, self._tracker.replica(known.uid), ended=self._tracker.final is not None)
            self._label(item["metadata"])
        if not isinstance(seen, Changed):
            self._logs.forget(self._tracker.pods)

    def _no_pods(self, why: str) -> Iterator[Event]:
        for replica in self._replicas:
            yield one_line(time.time(), replica, f"(no log before the end: {why})".encode())

    def _label(self, pod: Mapping[str, Any]) -> None:
        """Add the tfsteps labels that a pod lacks: some operators do not copy them."""
        if pod["uid"] not in self._tracker.pods or "deletionTimestamp" in pod:
            return
        labels = self._kind.pod_labels(self._tracker.item, self._tracker.replica(pod["uid"]))
        if labels.items() <= (pod.get("labels") or {}).items():
            return
        try:
            self._urgent.patch(PODS, self.namespace, pod["name"], {"metadata": {"uid": pod["uid"], "labels": labels}})
        except ApiError as error:
            warning = f"The pods do not get the labels of the run: {error}"
            if error.status not in (404, 409) and warning not in self._warnings:  # 404, 409: it is gone or replaced
                self._warnings.append(warning)

    def _look_after(self) -> None:
        """Do what is due: leave, stop with the pipeline, end a job that restarts too often, delete again, warn."""
        if self._pipeline and self._pipeline.failure:
            raise LaunchError(f"{self.name} continues, but {self._pipeline.failure}", retryable=True)
        if self._leaving:
            self._end_unless_left(self._urgent, self._departure.settle(self._urgent))
            return
        if self._tracker.restarts <= self._backoff:
            self._over_since = None  # a pause was counted as a restart
        self.owner.restore(self._urgent, self._tracker.item)
        if self._stop.cause:
            self._stop.look_after(self._urgent)
        elif self._pipeline and self._pipeline.terminating.yes:
            self._end(self._urgent, Cause.CANCELLED, Verdict(State.CANCELLED, "Stopped"))
        elif self._tracker.restarts > self._backoff:
            self._over_since = self._over_since or time.monotonic()
            if time.monotonic() - self._over_since > _OPERATOR_SECONDS:
                message = f"The replicas were restarted {self._tracker.restarts} times; the limit is {self._backoff}."
                self._end(self._urgent, Cause.DEADLINE, Verdict(State.FAILED, "BackoffLimitExceeded", message))
        self._tracker.complaint = self._own_pods.complaint or self._complaints.look(self._tracker.is_short)

    def _conclude(self, final: JobChanged) -> None:
        """End replicas that still run after the job's end, such as parameter servers, if the operator does not."""
        if self._stop.cause or final.state not in (State.SUCCEEDED, State.FAILED):
            return
        try:
            apply(self._urgent, self._kind.stop_stragglers(self._tracker.item), self.namespace, self.uid)
        except ApiError as error:
            self._warnings.append(f"What the ended job leaves running could not be ended: {error}")

    def _end(self, api: Api, cause: Cause, verdict: Verdict) -> None:
        self._tracker.stopping = verdict
        self._stop.begin(cause, api)

    def _delete(self, api: Api) -> None:
        """Delete the job object. ApiError if that is denied, or there is no answer."""
        api.delete(self._kind.resource, self.namespace, self.name, self.uid)

    # --- logs

    def _drain(self) -> Iterator[Event]:
        """Yield how the replicas ended and all their last lines; do not wait for replicas that still run."""
        drain = Drain(self._logs, lambda: bool(self._stop.cause or self._stop.requests))
        yield from self._last_look()
        while not self._pods_known and not drain.over and not self._stop.hurried:
            yield from (event for event in self._next() if not isinstance(event, JobChanged))
        if not self._pods_known:
            yield from self._no_pods(self._pod_watch.error or "its pods were not listed in time")
        self._logs.end(self._tracker.pods)
        ended = {self._tracker.replica(pod.uid) for pod in self._tracker.pods.values() if pod.program_ended}
        while self._more_is_coming and not drain.over and not self._stop.hurried:
            for event in self._next():
                if not isinstance(event, JobChanged):
                    yield event
                if isinstance(event, LogLines) and event.replica in ended and not event.sidecar:
                    drain.line_came()  # after the yield: the consumer may be slow
        if not self._stop.hurried:
            yield from self._logs.gaps(ended, drain.missing)
        self._warnings += self._logs.warnings()
        if complaint := self._own_pods.complaint:
            self._warnings.append(complaint.message)

    @property
    def _more_is_coming(self) -> bool:
        untold = self._vanished & self._tracker.pods.keys() or self._tracker.unexplained
        return bool(self._logs.unread or not self._queue.empty() or untold)

    def _last_look(self) -> Iterator[Event]:
        """Yield the current state of the pods: the end of the job may be seen before theirs.

        Only the watch reports how pods ended that are already gone.
        """
        try:
            listing = self._urgent.list(PODS, self.namespace, once=True, labelSelector=self._kind.selector(self.name))
        except ApiError:
            return  # the events of the watch must suffice
        pods = by_age(listing["items"] or [])
        self._pods_known = self._tracker.listed = True
        self._vanished = self._tracker.pods.keys() - {item["metadata"]["uid"] for item in pods}
        for item in pods:
            yield from self._saw_pods(Changed(item), time.time())

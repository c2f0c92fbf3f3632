"""A job object on a cluster, from its creation on: its events, its logs, its end."""

import datetime as dt
import functools
import queue
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from tfsteps.cluster.api import Api, ApiError
from tfsteps.cluster.logs import PODS, ContainerLog
from tfsteps.cluster.watch import Changed, Listed, Refused, Seen, Watch
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import TICK_SECONDS, Cause, Event, JobChanged, LaunchError, LogLine, Replica, State, Tick
from tfsteps.systems.kubernetes.board import address
from tfsteps.systems.kubernetes.complaints import Complaints
from tfsteps.systems.kubernetes.host import Host
from tfsteps.systems.kubernetes.kind import Kind, Verdict
from tfsteps.systems.kubernetes.parts import apply
from tfsteps.systems.kubernetes.pods import Pod
from tfsteps.systems.kubernetes.tracker import Tracker

_QUEUE = 2000  # events between the watches and us; log readers wait when it is full, and memory stays flat
_DRAIN_SECONDS = 10.0  # of silence that end the wait for the last lines of replicas that have ended
_DELETE_AGAIN_SECONDS = 5.0
_URGENT_SECONDS = 3.0  # for an answer to the deletion: the next signal is heard only then
_OPERATOR_SECONDS = 5.0  # in which the operator may end a job that restarts too often, and keep its object
_JUST_NOW_SECONDS = 2.0
_FORBIDDEN = {401, 403}  # trying again is no use
_Item = tuple[Callable[..., Iterator[Event]], tuple[Any, ...]]


class KubernetesJob:
    """A job that was created or adopted.

    Attributes:
        name: The object's name.
        uid: Its uid.
        namespace: Its namespace.
        created: When it was created, in seconds since the epoch.
        tensorboard_url: Of the operator's TensorBoard, once the job has ended; empty = there is none.
    """

    def __init__(self, api: Api, kind: Kind, item: Mapping[str, Any], job: TrainingJob, host: Host | None) -> None:
        """Take over the job object `item`; nothing is asked of the cluster before `events`."""
        self._replicas = [Replica(name, i) for name, role in job.roles.items() for i in range(role.replicas)]
        meta = item["metadata"]
        self.name, self.uid, self.namespace = str(meta["name"]), str(meta["uid"]), str(meta["namespace"])
        self.created = _created(meta, time.time())
        self._api = api
        # The signal handler's own: the other may be in use when it comes.
        self._urgent = Api(api.access, patience=0, read_seconds=_URGENT_SECONDS)
        self._kind = kind
        self._host = host
        self.warnings = host.warnings if host else []
        self.tensorboard_url = ""
        self._backoff = job.backoff + sum(role.backoff_limit or 0 for _, role in job.roles.items())
        self._complaints = Complaints(self._urgent, self.namespace, self.name, self.created)
        self._over_since: float | None = None  # when the backoff limit was passed
        self._left = False
        self._requests = 0  # to stop, from people and engines
        self._tracker = Tracker(kind, item, self._replicas, time.time())
        self._queue: queue.Queue[_Item] = queue.Queue(_QUEUE)
        self._logs: dict[str, ContainerLog] = {}
        self._open: set[str] = set()  # uids of the pods whose logs are being read
        self._vanished: set[str] = set()  # uids of the pods that were gone when the job ended, before we had heard
        self._cause: Cause | None = None
        self._refusal = ""  # why it may not be deleted
        self._asked = 0.0  # when the deletion was asked for last

    def events(self) -> Iterator[Event]:
        """Yield what happens, in order; the last is a JobChanged to a terminal state.

        Raises:
            LaunchError: The job object cannot be watched.
        """
        self._watch()
        while not (final := self._tracker.final):
            yield from self._next()
            self._look_after()
        self._find_board()
        self._conclude(final)
        yield from self._drain()
        yield from self._tracker.dismissed(time.time())
        self._api.stopping.set()
        yield final

    def stop(self, cause: Cause) -> None:
        """Delete the job object and return; its pods go with it. Asked again, hurry. Safe in a signal handler."""
        self._requests += cause is Cause.CANCELLED
        if self._hurried:
            rest = f"kubectl delete {self._kind.resource.plural} {self.name} --namespace {self.namespace}"
            message = f"its end was not waited for; if it is still there: {rest}"
            self._tracker.give_up(Verdict(State.CANCELLED, "Stopped", message), time.time())
        elif self._cause is None and not self._tracker.final:
            if cause is Cause.CANCELLED and self._host and self._host.evicted(self._urgent):
                self._left = True
                return
            self._end(cause, Verdict(State.CANCELLED, "Stopped"))

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Remove the ended job's pods, or the object with all that belongs to it."""
        if self._hurried:
            return
        api = self._api.again()
        try:
            if what == "job":
                api.delete(self._kind.resource, self.namespace, self.name, self.uid)
                return
            for seen in self._tracker.pods.values():
                api.delete(PODS, self.namespace, seen.name, seen.uid)
        except ApiError as error:
            raise LaunchError(f"the {what} of {self.name} could not be deleted: {error}", retryable=False) from error

    @property
    def _hurried(self) -> bool:
        return self._requests > 1

    # --- following

    def _watch(self) -> None:
        about = functools.partial(Watch, self._api)
        about(
            self._kind.resource,
            self.namespace,
            functools.partial(self._put, self._tracker.job),
            **self._kind.watched(self.name),
        )
        about(
            PODS,
            self.namespace,
            functools.partial(self._put, self._saw_pods),
            labelSelector=self._kind.selector(self.name),
        )

    def _put(self, handler: Callable[..., Iterator[Event]], *what: Any) -> None:
        self._queue.put((handler, what))

    def _next(self) -> Iterator[Event]:
        """Yield what follows from the next thing that was seen, or a Tick."""
        try:
            handler, what = self._queue.get(timeout=TICK_SECONDS)
        except queue.Empty:
            yield Tick(time.time())
            yield from self._tracker.state(time.time())
        else:
            yield from handler(*what, time.time())

    def _saw_pods(self, seen: Seen, now: float) -> Iterator[Event]:
        if isinstance(seen, Refused):
            for replica in self._replicas:
                yield LogLine(now, replica, f"(no log before the end: {seen.error})".encode())
        yield from self._tracker.seen_pod(seen, now)
        for each in self._tracker.pods.values():
            self._read_log(each)
        for item in seen.items if isinstance(seen, Listed) else [seen.item] if isinstance(seen, Changed) else []:
            self._label(item["metadata"])

    def _label(self, pod: Mapping[str, Any]) -> None:
        """Put our labels on a pod that has them not: its operator does not hand them on."""
        if pod["uid"] not in self._tracker.pods or "deletionTimestamp" in pod:
            return
        wanted = self._kind.pod_labels(self._tracker.item, self._tracker.replica(pod["uid"]))
        if wanted.items() <= (pod.get("labels") or {}).items():
            return
        try:
            self._urgent.patch(PODS, self.namespace, pod["name"], {"metadata": {"uid": pod["uid"], "labels": wanted}})
        except ApiError as error:
            said = f"The pods do not get the labels of the run: {error}"
            if error.status not in (404, 409) and said not in self.warnings:  # these: gone, or another one by now
                self.warnings.append(said)

    def _look_after(self) -> None:
        """Do what is due: leave, stop with the Workflow, end a job that restarts too often, delete again, ask why."""
        if self._left:
            raise LaunchError(
                "this pod is being evicted; the job goes on, and the next attempt adopts it", retryable=True
            )
        if self._refusal:
            what = f"{self._kind.resource.kind} {self.namespace}/{self.name}"
            raise LaunchError(f"{what} goes on, for it could not be deleted: {self._refusal}", retryable=False)
        if self._cause:
            if time.monotonic() - self._asked > _DELETE_AGAIN_SECONDS:
                self._delete()
        elif self._host and self._host.terminating:
            self._end(Cause.CANCELLED, Verdict(State.CANCELLED, "Stopped"))
        elif self._tracker.restarts > self._backoff:
            self._over_since = self._over_since or time.monotonic()
            if time.monotonic() - self._over_since > _OPERATOR_SECONDS:
                message = (
                    f"The replicas were started again {self._tracker.restarts} times, {self._backoff} are allowed."
                )
                self._end(Cause.DEADLINE, Verdict(State.FAILED, "BackoffLimitExceeded", message))
        self._tracker.complaint = self._complaints.look(self._tracker.is_short)

    def _find_board(self) -> None:
        """Learn where the operator's TensorBoard is; it is up for longer than the job."""
        if not (board := self._kind.board(self._tracker.item)):
            return
        self.tensorboard_url = address(self._urgent, board, self.namespace)
        if board.note:
            self.warnings.append(f"The TensorBoard is not ready: {board.note}.")

    def _conclude(self, final: JobChanged) -> None:
        """End what goes on after the job's own end, such as parameter servers, where the operator does not."""
        if self._cause or final.state not in (State.SUCCEEDED, State.FAILED):
            return
        try:
            apply(self._urgent, self._kind.conclude(self._tracker.item), self.namespace, self.uid)
        except ApiError as error:
            self.warnings.append(f"What the ended job leaves running could not be ended: {error}")

    def _end(self, cause: Cause, verdict: Verdict) -> None:
        self._cause = cause
        self._tracker.stopping = verdict
        self._delete()

    def _delete(self) -> None:
        self._asked = time.monotonic()
        try:
            self._urgent.delete(self._kind.resource, self.namespace, self.name, self.uid)
        except ApiError as error:
            self._refusal = str(error) if error.status in _FORBIDDEN else ""
            self._asked = time.monotonic()  # `_look_after` tries again

    # --- logs

    def _read_log(self, seen: Pod) -> None:
        """See to it that the pod's container has a reader, and that this knows when it was restarted and has ended."""
        if seen.started is None:
            return
        if seen.uid not in self._logs:
            replica = self._tracker.replica(seen.uid)
            self._open.add(seen.uid)
            self._logs[seen.uid] = ContainerLog(
                self._api,
                self.namespace,
                seen.name,
                self._kind.container,
                put=lambda at, text: self._put(self._line, LogLine(at, replica, text)),
                closed=lambda lost: self._put(self._log_closed, seen.uid, lost),
                restarts=seen.restarts,
            )
        self._logs[seen.uid].tell(seen.restarts, ended=seen.ended or self._tracker.final is not None)

    @staticmethod
    def _line(line: LogLine, _now: float) -> Iterator[Event]:
        yield line

    def _log_closed(self, uid: str, lost: str, now: float) -> Iterator[Event]:
        self._open.discard(uid)
        if lost:
            yield LogLine(now, self._tracker.replica(uid), f"(log incomplete: {lost})".encode())

    def _drain(self) -> Iterator[Event]:
        """Yield how the replicas ended and what they printed last, however much; who runs on is not waited for."""
        end = time.monotonic() + _DRAIN_SECONDS
        yield from self._last_look()
        for each in self._tracker.pods.values():
            if each.uid in self._logs:
                self._logs[each.uid].tell(each.restarts, ended=True)
        ended = {self._tracker.replica(each.uid) for each in self._tracker.pods.values() if each.ended}
        while self._more_is_coming and time.monotonic() < end and not self._hurried:
            for event in self._next():
                if not isinstance(event, JobChanged):
                    yield event
                if isinstance(event, LogLine) and event.replica in ended:  # only now: who takes lines may be slow
                    end = time.monotonic() + _DRAIN_SECONDS
        for replica in map(self._tracker.replica, self._open if not self._hurried else ()):
            why = f"its rest could not be read for {_DRAIN_SECONDS:.0f} s" if replica in ended else "its replica ran on"
            yield LogLine(time.time(), replica, f"(log incomplete: {why})".encode())

    @property
    def _more_is_coming(self) -> bool:
        untold = self._vanished & self._tracker.pods.keys() or self._tracker.unexplained
        return bool(self._open or not self._queue.empty() or untold)

    def _last_look(self) -> Iterator[Event]:
        """Yield what the pods are now, for the end of the job may be seen before theirs.

        How those ended that are gone already, only the watch will say.
        """
        query = {"labelSelector": self._kind.selector(self.name)}
        try:
            found = self._urgent.once("GET", PODS.path(self.namespace), query)
        except ApiError:
            return  # what the watch has seen must do
        pods = found.get("items") or []
        self._vanished = self._tracker.pods.keys() - {item["metadata"]["uid"] for item in pods}
        for item in pods:
            yield from self._saw_pods(Changed(item), time.time())


def _created(meta: Mapping[str, Any], now: float) -> float:
    """Return when an object was created: `now` if that was just now, for the API server tells whole seconds."""
    stamp = meta.get("creationTimestamp")
    then = dt.datetime.fromisoformat(stamp).timestamp() if stamp else now
    return then if now - then > _JUST_NOW_SECONDS else now

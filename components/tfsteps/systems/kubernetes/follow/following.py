"""What a launcher reads of a cluster from the first event of a job to its last: watches, pods, logs, metrics."""

import functools
import queue
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.event_loop import EventLoop
from tfsteps.kube.log_lines import Lines
from tfsteps.kube.logs import ContainerLog
from tfsteps.kube.resource import PODS
from tfsteps.kube.threads import Inbox
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch
from tfsteps.runs.events import TICK_SECONDS, Event, JobChanged, LogLines, PartialLine, ReplicaName, Tick, one_line
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.follow.pods import Container, Pod
from tfsteps.systems.kubernetes.follow.tracker import Tracker
from tfsteps.systems.kubernetes.follow.usage import PodUsage
from tfsteps.systems.kubernetes.follow.warning_events import WarningEvent, WarningEvents
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.job_pods import JOB_PODS
from tfsteps.systems.kubernetes.ownership import OwnerIndex, Owners
from tfsteps.systems.kubernetes.times import by_age
from tfsteps.systems.stop_controller import StopController

DRAIN_SECONDS = 10.0
"""The longest silence of ended replicas before the wait for their last lines ends."""

DRAIN_LIMIT_SECONDS = 600.0
"""How long the last lines are read after the job's end, however many come: a log may go on for ever."""

_NAMED = 5  # replicas in a warning
_Source = tuple[str, str]  # uid of a pod, and name of a container as `pods.Container` has it
_Put = Callable[[tuple[Callable[..., Iterator[Event]], tuple[Any, ...]], int], None]
_Item = Mapping[str, Any]


class OwnPods:
    """Filters the events of the watch on the pods of one job. Other pods may have the labels of the job."""

    def __init__(self, kind: JobKind, index: OwnerIndex) -> None:
        """Begin without a pod."""
        self._kind, self._index = kind, index
        self._own: set[str] = set()  # uids
        self._undecided: dict[str, dict[str, Any]] = {}
        self._why = ""

    @property
    def warning(self) -> WarningEvent | None:
        """Which pods are not followed because it is not known whose they are; None = there are none."""
        if not self._undecided:
            return None
        names = [item["metadata"]["name"] for item in self._undecided.values()]
        more = f" and {len(names) - 1} more" if names[1:] else ""
        message = f"Pod {names[0]}{more} may not be this job's, and is not followed: {self._why}."
        return WarningEvent("PodsNotKnown", message)

    def among(self, seen: Seen, job: _Item) -> Seen | None:
        """Return an event as far as it is about the job's own pods; None = it is not.

        Args:
            seen: The event.
            job: The job object, with its dependents under DEPENDENTS.
        """
        match seen:
            case Listed(items=items):
                owners = self._index.owners(self._kind, job, items)
                self._undecided.clear()
                return Listed([item for item in items if self._is_own(item, owners)])
            case Changed(item=item):
                if self._is_own(item, self._index.owners(self._kind, job, [item])):
                    return seen
                return Deleted(item) if item["metadata"]["uid"] in self._own else None
            case Deleted(item=item):
                self._undecided.pop(item["metadata"]["uid"], None)
                return seen if item["metadata"]["uid"] in self._own else None
        return seen

    def decided(self, job: _Item) -> Iterator[Changed]:
        """Yield the pods that turn out to be the job's; arguments as for `among`."""
        items = list(self._undecided.values())
        if items:
            owners = self._index.owners(self._kind, job, items)
            yield from (Changed(item) for item in items if self._is_own(item, owners))

    def _is_own(self, item: dict[str, Any], owners: Owners) -> bool:
        uid, answer = item["metadata"]["uid"], owners.control(item["metadata"])
        self._undecided.pop(uid, None)
        if answer.yes:
            self._own.add(uid)
        elif answer.unknown:
            self._undecided[uid], self._why = item, answer.why
        return answer.yes


class PodLogs:
    """Reads the logs of a job's pods. Call the methods from the main loop; readers run in their own event loop."""

    def __init__(self, api: Api, namespace: str, program: str, put: _Put) -> None:
        """Begin without a pod.

        Args:
            api: The cluster.
            namespace: The job's.
            program: Name of the container that runs the program.
            put: Takes a function that yields events, its arguments, and their size in bytes. While it blocks, reading
                waits.
        """
        self._api, self._namespace, self._program, self._put = api, namespace, program, put
        self._loop = EventLoop()
        self._logs: dict[_Source, ContainerLog] = {}
        self._open: dict[_Source, ReplicaName] = {}  # logs that are being read
        self._sidecars: set[_Source] = set()  # running sidecars
        self._incomplete: set[ReplicaName] = set()  # replicas whose log may lack lines

    def read(self, pod: Pod, replica: ReplicaName, *, ended: bool) -> None:
        """Start a reader for each container, and update its restarts and whether it, or the job, has ended."""
        for container in pod.containers:
            source = pod.uid, container.name
            (self._sidecars.add if container.sidecar and not container.ended else self._sidecars.discard)(source)
            if source not in self._logs:
                self._open[source] = replica
                self._logs[source] = self._reader(pod, container, replica)
            self._logs[source].tell(container.restarts, ended=container.ended or ended)

    def end(self, pods: Mapping[str, Pod]) -> None:
        """Tell all readers that the job has ended."""
        for pod in pods.values():
            for container in pod.containers:
                if log := self._logs.get((pod.uid, container.name)):
                    log.tell(container.restarts, ended=True)

    def forget(self, pods: Mapping[str, Pod]) -> None:
        """Tell the readers of pods that are not in `pods` that their pod is gone."""
        for source in [source for source in self._open if source[0] not in pods]:
            self._sidecars.discard(source)
            self._logs[source].gone()

    def failing(self, pods: Mapping[str, Pod]) -> bool:
        """Tell whether the log of a running container cannot be read now."""
        return any(log.failing and _runs(pods, source) for source, log in self._logs.items())

    @property
    def retry_at(self) -> float:
        """Until when the server asked to wait with the open logs, by the monotonic clock; 0 = it did not."""
        return max((self._logs[source].retry_at for source in self._open if source not in self._sidecars), default=0.0)

    @property
    def unread(self) -> bool:
        """Whether a log is still being read, apart from running sidecars such as a mesh proxy."""
        return any(source not in self._sidecars for source in self._open)

    def gaps(self, ended: set[ReplicaName], missing: str) -> Iterator[Event]:
        """Yield a line for each log that was not read to its end.

        Args:
            ended: The replicas that have ended.
            missing: What is missing of their logs, as `Drain` says.
        """
        unread = [(source, replica) for source, replica in self._open.items() if source not in self._sidecars]
        for (_, container), replica in unread:
            yield self._gap(replica, container, missing if replica in ended else "its replica ran on", time.time())

    def close(self) -> None:
        """Stop reading."""
        self._loop.close()

    def warnings(self) -> list[str]:
        """Return the warning that names the replicas whose log may lack lines; empty = none."""
        names = [str(replica) for replica in sorted(self._incomplete)]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        its = "where its lines `(log incomplete: ...)` say so: " + ", ".join(names[:_NAMED]) + more
        return [f"The log may lack lines, {its}."] if names else []

    def _reader(self, pod: Pod, container: Container, replica: ReplicaName) -> ContainerLog:
        def partial(text: bytes) -> None:
            if not container.sidecar:
                self._put((_partial, (PartialLine.of(time.time(), replica, text),)), len(text))

        closed = functools.partial(self._closed, (pod.uid, container.name))
        return ContainerLog(
            self._loop,
            self._api,
            self._namespace,
            pod.name,
            container.name or self._program,
            put=lambda lines: self._put((self._lines, (replica, container, pod.before, lines)), lines.size),
            closed=lambda lost: self._put((closed, (lost,)), 0),
            partial=partial,
            restarts=container.restarts,
            uid=pod.uid,
        )

    # --- in the main loop

    def _lines(
        self, replica: ReplicaName, container: Container, before: int, lines: Lines, now: float
    ) -> Iterator[Event]:
        """Yield lines of a pod; its replica had `before` incarnations before this pod."""
        if lines.incomplete:
            self._incomplete.add(replica)
        yield LogLines(
            now,
            replica,
            lines.texts,
            lines.stamps,
            incarnation=before if container.name else before + lines.restarts,
            container=container.name,
            sidecar=container.sidecar,
        )

    def _closed(self, source: _Source, lost: str, now: float) -> Iterator[Event]:
        replica = self._open.pop(source)
        if lost:
            yield self._gap(replica, source[1], lost, now)

    def _gap(self, replica: ReplicaName, container: str, why: str, now: float) -> LogLines:
        self._incomplete.add(replica)
        return one_line(now, replica, f"(log incomplete: {why})".encode(), container)


class Drain:
    """The wait for the last lines of ended replicas: until none comes for ten seconds, or the limit is reached.

    If the server asks to wait before the next request, that time does not count, unless the launcher is in a hurry.
    """

    def __init__(self, logs: PodLogs, hurry: Callable[[], bool]) -> None:
        """Begin at the end of the job. `hurry` tells whether the launcher was asked to stop: its pod may end soon."""
        self._logs, self._hurry = logs, hurry
        self._limit = time.monotonic() + DRAIN_LIMIT_SECONDS
        self.line_came()

    def line_came(self) -> None:
        """Note that an ended replica has printed a line."""
        self._end = time.monotonic() + DRAIN_SECONDS

    @property
    def over(self) -> bool:
        """Whether to wait no longer."""
        now = time.monotonic()
        if now < min(self._end, self._limit):
            return False
        return now >= self._limit or self._hurry() or now >= self._logs.retry_at + DRAIN_SECONDS

    @property
    def missing(self) -> str:
        """What is missing of a log that is not read to its end by now."""
        if time.monotonic() < self._limit:
            return f"its rest could not be read for {DRAIN_SECONDS:.0f} s"
        return f"its rest was not read: it still went on {DRAIN_LIMIT_SECONDS:.0f} s after the end of the job"


def _partial(line: PartialLine, _now: float) -> Iterator[Event]:
    yield line


def _runs(pods: Mapping[str, Pod], source: _Source) -> bool:
    pod = pods.get(source[0])
    return pod is not None and any(container.name == source[1] and not container.ended for container in pod.containers)


class PodFollower:
    """Passes on what happens to a job's own pods, reads their logs and labels them.

    Attributes:
        own: Which pods are the job's.
        logs: Their logs.
        known: Whether pods were seen, or the reason why not was reported.
        warnings: For the user.
    """

    def __init__(self, api: Api, urgent: Api, kind: JobKind, tracker: Tracker, inbox: Inbox) -> None:
        """Begin without a pod.

        Args:
            api: The cluster.
            urgent: The cluster, for requests that must not wait.
            kind: The job's.
            tracker: The job's.
            inbox: Gets what the threads of the logs have read.
        """
        self._name, self._namespace = tracker.object.name, tracker.object.namespace
        self._urgent, self._kind, self._tracker = urgent, kind, tracker
        self.own_pods = OwnPods(kind, OwnerIndex(urgent, self._namespace, self._name))
        self.logs = PodLogs(api, self._namespace, kind.container, inbox.put)
        self.known = False
        self.warnings: list[str] = []

    def saw(self, seen: Seen, now: float) -> Iterator[Event]:
        """Yield what follows from an event of the watch on the pods. LaunchError if an answer is not understood."""
        if isinstance(seen, Refused):
            if not seen.status:
                raise LaunchError(f"{self._name} was not stopped, but {seen.error}", retryable=True)
            yield from self.not_known(seen.error)
        self.known = True
        if isinstance(seen, Changed) and self._tracker.knows_end(seen.item["metadata"]):
            return  # of a thousand replicas that end at once, the watch and the last look report each end
        if (event := self.own_pods.among(seen, self._tracker.object.item)) is None:
            return
        yield from self._tracker.seen_pod(event, now)
        items = event.items if isinstance(event, Listed) else [event.item] if isinstance(event, Changed) else []
        for item in items:  # only changed pods, for speed with a thousand replicas
            if pod := self._tracker.pods.get(item["metadata"]["uid"]):
                self.logs.read(pod, self._tracker.replica(pod.uid), ended=self._tracker.final is not None)
            self._label(item["metadata"])
        if not isinstance(event, Changed):
            self.logs.forget(self._tracker.pods)

    def not_known(self, why: str) -> Iterator[Event]:
        """Yield for each replica that its log cannot be read before the end."""
        for replica in self._tracker.replicas:
            yield one_line(time.time(), replica, f"(no log before the end: {why})".encode())

    def _label(self, pod: Mapping[str, Any]) -> None:
        """Add the tfsteps labels that a pod lacks: some operators do not copy them."""
        if pod["uid"] not in self._tracker.pods or "deletionTimestamp" in pod:
            return
        labels = self._kind.pod_labels(self._tracker.object.item, self._tracker.replica(pod["uid"]))
        if labels.items() <= (pod.get("labels") or {}).items():
            return
        try:
            self._urgent.patch(PODS, self._namespace, pod["name"], {"metadata": {"uid": pod["uid"], "labels": labels}})
        except ApiError as error:
            warning = f"The pods do not get the labels of the run: {error}"
            if error.status not in (404, 409) and warning not in self.warnings:  # 404, 409: it is gone or replaced
                self.warnings.append(warning)


class Following:
    """The watches of a job, and what they bring.

    Attributes:
        pods: What follows the pods.
        usage: What samples their usage.
    """

    def __init__(self, api: Api, urgent: Api, kind: JobKind, tracker: Tracker, created: float) -> None:
        """Start the watches and the samples of usage.

        Args:
            api: The cluster.
            urgent: The cluster, for requests that must not wait.
            kind: The job's.
            tracker: The job's.
            created: When the job was created, in seconds since the epoch: earlier warnings are not about it.
        """
        name, namespace = tracker.object.name, tracker.object.namespace
        self._urgent, self._kind, self._tracker = urgent, kind, tracker
        self._queue = Inbox()  # log readers wait while it is full, to limit memory
        self._tick_due = 0.0
        self.pods = PodFollower(api, urgent, kind, tracker, self._queue)
        self._warning_events = WarningEvents(urgent, namespace, name, created)
        self.usage = PodUsage(api, namespace, name, kind, tracker, put=self._put)
        put_job, put_pods = functools.partial(self._put, tracker.job), functools.partial(self._put, self.pods.saw)
        selected: dict[str, Any] = kind.watch_selector(name)
        self._job_watch = Watch(api, kind.resource, namespace, put_job, sought=(name, tracker.object.uid), **selected)
        self._pod_watch = Watch(api, JOB_PODS, namespace, put_pods, labelSelector=kind.selector(name))

    def _put(self, handler: Callable[..., Iterator[Event]], *what: Any) -> None:
        self._queue.put((handler, what))

    def next(self) -> Iterator[Event]:
        """Yield what follows from the next watch event or log line, and a Tick when it is due."""
        try:
            handler, what = self._queue.get(timeout=TICK_SECONDS)
        except queue.Empty:
            yield from self._tracker.state(time.time())
        else:
            yield from handler(*what, time.time())
        if time.monotonic() >= self._tick_due:
            self._tick_due = time.monotonic() + TICK_SECONDS
            for seen in self.pods.own_pods.decided(self._tracker.object.item):
                yield from self.pods.saw(seen, time.time())
            watched = self._job_watch.connected and self._pod_watch.connected
            yield Tick(
                time.time(),
                visible=watched and not self.pods.own_pods.warning,
                readable=not self.pods.logs.failing(self._tracker.pods),
            )

    def explain_missing(self) -> None:
        """Tell the tracker why pods are missing, as far as that is known."""
        self._tracker.warning = self.pods.own_pods.warning or self._warning_events.look(self._tracker.is_short)

    def drain(self, stop: StopController) -> Iterator[Event]:
        """Yield how the replicas ended and all their last lines; do not wait for replicas that still run."""
        pods, logs, tracker = self.pods, self.pods.logs, self._tracker
        drain = Drain(logs, lambda: bool(stop.cause or stop.requests))
        vanished = yield from self._last_look()
        while not pods.known and not drain.over and not stop.repeated:
            yield from (event for event in self.next() if not isinstance(event, JobChanged))
        if not pods.known:
            yield from pods.not_known(self._pod_watch.error or "its pods were not listed in time")
        logs.end(tracker.pods)
        ended = {tracker.replica(pod.uid) for pod in tracker.pods.values() if pod.program_ended}
        while not drain.over and not stop.repeated:
            unexplained = vanished & tracker.pods.keys() or tracker.unexplained
            if not (logs.unread or unexplained) and self._queue.empty():
                break  # nothing more is coming
            for event in self.next():
                if not isinstance(event, JobChanged):
                    yield event
                if isinstance(event, LogLines) and event.replica in ended and not event.sidecar:
                    drain.line_came()  # after the yield: the consumer may be slow
        if not stop.repeated:
            yield from logs.gaps(ended, drain.missing)
        pods.warnings += logs.warnings()
        if warning := pods.own_pods.warning:
            pods.warnings.append(warning.message)
            tracker.undecided = warning.message

    def _last_look(self) -> Generator[Event, None, set[str]]:
        """Yield the current state of the pods: the end of the job may be seen before theirs.

        Only the watch reports how pods ended that are already gone; return their uids.
        """
        known, selector = self._tracker.object, self._kind.selector(self._tracker.object.name)
        there, news = set[str](), list[dict[str, Any]]()
        try:
            for item in self._urgent.iterate(JOB_PODS, known.namespace, labelSelector=selector):
                there.add(item["metadata"]["uid"])
                if not self._tracker.knows_end(item["metadata"]):
                    news.append(item)
        except ApiError:
            return set()  # the events of the watch must suffice
        self.pods.known = self._tracker.listed = True
        vanished = self._tracker.pods.keys() - there
        for item in by_age(news):
            yield from self.pods.saw(Changed(item), time.time())
        return vanished

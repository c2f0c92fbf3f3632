"""Reads the logs of all containers of a job's pods, and turns their lines into events."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfsteps.kube.client import Api
from tfsteps.kube.event_loop import EventLoop
from tfsteps.kube.log_lines import Lines
from tfsteps.kube.logs import ContainerLog
from tfsteps.runs.events import Event, LogLines, PartialLine, ReplicaName, one_line
from tfsteps.systems.kubernetes.follow.pods import Container, Pod

DRAIN_SECONDS = 10.0
"""The longest silence of ended replicas before the wait for their last lines ends."""

DRAIN_LIMIT_SECONDS = 600.0
"""How long the last lines are read after the job's end, however many come: a log may go on for ever."""

_NAMED = 5  # replicas in a warning
_Source = tuple[str, str]  # uid of a pod, and name of a container as `pods.Container` has it
_Put = Callable[[tuple[Callable[..., Iterator[Event]], tuple[Any, ...]], int], None]


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

"""The log lines of jobs on a cluster, read from their pods."""

import collections
import datetime as dt
import heapq
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tfsteps.console.messages import warn
from tfsteps.console.text import clean, iso, printable

if TYPE_CHECKING:
    from tfsteps.kube.log_lines import Lines
    from tfsteps.systems.kubernetes.follow.pods import Container
    from tfsteps.systems.kubernetes.query.runs import Job, Runs
    from tfsteps.systems.kubernetes.query.status import JobPod

_LAST_LINES_SECONDS = 10.0  # for those of replicas that run on after their job's end
_Line = tuple[bytes, bytes]
_Source = tuple[str, str]  # uid of a pod, and name of a container


class ClusterLog:
    """Prints what the replicas of some jobs have printed and, if it is followed, what they go on to print."""

    def __init__(self, runs: "Runs", jobs: Sequence["Job"], wanted: Callable[[str], bool], *, timestamps: bool) -> None:
        """Take the jobs of one run, and whose lines are wanted by the name of the replica."""
        from tfsteps.kube.event_loop import EventLoop  # noqa: PLC0415
        from tfsteps.kube.inbox import Inbox  # noqa: PLC0415
        from tfsteps.kube.log_lines import Position  # noqa: PLC0415  local runs need no HTTP

        self._runs = runs
        self._take(jobs)
        self._wanted = wanted
        self._timestamps = timestamps
        self._out = sys.stdout.buffer
        self._positions: dict[_Source, Position] = collections.defaultdict(Position)
        self._loop = EventLoop()
        self._readers: dict[_Source, Any] = {}
        self._news = Inbox()  # while it is full, the readers wait

    def print(self, tail: int | None) -> None:
        """Print what is there, in the order of time; of that the last lines, None = all."""
        for job in self._jobs:
            if not job.pods and job.status.state.terminal:
                warn(f"the pods of {job.status.job} are gone, and their log with them; its launcher has it")
        streams = [self._stream(job, each, part, tail) for job, each in self._pods() for part in each.pod.containers]
        lines = (line for _, line in heapq.merge(*streams, key=itemgetter(0)))
        self._out.writelines(lines if tail is None else collections.deque(lines, maxlen=tail))
        self._out.flush()

    def follow(self, meant: Callable[[Sequence["Job"]], Sequence["Job"]]) -> None:
        """Print what comes until all jobs have ended; `meant` returns those of all jobs of the run that are."""
        timer = threading.Timer(_LAST_LINES_SECONDS, self._news.put, [None])
        timer.daemon = True
        opened = closed = 0
        for news in self._runs.follow(self._jobs[0].status.identity.run, self._news):
            match news:
                case None:
                    return
                case bytes():
                    self._out.write(news)
                case str() as lost:
                    closed += 1
                    self._out.write(f"{lost}\n".encode() if lost else b"")
                case _:
                    self._take(meant(news))
                    opened = self._read()
            over = all(job.status.state.terminal for job in self._jobs)
            if self._news.empty():
                self._out.flush()
                if over and closed == opened:
                    return
            if over and not timer.ident:
                timer.start()

    def _take(self, jobs: Sequence["Job"]) -> None:
        self._jobs = jobs
        self._several = len({job.status.identity.task for job in jobs}) > 1

    def _read(self) -> int:
        """See to it that each pod that has started is read, to its end if it has ended; return how many are."""
        for job, each in self._pods():
            for container in each.pod.containers:
                source = each.pod.uid, container.name
                if source not in self._readers:
                    self._readers[source] = self._reader(job, each, container)
                self._readers[source].tell(
                    container.restarts, ended=container.ended or each.pod.ended or job.status.state.terminal
                )
        pods = {each.pod.uid for _, each in self._pods()}
        for source in [source for source in self._readers if source[0] not in pods]:
            self._readers[source].gone()
        return len(self._readers)

    def _reader(self, job: "Job", each: "JobPod", container: "Container") -> Any:
        from tfsteps.kube.logs import ContainerLog  # noqa: PLC0415

        return ContainerLog(
            self._loop,
            self._runs.api,
            job.status.namespace,
            each.pod.name,
            container.name or job.kind.container,
            put=lambda lines: self._news.put(b"".join(self._lines(job, each, container, lines)), lines.size),
            closed=lambda lost: self._news.put(f"[{_name(each, container)}] (log incomplete: {lost})" if lost else ""),
            position=self._positions[each.pod.uid, container.name],
            restarts=container.restarts,
        )

    def _pods(self) -> list[tuple["Job", "JobPod"]]:
        return [(job, each) for job in self._jobs for each in job.pods if self._wanted(str(each.replica))]

    def _stream(self, job: "Job", each: "JobPod", container: "Container", tail: int | None) -> Iterator[_Line]:
        """Yield a container's lines with their times. Of none the last one is read too, to know where to go on."""
        position = self._positions[each.pod.uid, container.name]
        last = tail if tail is None else max(tail, 1)
        for lines in self._runs.log(job, each, position, tail=last, container=container):
            yield from zip(lines.stamps, self._lines(job, each, container, lines), strict=True)

    def _lines(self, job: "Job", each: "JobPod", container: "Container", lines: "Lines") -> list[bytes]:
        task = f"{clean(job.status.identity.task)}/" if self._several else ""
        head = f"[{task}{_name(each, container)}] ".encode()
        if not self._timestamps:
            return [b"%b%b\n" % (head, printable(text)) for text in lines.texts]
        times = [iso(dt.datetime.fromisoformat(stamp.decode()).timestamp()) for stamp in lines.stamps]
        texts = map(printable, lines.texts)
        return [f"{at} ".encode() + head + text + b"\n" for at, text in zip(times, texts, strict=True)]


def _name(each: "JobPod", container: "Container") -> str:
    return f"{each.replica}/{container.name}" if container.name else str(each.replica)

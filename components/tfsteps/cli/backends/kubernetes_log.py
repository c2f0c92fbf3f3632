"""The log lines of jobs on a cluster, read from their pods."""

import collections
import datetime as dt
import heapq
import sys
import threading
from collections.abc import Iterator, Sequence
from operator import itemgetter

from tfsteps.cli.backends.base import LogOptions
from tfsteps.cli.backends.find import Selection
from tfsteps.console.messages import warn
from tfsteps.console.text import clean, iso, printable
from tfsteps.kube.event_loop import EventLoop
from tfsteps.kube.inbox import Inbox
from tfsteps.kube.log_lines import Lines, Position
from tfsteps.kube.logs import ContainerLog
from tfsteps.systems.kubernetes.follow.pods import Container
from tfsteps.systems.kubernetes.query.runs import Job, Runs
from tfsteps.systems.kubernetes.query.status import JobPod

_LAST_LINES_SECONDS = 10.0  # for replicas that still run after the end of their job
_Line = tuple[bytes, bytes]
_Source = tuple[str, str]  # uid of a pod, and name of a container


class ClusterLog:
    """Prints the log lines of some jobs so far, and those that follow."""

    def __init__(self, runs: Runs, jobs: Sequence[Job], options: LogOptions) -> None:
        """Take the jobs of one run."""
        self._runs = runs
        self._take(jobs)
        self._options = options
        self._out = sys.stdout.buffer
        self._positions: dict[_Source, Position] = collections.defaultdict(Position)
        self._loop = EventLoop()
        self._readers: dict[_Source, ContainerLog] = {}
        self._news = Inbox()  # while it is full, the readers wait

    def print(self, tail: int | None) -> None:
        """Print the lines so far, in the order of time; only the last ones, as many as `tail`; None = all."""
        for job in self._jobs:
            if not job.pods and job.status.state.terminal:
                warn(f"the pods of {job.status.job} are gone, and their log with them; its launcher has it")
        streams = [
            self._stream(job, job_pod, container, tail)
            for job, job_pod in self._pods()
            for container in job_pod.pod.containers
        ]
        lines = (line for _, line in heapq.merge(*streams, key=itemgetter(0)))
        self._out.writelines(lines if tail is None else collections.deque(lines, maxlen=tail))
        self._out.flush()

    def follow(self, selection: Selection) -> None:
        """Print new lines until all jobs of the run that `selection` chooses have ended."""
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
                    self._take(selection.choose(news))
                    opened = self._read()
            over = all(job.status.state.terminal for job in self._jobs)
            if self._news.empty():
                self._out.flush()
                if over and closed == opened:
                    return
            if over and not timer.ident:
                timer.start()

    def _take(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._several = len({job.status.identity.task for job in jobs}) > 1

    def _read(self) -> int:
        """Start or update a reader for each container that has started; return how many readers there are."""
        for job, job_pod in self._pods():
            for container in job_pod.pod.containers:
                source = job_pod.pod.uid, container.name
                if source not in self._readers:
                    self._readers[source] = self._reader(job, job_pod, container)
                self._readers[source].tell(
                    container.restarts, ended=container.ended or job_pod.pod.ended or job.status.state.terminal
                )
        pods = {job_pod.pod.uid for _, job_pod in self._pods()}
        for source in [source for source in self._readers if source[0] not in pods]:
            self._readers[source].gone()
        return len(self._readers)

    def _reader(self, job: Job, job_pod: JobPod, container: Container) -> ContainerLog:
        return ContainerLog(
            self._loop,
            self._runs.api,
            job.status.namespace,
            job_pod.pod.name,
            container.name or job.kind.container,
            put=lambda lines: self._news.put(b"".join(self._lines(job, job_pod, container, lines)), lines.size),
            closed=lambda lost: self._news.put(lost and f"[{_name(job_pod, container)}] (log incomplete: {lost})"),
            position=self._positions[job_pod.pod.uid, container.name],
            restarts=container.restarts,
        )

    def _pods(self) -> list[tuple[Job, JobPod]]:
        pods = [(job, job_pod) for job in self._jobs for job_pod in job.pods]
        return [(job, job_pod) for job, job_pod in pods if self._options.wanted(str(job_pod.replica))]

    def _stream(self, job: Job, job_pod: JobPod, container: Container, tail: int | None) -> Iterator[_Line]:
        """Yield a container's lines with their times. For `tail` 0 one is read too, for its position."""
        position = self._positions[job_pod.pod.uid, container.name]
        last = tail if tail is None else max(tail, 1)
        for lines in self._runs.log(job, job_pod, position, tail=last, container=container):
            yield from zip(lines.stamps, self._lines(job, job_pod, container, lines), strict=True)

    def _lines(self, job: Job, job_pod: JobPod, container: Container, lines: Lines) -> list[bytes]:
        task = f"{clean(job.status.identity.task)}/" if self._several else ""
        head = f"[{task}{_name(job_pod, container)}] ".encode()
        if not self._options.timestamps:
            return [b"%b%b\n" % (head, printable(text)) for text in lines.texts]
        times = [iso(dt.datetime.fromisoformat(stamp.decode()).timestamp()) for stamp in lines.stamps]
        texts = map(printable, lines.texts)
        return [f"{at} ".encode() + head + text + b"\n" for at, text in zip(times, texts, strict=True)]


def _name(job_pod: JobPod, container: Container) -> str:
    return f"{job_pod.replica}/{container.name}" if container.name else str(job_pod.replica)

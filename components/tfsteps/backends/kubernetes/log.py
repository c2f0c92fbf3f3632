"""The log lines of jobs on a cluster, read from their pods."""

import collections
import contextlib
import functools
import heapq
import threading
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from tfsteps.backends.base import LogLine, LogOptions
from tfsteps.backends.find import Selection
from tfsteps.backends.log_printer import LogPrinter
from tfsteps.console.messages import warn
from tfsteps.kube.event_loop import EventLoop
from tfsteps.kube.log_lines import Lines, Position, note
from tfsteps.kube.logs import ContainerLog
from tfsteps.kube.threads import Inbox
from tfsteps.systems.kubernetes.follow.pods import Container
from tfsteps.systems.kubernetes.query.runs import ClusterJob, ClusterRuns
from tfsteps.systems.kubernetes.query.status import JobPod

_LONG_LINE = 1000  # parts of 16 KiB, as nodes write long lines, and count them as lines
_LAST_LINES_SECONDS = 10.0  # for replicas that still run after the end of their job
_Source = tuple[str, str]  # uid of a pod, and name of a container


class ClusterLog:
    """Prints the log lines of some jobs so far, and those that follow."""

    def __init__(self, runs: ClusterRuns, jobs: Sequence[ClusterJob], options: LogOptions) -> None:
        """Take the jobs of one run."""
        self.printer = LogPrinter(options)
        self._runs = runs
        self._options = options
        self._take(jobs)
        self._positions: dict[_Source, Position] = collections.defaultdict(Position)
        self._loop = EventLoop()
        self._readers: dict[_Source, ContainerLog] = {}
        self._inbox = Inbox()  # while it is full, the readers wait

    def print(self, tail: int | None) -> None:
        """Print the lines so far, in the order of time; only the last ones, as many as `tail`; None = all."""
        for job in self._jobs:
            if without := [name for name in job.without_pods if self._options.accepts(name)]:
                warn(
                    f"{job.status.job} has no pod of {', '.join(without)} any more, so that lines are missing. A "
                    "launcher that followed it has them: `tfsteps logs RUN` on its machine, or `kubectl logs "
                    f"--namespace {job.status.namespace} POD --container main` with its pod in `tfsteps show RUN`"
                )
        streams = [self._stream(program) for program in self._programs]
        self.printer.print(heapq.merge(*streams, key=attrgetter("stamp")), tail)
        self.printer.flush()

    def follow(self, selection: Selection) -> None:
        """Print new lines until all jobs of the run that `selection` chooses have ended. To be called once."""
        with contextlib.closing(self._loop):
            self._follow(selection)

    def _follow(self, selection: Selection) -> None:
        timer = threading.Timer(_LAST_LINES_SECONDS, self._inbox.put, [None])
        timer.daemon = True
        opened, closed = self._read(), 0  # of pods that may be gone by the first event: their rest was not printed
        for item in self._runs.follow(self._jobs[0].status.identity.run, self._inbox):
            match item:
                case None:
                    return
                case _Program() as program, Lines() as lines:
                    self.printer.print(program.lines(lines))
                case _Program() as program, str() as lost:
                    closed += 1
                    if lost:
                        self.printer.print(program.lines(note(lost, program.container.restarts)))
                case _:
                    self._take(selection.choose(item))
                    opened = self._read()
            over = all(job.status.state.terminal for job in self._jobs)
            if self._inbox.empty():
                self.printer.flush()
                if over and closed == opened:
                    return
            if over and not timer.ident:
                timer.start()

    def _take(self, jobs: Sequence[ClusterJob]) -> None:
        self._jobs = jobs
        self._programs = [
            program for job in jobs for program in _programs(job) if self._options.accepts(program.source)
        ]
        self.printer.several = len({job.status.identity.task for job in jobs}) > 1

    def _read(self) -> int:
        """Start or update a reader for each container that has started; return how many readers there are."""
        for program in self._programs:
            if program.key not in self._readers:
                self._readers[program.key] = self._reader(program)
            pod, container = program.job_pod.pod, program.container
            ended = container.ended or pod.ended or program.job.status.state.terminal
            self._readers[program.key].tell(container.restarts, ended=ended)
        pods = {job_pod.pod.uid for job in self._jobs for job_pod in job.pods}
        for key in [key for key in self._readers if key[0] not in pods]:
            self._readers[key].gone()
        return len(self._readers)

    def _reader(self, program: "_Program") -> ContainerLog:
        return ContainerLog(
            self._loop,
            self._runs.api,
            program.job.status.namespace,
            program.job_pod.pod.name,
            program.container.name or program.job.kind.container,
            put=lambda lines: self._inbox.put((program, lines), lines.size),
            closed=lambda lost: self._inbox.put((program, lost)),
            position=self._positions[program.key],
            restarts=program.container.restarts,
            uid=program.job_pod.pod.uid,
        )

    def _stream(self, program: "_Program") -> Iterator[LogLine]:
        """Yield a container's lines. If none is to be printed, one is read too, for the position to follow from."""
        since, follow = self._options.since, self._options.follow
        tail = None if self._options.grep else self._options.tail
        read = functools.partial(self._read_so_far, program, since=since)
        if tail is None:
            blocks: Iterable[Lines] = read()
        elif not follow:
            blocks = read(tail=max(tail, 1))
        else:
            blocks = list(read(tail=max(tail, 1) + 1))  # the reader that follows takes an unfinished last line
            if self._positions[program.key].lines <= 1:  # it may be the last part of a long one
                blocks = list(read(tail=max(tail, _LONG_LINE)))
        for lines in blocks:
            yield from program.lines(lines)
        if follow and since is not None and not self._positions[program.key].lines:
            for lines in read(tail=_LONG_LINE, since=None, previous=False):
                yield from program.lines(lines)

    def _read_so_far(self, program: "_Program", **which: Any) -> Iterator[Lines]:
        """Yield a container's lines from a new position on."""
        self._positions[program.key] = position = Position()
        return self._runs.log(
            program.job, program.job_pod, position, container=program.container, rest=not self._options.follow, **which
        )


class _Program(msgspec.Struct, frozen=True):
    """A container that has started.

    Attributes:
        job: Its job.
        job_pod: Its pod.
        container: The container.
        before: Number of its incarnations in earlier pods of the replica that still exist.
    """

    job: ClusterJob
    job_pod: JobPod
    container: Container
    before: int

    @property
    def key(self) -> _Source:
        """The uid of the pod, and the name of the container."""
        return self.job_pod.pod.uid, self.container.name

    @property
    def source(self) -> str:
        """The prefix of its lines."""
        replica, name = self.job_pod.replica, self.container.name
        return f"{replica}/{name}" if name else str(replica)

    def lines(self, lines: Lines) -> Iterator[LogLine]:
        """Yield lines of the container."""
        task, source, incarnation = self.job.status.identity.task, self.source, self.before + lines.restarts
        for at, text in zip(lines.stamps, lines.texts, strict=True):
            yield LogLine(at.decode(), task, source, incarnation, text)


def _programs(job: ClusterJob) -> Iterator[_Program]:
    """Yield the containers of a job that have started; `job.pods` are in the order of their age."""
    incarnations: dict[str, int] = collections.Counter()
    for job_pod in job.pods:
        for container in job_pod.pod.containers:
            program = _Program(job, job_pod, container, 0)
            yield msgspec.structs.replace(program, before=incarnations[program.source])
            incarnations[program.source] += container.restarts + 1


def containers(job: ClusterJob) -> list[str]:
    """Return the sources of a job's log beside its replicas: of its pods, and of pods that its object describes."""
    specs = [(str(job_pod.replica), job_pod.item["spec"]) for job_pod in job.pods]
    for name, role in job.kind.roles(job.item).items():
        specs += [(f"{name}-{i}", role.template["spec"]) for i in range(role.replicas)]
    return list(
        dict.fromkeys(
            f"{replica}/{container['name']}"
            for replica, spec in specs
            for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
            if container["name"] != job.kind.container
        )
    )

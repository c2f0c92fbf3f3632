"""The jobs that launchers on this machine record, and the saved log lines of their attempts."""

import bisect
import contextlib
import itertools
import pathlib
import time
from collections.abc import Iterator, Sequence

import msgspec

from tfsteps.answer import Answer
from tfsteps.backends.base import LogLine, LogOptions
from tfsteps.backends.log_printer import LogPrinter
from tfsteps.runs.demo import Mark, read
from tfsteps.runs.log_file import GAP, NOT_SAVED, LogReader, stamp
from tfsteps.runs.pipeline_record import PipelineRecord, StepRecord
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder

_FOREIGN_SECONDS = 1.0  # a cluster tells the end of a container in whole seconds, rounded down


class LocalLog(contextlib.ExitStack):
    """Prints the log lines of some attempts, each once, also when files grow and attempts are added."""

    def __init__(self, options: LogOptions) -> None:
        """Open nothing yet."""
        super().__init__()
        self.printer = LogPrinter(options)
        self._files: dict[pathlib.Path, tuple[_LineIncarnations | _StepTry, LogReader]] = {}
        self._ended: set[pathlib.Path] = set()  # logs whose lost lines were reported

    def print(
        self,
        jobs: Sequence["LocalAttempt"],
        pipeline: PipelineRecord | None,
        steps: Sequence[StepRecord],
        tail: int | None = None,
    ) -> None:
        """Print the new lines of `jobs` and of steps of a pipeline; only the last, as many as `tail`; None = all."""
        sources: list[_LineIncarnations | _StepTry] = [_LineIncarnations(job) for job in jobs]
        if pipeline:
            sources += [_StepTry(step, log) for step in steps if (log := pipeline.log_of(step))]
        for source in sorted(sources, key=lambda source: source.started):
            if source.log not in self._files and source.log.exists():
                self._files[source.log] = source, self.enter_context(LogReader(source.log))
        self.printer.several = len(self._files) > 1
        self.printer.print(itertools.chain(self._lines(), self._lost(jobs)), tail)
        self.printer.flush()

    def _lines(self) -> Iterator[LogLine]:
        for of_file, file in self._files.values():
            for at, source, text in file.read():
                yield of_file.line(at, source, text)

    def _lost(self, jobs: Sequence["LocalAttempt"]) -> Iterator[LogLine]:
        """Yield a line about each log that lacks lines which could not be saved; this is known at the job's end."""
        for job in jobs:
            status = job.status
            if status.state.terminal and job.attempt.log not in self._ended:
                self._ended.add(job.attempt.log)
                at, task = stamp(status.ended or status.created).decode(), status.identity.task
                for warning in status.warnings:
                    if NOT_SAVED in warning:
                        yield LogLine(at, task, GAP, 0, f"(log incomplete: {warning})".encode())


def containers(job: "LocalAttempt") -> list[str]:
    """Return the sources of a job's log beside its replicas; a program of this machine has none."""
    if job.status.on_this_machine or not job.attempt.log.exists():
        return []
    with LogReader(job.attempt.log) as log:
        return sorted({source for _, source, _ in log.read() if "/" in source})


class _StepTry:
    """A try of a step that launched no job."""

    def __init__(self, step: StepRecord, log: pathlib.Path) -> None:
        self.log, self.started = log, step.started
        self._step = step

    def line(self, at: str, source: str, text: bytes) -> LogLine:
        return LogLine(at, self._step.name, source if source == GAP else "", self._step.number, text)


class _LineIncarnations:
    """Finds the incarnation of a replica that printed a line, by when the one before it had ended."""

    def __init__(self, job: "LocalAttempt") -> None:
        self.log, self.started = job.attempt.log, job.status.created
        self._task = job.status.identity.task
        self._attempt = job.attempt
        self._is_local = job.status.on_this_machine
        self._take(job.status)

    def line(self, at: str, source: str, text: bytes) -> LogLine:
        return LogLine(at, self._task, source, self._number(source, at), text)

    def _number(self, source: str, at: str) -> int:
        """Return the number of the incarnation, from 0; always 0 for another container than the program's."""
        if self._is_local and at > self._taken:
            with contextlib.suppress(OSError):
                self._take(self._attempt.status())
        ends, numbers = self._known.get(source, ((), (0,)))
        return numbers[bisect.bisect_left(ends, at)]

    def _take(self, status: Status) -> None:
        self._taken = stamp(time.time()).decode()
        self._known: dict[str, tuple[Sequence[str], Sequence[int]]] = {}
        more = 0.0 if self._is_local else _FOREIGN_SECONDS
        for replica in status.replicas:
            if len(replica.incarnations) > 1:
                before = replica.incarnations[:-1]
                ends = [stamp((incarnation.ended or incarnation.started) + more).decode() for incarnation in before]
                self._known[replica.name] = ends, [incarnation.number for incarnation in replica.incarnations]


class LocalAttempt(msgspec.Struct, frozen=True):
    """One attempt, as it was when it was looked at.

    Attributes:
        attempt: Its folder.
        alive: Whether its launcher was alive, just before the status was read.
        status: Its status.
    """

    attempt: AttemptFolder
    alive: Answer
    status: Status

    @property
    def running(self) -> bool:
        """Whether its launcher was certainly alive."""
        return self.alive.yes

    @property
    def run_object(self) -> str:
        return ""

    @property
    def demo(self) -> Mark | None:
        try:
            return read(self.attempt.folder.parents[1])
        except OSError:  # it may be one: no command changes it
            return Mark()

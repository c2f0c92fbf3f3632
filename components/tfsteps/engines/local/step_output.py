"""The output of one step of a local pipeline run: saved, and shown with the name of its task before each line."""

import pathlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

import msgspec

from tfsteps.launcher.log_writer import LogWriter, log_limit
from tfsteps.runs.events import LogLines, ReplicaName, one_line
from tfsteps.runs.pipeline_record import STEP
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder, make_private
from tfsteps.spec import RoleName
from tfsteps.text.tracebacks import raised

_SOURCE = ReplicaName(cast("RoleName", STEP.partition("-")[0]), 0)
_REPLICA_LINE = re.compile(rb"\[(chief|worker|ps|evaluator)-(\d+)/?([^\]]*)\] (.*)", re.DOTALL)
_EXECUTOR_LINE = re.compile(
    rb"\[KFP Executor [^\]]* INFO\]: "
    rb"(Looking for component `|Loading KFP component \"|(Got executor_input:)|Wrote executor output file to |"
    rb"Did not write output file\.)"
)
_JSON_LINE = re.compile(rb"[{}]|    .*")  # of a mapping that is printed with an indent of 4


class StepObserver(Protocol):
    """What shows the jobs of several steps."""

    def changed(self, status: Status) -> None:
        """Show the status of an attempt."""

    def lines(self, lines: LogLines, task: str = "") -> None:
        """Show log lines of a task."""


class View(msgspec.Struct, frozen=True):
    """Where the output of steps is shown.

    Attributes:
        observer: Receives the states and lines of replicas; None = they are printed as the other lines are.
        say: Prints a line.
    """

    observer: StepObserver | None
    say: Callable[[str], None]


class StepOutput:
    """Saves and shows the output of one try of a step."""

    def __init__(self, attempt: AttemptFolder, task: str, log: pathlib.Path, view: View) -> None:
        """Create the file.

        Args:
            attempt: The attempt at a job whose replicas the step may print; it need not exist. They have their own log.
            task: The name of the step's task.
            log: File for the lines that are not of a replica. If it cannot be written, they are shown only.
            view: Where all lines are shown.
        """
        self._attempt, self._task, self._view = attempt, task, view
        self._executor_input = False  # whether the last line belongs to what KFP's executor prints of its input
        self._seen: tuple[int, int] | None = None
        self._log: LogWriter | None = None
        try:
            make_private(log.parent)
            self._log = LogWriter(log, log_limit()[0])
        except OSError as error:
            view.say(f"warning: the output of {task} is not saved: {error}")

    def add_lines(self, lines: list[bytes]) -> None:
        """Save and show lines, and show the status of the step's job if it has changed."""
        step_lines = []
        for line in self._without_executor(lines):
            if match := _REPLICA_LINE.fullmatch(line):
                self._show_replica(line, match)
            else:
                step_lines.append(line)
                self._view.say(f"[{self._task}] {_decoded(line)}")
        if self._log:
            self._log.write(LogLines(time.time(), _SOURCE, step_lines))
        if self._view.observer and self._changed():
            self._view.observer.changed(self._attempt.status())

    def close(self) -> str:
        """Close the file, and return the exception that the step's output ends with; empty = none."""
        self.add_lines([])
        if not self._log:
            return ""
        self._log.close()
        for warning in self._log.warnings:
            self._view.say(f"warning: {self._task}: {warning}")
        return raised(self._log.tails.last_lines(STEP, 0)).exception

    def _show_replica(self, line: bytes, match: re.Match[bytes]) -> None:
        if self._view.observer:
            replica = ReplicaName(cast("RoleName", match[1].decode()), int(match[2]))
            self._view.observer.lines(one_line(time.time(), replica, match[4], match[3].decode()), self._task)
        else:
            self._view.say(f"[{self._task}/{_decoded(line[1:])}")

    def _without_executor(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the lines that KFP's executor does not print of itself; a component's own log lines look alike."""
        for line in lines:
            if match := _EXECUTOR_LINE.match(line):
                self._executor_input = bool(match[2])
            elif not (self._executor_input and _JSON_LINE.fullmatch(line)):
                self._executor_input = False
                yield line

    def _changed(self) -> bool:
        try:
            stat = (self._attempt.folder / "status.json").stat()
        except FileNotFoundError:
            return False
        before, self._seen = self._seen, (stat.st_mtime_ns, stat.st_ino)
        return self._seen != before


def _decoded(line: bytes) -> str:
    return line.decode(errors="backslashreplace").rstrip("\r")

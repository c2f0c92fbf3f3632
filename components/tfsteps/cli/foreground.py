"""Runs a planned job to its end, with its output, its TensorBoard and its results."""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from tfsteps.api.launching import launch_failed, launch_plan
from tfsteps.api.plan import Plan
from tfsteps.cli.watch import observer
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.outputs import OutputFormat, forget_tensorboard, outputs, print_json, results
from tfsteps.console.text import iso
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import exit_code
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.recorder import Observer
from tfsteps.launcher.signals import on_termination
from tfsteps.os_errors import next_step
from tfsteps.runs.events import LogLines
from tfsteps.runs.location import Location
from tfsteps.runs.log_file import times
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import TrainingJob
from tfsteps.spec.types import TensorBoard as TensorBoardSettings
from tfsteps.systems.base import LaunchError

if TYPE_CHECKING:
    from tfsteps.tensorboard.process import TensorBoardProcess


class Display(msgspec.Struct, frozen=True):
    """How a job is shown.

    Attributes:
        output: text, or json: the outputs as one object, and log lines on standard error.
        timestamps: Plain log lines, each with its time.
    """

    output: OutputFormat = OutputFormat.TEXT
    timestamps: bool = False

    def observer(self) -> contextlib.AbstractContextManager[Observer]:
        """Return what shows a job while it runs."""
        if self.output is OutputFormat.TEXT and not self.timestamps:
            return observer()
        printer = _StampedPrinter if self.timestamps else Printer
        return contextlib.nullcontext(printer(sys.stderr if self.output is OutputFormat.JSON else sys.stdout))

    def begin(self, run: str) -> None:
        """Print the id of the run, before anything is started.

        Raises:
            CommandError: Standard output cannot be written.
            BrokenPipeError: Nobody reads it.
        """
        try:
            print(f"run {run}", file=sys.stderr if self.output is OutputFormat.JSON else sys.stdout, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            wrong = f"run {run} was not started: standard output cannot be written: {error.strerror}"
            raise CommandError(f"{wrong}; {next_step(error)}", ExitCode.PLATFORM) from error

    def results(self, status: Status, printed: Sequence[str] = ()) -> None:
        """Print the results of an ended job, and its warnings except those that are `printed`."""
        for warning in status.warnings:
            if warning not in printed:
                warn(warning)
        if self.output is OutputFormat.JSON:
            print_json(outputs(status))
        else:
            Printer().say(
                "\n".join(results(status, told=True))
            )  # a closed standard output must not change the exit code


class TensorBoardChoice(msgspec.Struct, frozen=True):
    """The options about TensorBoard.

    Attributes:
        wanted: Whether there is one; None = if the job file has `tensorboard:`.
        keep: Keep it up after the end of a job that is not on a cluster.
    """

    wanted: bool | None = None
    keep: bool = False

    def check(self, on: str) -> None:
        """Raise CommandError if the place has no such option."""
        if self.keep and on == Location.KUBERNETES:
            raise CommandError("--keep-tensorboard: on a cluster it stays up by itself; write --tensorboard")

    def change(self, job: TrainingJob, on: str) -> TrainingJob:
        """Return the job for a cluster, where the job system starts the TensorBoard; elsewhere the job as it is."""
        if on != Location.KUBERNETES or self.wanted is None:
            return job
        return msgspec.structs.replace(
            job, tensorboard=(job.tensorboard or TensorBoardSettings()) if self.wanted else None
        )


def run_plan(plan: Plan, on: str, display: Display, tensorboard: TensorBoardChoice) -> ExitCode:
    """Run a job to its end, print its results, and return the exit code.

    Raises:
        CommandError: It could not be launched or followed, or a TensorBoard that the user wants does not start.
    """
    display.begin(plan.identity.run)
    printed = plan.system.warnings(plan.job)
    for warning in printed:
        warn(warning)
    here = on != Location.KUBERNETES
    with board_of(plan, tensorboard, here=here) as board:
        with display.observer() as view:
            try:
                status = launch_plan(plan, view, board.url if board else "")
            except LaunchError as error:
                raise launch_failed(plan.identity.task, error) from error
        attempt = AttemptFolder.of(status.identity)
        if here and status.tensorboard_url and not tensorboard.keep:
            forget_tensorboard(attempt)
            status.tensorboard_url = ""
        display.results(status, printed)
        if board and tensorboard.keep:
            _keep(board, plan.job)
            forget_tensorboard(attempt)
    return exit_code(status)


class _StampedPrinter(Printer):
    """Prints each line with its time."""

    def lines(self, lines: LogLines) -> None:
        for at, text in times(lines):
            self.say(f"{iso(at)} [{lines.source}] {self._text([text])}")


# --- TensorBoard


@contextlib.contextmanager
def board_of(plan: Plan, choice: TensorBoardChoice, *, here: bool) -> "Iterator[TensorBoardProcess | None]":
    """Yield the TensorBoard of a job on this machine, if it has one.

    One that the user wants must start; one of the job file may fail with a warning.

    Args:
        plan: The job.
        choice: The options.
        here: Whether TensorBoard runs on this machine.
    """
    job = plan.job
    required = here and (choice.keep if choice.wanted is None else choice.wanted)
    optional = here and choice.wanted is not False and job.tensorboard
    if not required and not optional:
        yield None
        return
    from tfsteps.tensorboard.process import TensorBoardError, TensorBoardProcess  # noqa: PLC0415  most runs have none

    def failed(error: TensorBoardError) -> None:
        warn(f"{error}; the job runs without it")

    board = TensorBoardProcess(plan.places.tensorboard(job), on_failure=failed)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(board)
        except TensorBoardError as error:
            if required:
                raise CommandError(f"{error}; or run without --tensorboard") from error
            failed(error)
            yield None
            return
        print(f"tensorboard {board.url}", file=sys.stderr, flush=True)
        yield board


def _keep(board: "TensorBoardProcess", job: TrainingJob) -> None:
    """Keep TensorBoard up until a signal comes, or the job's `keep_for` has passed."""
    keep_for = job.tensorboard.keep_for if job.tensorboard else None
    give_up = time.monotonic() + (keep_for or float("inf"))
    signals: list[bool] = []
    with on_termination(lambda: signals.append(True)):
        print(f"TensorBoard stays up until Ctrl-C: {board.url}", file=sys.stderr, flush=True)
        while not signals and time.monotonic() < give_up:
            time.sleep(0.1)

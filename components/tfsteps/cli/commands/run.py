"""`tfsteps run`: one job from its file to its summary."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tfsteps.cli.backends.place import Context, Namespace, On
from tfsteps.cli.commands.plan import Plan, choose, make_plan, print_plan
from tfsteps.cli.errors import CommandError
from tfsteps.cli.watch import observer
from tfsteps.console.messages import warn
from tfsteps.console.outputs import Output, forget_tensorboard, outputs, print_json, results
from tfsteps.console.text import iso
from tfsteps.launcher.exit_codes import ExitCode, exit_code
from tfsteps.launcher.lifecycle import Observer, launch
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.signals import on_termination
from tfsteps.runs.events import LogLines
from tfsteps.runs.log_file import times
from tfsteps.runs.status import Status
from tfsteps.runs.store import Attempt
from tfsteps.spec import TrainingJob
from tfsteps.spec.types import TensorBoard as TensorBoardSettings
from tfsteps.systems.base import LaunchError

if TYPE_CHECKING:
    from tfsteps.tensorboard.process import TensorBoard

JobFile = Annotated[str, typer.Argument(metavar="JOB", help="The job file, YAML or JSON; `-` reads standard input.")]


def run(
    job: JobFile,
    *,
    on: Annotated[
        On | None,
        typer.Option(
            help="Processes of this machine, jobs of a cluster, or tasks of HAI Platform.", show_default="local"
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The job system by its name.", show_default="local; on a cluster what fits it"
        ),
    ] = None,
    context: Context = "",
    namespace: Namespace = "",
    run_id: Annotated[str | None, typer.Option(help="Id of the run. Left out: a new one, printed first.")] = None,
    task: Annotated[str | None, typer.Option(help="Name of the task within the run. Left out: the job's.")] = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="On a cluster or HAI: if the task's job runs already, its launcher gone, go on with it."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be started, and start nothing.")] = False,
    output: Annotated[
        Output, typer.Option(help="json: the outputs as one object; log lines go to stderr.")
    ] = Output.TEXT,
    tensorboard: Annotated[
        bool | None,
        typer.Option(help="A TensorBoard for the job. Left out: if the job file has `tensorboard:`."),
    ] = None,
    keep_tensorboard: Annotated[
        bool,
        typer.Option("--keep-tensorboard", help="Keep it up until Ctrl-C, or for the job's `keep_for`."),
    ] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Plain log lines, each with its time.")] = False,
) -> None:
    """Run a job to its end.

    Prints the run's id, its log as it is written, then where the model, metrics and report are. Run it again with the
    same --run-id for another attempt, which shares the output folder.
    """
    name, place = choose(on, system, context, namespace)
    if adopt and (place.on is On.LOCAL or run_id is None):
        raise CommandError(
            "--adopt needs --on kubernetes or hai and the --run-id of the job; a local job ends with its launcher"
        )
    here = place.on is not On.KUBERNETES  # on a cluster the job system starts the TensorBoard, and Kubernetes ends it
    if keep_tensorboard and not here:
        raise CommandError("--keep-tensorboard: on a cluster it stays up by itself; write --tensorboard")

    def change(job: TrainingJob, _system: str) -> TrainingJob:
        wanted = (job.tensorboard or TensorBoardSettings()) if tensorboard else None
        return job if here or tensorboard is None else msgspec.structs.replace(job, tensorboard=wanted)

    plan = make_plan(job, name, place, run_id, task, adopt=adopt, dry_run=dry_run, change=change)
    if dry_run:
        print_plan(plan, as_json=output is Output.JSON)
        return
    text = sys.stderr if output is Output.JSON else sys.stdout
    print(f"run {plan.identity.run}", file=text, flush=True)
    for warning in plan.system.warnings(plan.job):
        warn(warning)
    required = keep_tensorboard if tensorboard is None else tensorboard
    with _tensorboard(plan, required=required and here, optional=tensorboard is not False and here) as board:
        with _observer(output, timestamps=timestamps) as view:
            status = _launch(plan, view, board.url if board else "")
        attempt = Attempt.of(status.identity)
        if here and not keep_tensorboard:
            forget_tensorboard(attempt)
            status.tensorboard_url = ""
        _print_results(plan, status, output)
        if board and keep_tensorboard:
            _keep(board, plan.job)
            forget_tensorboard(attempt)
    raise typer.Exit(exit_code(status))


# --- while it runs


def _launch(plan: Plan, view: Observer, tensorboard_url: str) -> Status:
    try:
        return launch(
            plan.job,
            plan.identity,
            plan.system,
            base_dir=plan.base_dir,
            observers=[view],
            tensorboard_url=tensorboard_url,
        )
    except LaunchError as error:
        code = ExitCode.PLATFORM if error.retryable else ExitCode.USAGE
        what = "was launched, but not followed to its end" if error.created else "could not be launched"
        raise CommandError(f"{plan.identity.task} {what}: {error}", code) from error


class _StampedPrinter(Printer):
    """Prints each line with its time."""

    def lines(self, lines: LogLines) -> None:
        for at, text in times(lines):
            self.say(f"{iso(at)} [{lines.source}] {self._text([text])}")


def _observer(output: Output, *, timestamps: bool) -> contextlib.AbstractContextManager[Observer]:
    if output is Output.TEXT and not timestamps:
        return observer()
    printer = _StampedPrinter if timestamps else Printer
    return contextlib.nullcontext(printer(sys.stderr if output is Output.JSON else sys.stdout))


# --- after


def _print_results(plan: Plan, status: Status, output: Output) -> None:
    printed = plan.system.warnings(plan.job)
    for warning in status.warnings:
        if warning not in printed:  # before the start
            warn(warning)
    if output is Output.JSON:
        print_json(outputs(status))
    else:
        Printer().say("\n".join(results(status)))  # a closed standard output must not change the exit code


# --- TensorBoard


@contextlib.contextmanager
def _tensorboard(plan: Plan, *, required: bool, optional: bool) -> "Iterator[TensorBoard | None]":
    """Yield a TensorBoard if it is required, or optional and in the job file; only a required one must start."""
    job = plan.job
    if not required and not (optional and job.tensorboard):
        yield None
        return
    from tfsteps.tensorboard.process import TensorBoard, TensorBoardError  # noqa: PLC0415  most runs have none

    def failed(error: TensorBoardError) -> None:
        warn(f"{error}; the job runs without it")

    board = TensorBoard(plan.places.tensorboard(job), on_failure=failed)
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


def _keep(board: "TensorBoard", job: TrainingJob) -> None:
    """Keep TensorBoard up until a signal comes, or the job's `keep_for` has passed."""
    keep_for = job.tensorboard.keep_for if job.tensorboard else None
    give_up = time.monotonic() + (keep_for or float("inf"))
    signals: list[bool] = []
    with on_termination(lambda: signals.append(True)):
        print(f"TensorBoard stays up at {board.url}; Ctrl-C ends it", file=sys.stderr, flush=True)
        while not signals and time.monotonic() < give_up:
            time.sleep(0.1)

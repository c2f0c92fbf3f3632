"""`tfsteps run`: one job from its file to its summary."""

import contextlib
import json
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
import yaml

from tfsteps import records, spec, systems
from tfsteps.cli.errors import CommandError, warn
from tfsteps.cli.find import LATEST
from tfsteps.cli.outputs import Output, forget_tensorboard, outputs, print_json, results
from tfsteps.cli.text import iso
from tfsteps.cli.watch import observer
from tfsteps.exits import Exit, exit_code
from tfsteps.identity import Identity, new_run_id
from tfsteps.launch import Observer, launch
from tfsteps.printer import Printer
from tfsteps.records import Attempt, Status
from tfsteps.spec import SpecError, TrainingJob
from tfsteps.stopping import on_termination
from tfsteps.systems.base import LaunchError, LogLine, Places, System

if TYPE_CHECKING:
    from tfsteps.tensorboard.process import TensorBoard

JobFile = Annotated[str, typer.Argument(metavar="JOB", help="The job file, YAML or JSON; `-` reads standard input.")]


class _Plan(msgspec.Struct, frozen=True):
    """What is about to be run."""

    job: TrainingJob
    identity: Identity
    system: System
    here: pathlib.Path
    places: Places


def run(
    job: JobFile,
    *,
    system: Annotated[str, typer.Option(metavar="NAME", help="The job system to run it on.")] = "local",
    run_id: Annotated[str | None, typer.Option(help="Id of the run. Left out: a new one, printed first.")] = None,
    task: Annotated[str | None, typer.Option(help="Name of the task within the run. Left out: the job's.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be started, and start nothing.")] = False,
    output: Annotated[
        Output, typer.Option(help="json: the outputs as one object; log lines go to stderr.")
    ] = Output.TEXT,
    tensorboard: Annotated[
        bool | None,
        typer.Option(help="A TensorBoard while the job runs. Left out: if the job file has `tensorboard:`."),
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
    plan = _plan(job, system, run_id, task)
    if dry_run:
        _print_plan(plan, output)
        return
    text = sys.stderr if output is Output.JSON else sys.stdout
    print(f"run {plan.identity.run}", file=text, flush=True)
    for warning in plan.system.warnings(plan.job):
        warn(warning)
    wanted = keep_tensorboard if tensorboard is None else tensorboard
    with _tensorboard(plan, asked=wanted, offered=tensorboard is not False) as board:
        with _observer(output, timestamps=timestamps) as looking:
            status = _launch(plan, looking, board.url if board else "")
        attempt = Attempt.of(status.identity)
        if not keep_tensorboard:
            forget_tensorboard(attempt)
            status.tensorboard_url = ""
        _print_results(plan, status, output)
        if board and keep_tensorboard:
            _keep(board, plan.job)
            forget_tensorboard(attempt)
    raise typer.Exit(exit_code(status))


# --- before


def read_job(file: str) -> TrainingJob:
    """Return the job in `file`, `-` for standard input.

    Raises:
        SpecError: It is wrong.
        CommandError: It cannot be read.
    """
    try:
        if file == "-":
            return spec.parse(sys.stdin.read(), "stdin", systems.options())
        return spec.load(file, systems.options())
    except FileNotFoundError as error:
        raise CommandError(f"job file {file!r} does not exist; `tfsteps init` writes one to start from") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"job file {file!r} cannot be read: {error}; give the path of a YAML or JSON file"
        ) from error


def find_system(name: str) -> System:
    """Return the job system called `name`. CommandError for an unknown one."""
    known = systems.available()
    if name not in known:
        raise CommandError(f"job system {name!r} is unknown: use one of {', '.join(known)}")
    return systems.get(name)


def check(job: TrainingJob, system: System, source: str) -> None:
    """Raise SpecError for a job that cannot run on `system`."""
    if problems := system.problems(job):
        raise SpecError(problems, source)


def _plan(file: str, system_name: str, run_id: str | None, task: str | None) -> _Plan:
    system = find_system(system_name)
    job = read_job(file)
    check(job, system, "stdin" if file == "-" else file)
    run = new_run_id() if run_id is None else _named("--run-id", run_id)
    task = job.name if task is None else _named("--task", task)
    for earlier in records.attempts(run, task):
        if earlier.alive():
            stop = f"`tfsteps stop {run} --task {task}` stops it"
            raise CommandError(f"run {run}: task {task} is running already; {stop}, another --task runs beside it")
    identity = Identity(run=run, task=task, attempt=system.attempt(run, task))
    here = pathlib.Path.cwd() if file == "-" else pathlib.Path(file).absolute().parent
    return _Plan(job, identity, system, here, system.places(job, identity, here))


def _named(option: str, text: str) -> str:
    if not text.strip() or not text.isprintable() or text == LATEST:
        raise CommandError(f"{option} {text!r} cannot be used: give some printable text other than `{LATEST}`")
    return text


def _print_plan(plan: _Plan, output: Output) -> None:
    data: dict[str, Any] = {
        "run": plan.identity.run,
        "task": plan.identity.task,
        "attempt": plan.identity.attempt,
        "system": plan.system.name,
        "output": plan.places.output,
        "model": plan.places.model,
        "logs": plan.places.logs,
        "warnings": plan.system.warnings(plan.job),
        "objects": plan.system.plan(plan.job, plan.identity, plan.places),
    }
    if output is Output.JSON:
        print_json(data)
    else:  # through JSON, for YAML knows plain types alone
        print(yaml.safe_dump(json.loads(msgspec.json.encode(data)), sort_keys=False, allow_unicode=True), end="")


# --- while it runs


def _launch(plan: _Plan, looking: Observer, tensorboard_url: str) -> Status:
    try:
        return launch(
            plan.job,
            plan.identity,
            plan.system,
            here=plan.here,
            observers=[looking],
            tensorboard_url=tensorboard_url,
        )
    except LaunchError as error:
        code = Exit.PLATFORM if error.retryable else Exit.USAGE
        raise CommandError(f"{plan.identity.task} could not be launched: {error}", code) from error


class _StampedPrinter(Printer):
    """Prints each line with the time at which it was read."""

    def line(self, line: LogLine) -> None:
        self.say(f"{iso(line.at)} [{line.replica}] {line.text.decode(errors='backslashreplace')}")


def _observer(output: Output, *, timestamps: bool) -> contextlib.AbstractContextManager[Observer]:
    if output is Output.TEXT and not timestamps:
        return observer()
    printer = _StampedPrinter if timestamps else Printer
    return contextlib.nullcontext(printer(sys.stderr if output is Output.JSON else sys.stdout))


# --- after


def _print_results(plan: _Plan, status: Status, output: Output) -> None:
    known = plan.system.warnings(plan.job)
    for warning in status.warnings:
        if warning not in known:  # those were printed before the start
            warn(warning)
    if output is Output.JSON:
        print_json(outputs(status))
    else:
        Printer().say("\n".join(results(status)))  # a reader that went away must not change the exit code


# --- TensorBoard


@contextlib.contextmanager
def _tensorboard(plan: _Plan, *, asked: bool, offered: bool) -> "Iterator[TensorBoard | None]":
    """Yield a TensorBoard if one was asked for or the job offers one; that it fails matters in the first case only."""
    job = plan.job
    if not asked and not (offered and job.tensorboard):
        yield None
        return
    from tfsteps.tensorboard.process import TensorBoard, TensorBoardError  # noqa: PLC0415  most runs have none

    own = job.tensorboard.log_dir if job.tensorboard else None
    board = TensorBoard(pathlib.Path(plan.places.output, own) if own else plan.places.logs)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(board)
        except TensorBoardError as error:
            if asked:
                raise CommandError(f"{error}; or run without --tensorboard") from error
            warn(f"{error}; the job runs without it")
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

"""What commands do with a planned job: print it, run it to its end with its output and TensorBoard, or start it."""

import contextlib
import json
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tfsteps.api.plan import Plan, launch_failed, launch_plan
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.cli.watch import observer
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say, warn
from tfsteps.console.outputs import OutputFormat, forget_tensorboard, outputs, print_json, results, verdict
from tfsteps.console.text import clean, iso
from tfsteps.launcher import background
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import exit_code
from tfsteps.launcher.lifecycle import begin
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.recorder import Observer
from tfsteps.launcher.signals import on_termination
from tfsteps.os_errors import next_step
from tfsteps.runs.events import LogLines
from tfsteps.runs.location import Location
from tfsteps.runs.log_file import times
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import TrainingJob, format_duration
from tfsteps.spec.types import TensorBoard as TensorBoardSettings
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.capabilities import Level
from tfsteps.text.streams import takes_any

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

    def observer(self, *, discards: bool = True) -> contextlib.AbstractContextManager[Observer]:
        """Return what shows a job while it runs; `discards` as for `Printer`."""
        if self.output is OutputFormat.TEXT and not self.timestamps:
            return observer(discards=discards)
        printer = _StampedPrinter if self.timestamps else Printer
        out = sys.stderr if self.output is OutputFormat.JSON else sys.stdout
        return contextlib.nullcontext(printer(out, discards=discards))

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
                "\n".join(results(status, log_shown=True))
            )  # a closed standard output must not change the exit code


class TensorBoardChoice(msgspec.Struct, frozen=True):
    """The options about TensorBoard.

    Attributes:
        requested: Whether there is one; None = if the job file has `tensorboard:`.
        keep: Keep it up after the end of a job that is not on a cluster.
    """

    requested: bool | None = None
    keep: bool = False

    def change(self, job: TrainingJob, on: str) -> TrainingJob:
        """Return the job for a cluster, where the job system starts the TensorBoard; elsewhere the job as it is."""
        if on != Location.KUBERNETES or self.requested is None:
            return job
        return msgspec.structs.replace(
            job, tensorboard=(job.tensorboard or TensorBoardSettings()) if self.requested else None
        )


def run_plan(plan: Plan, on: str, display: Display, tensorboard: TensorBoardChoice) -> ExitCode:
    """Run a job to its end, print its results, and return the exit code.

    Raises:
        CommandError: It could not be launched or followed, or a TensorBoard that the user wants does not start.
    """
    display.begin(plan.identity.run)
    for warning in plan.warnings:
        warn(warning)
    here = on != Location.KUBERNETES
    with tensorboard_process(plan, tensorboard, here=here) as process:
        with display.observer() as view:
            try:
                status = launch_plan(plan, [view], process.url if process else "")
            except LaunchError as error:
                raise launch_failed(plan.identity.task, error) from error
        attempt = AttemptFolder.of(status.identity)
        if here and status.tensorboard_url and not tensorboard.keep:
            forget_tensorboard(attempt)
            status.tensorboard_url = ""
        display.results(status, plan.warnings)
        if process and tensorboard.keep:
            _keep(process, plan.job)
            forget_tensorboard(attempt)
    return exit_code(status)


class _StampedPrinter(Printer):
    """Prints each line with its time."""

    def lines(self, lines: LogLines) -> None:
        for at, text in times(lines):
            self.say(f"{iso(at)} [{lines.source}] {self._text([text])}")


# --- TensorBoard


@contextlib.contextmanager
def tensorboard_process(plan: Plan, choice: TensorBoardChoice, *, here: bool) -> "Iterator[TensorBoardProcess | None]":
    """Yield the TensorBoard of a job on this machine, if it has one.

    One that the user wants must start; one of the job file may fail with a warning.

    Args:
        plan: The job.
        choice: The options.
        here: Whether TensorBoard runs on this machine.
    """
    job = plan.job
    required = here and (choice.keep if choice.requested is None else choice.requested)
    optional = here and choice.requested is not False and job.tensorboard
    if not required and not optional:
        yield None
        return
    from tfsteps.tensorboard.process import TensorBoardError, TensorBoardProcess  # noqa: PLC0415  most runs have none

    def failed(error: TensorBoardError) -> None:
        warn(f"{error}; the job runs without it")

    process = TensorBoardProcess(plan.paths.tensorboard(job), on_failure=failed)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(process)
        except TensorBoardError as error:
            if required:
                raise CommandError(f"{error}; or run without --tensorboard") from error
            failed(error)
            yield None
            return
        print(f"tensorboard {process.url}", file=sys.stderr, flush=True)
        yield process


def _keep(process: "TensorBoardProcess", job: TrainingJob) -> None:
    """Keep TensorBoard up until a signal comes, or the job's `keep_for` has passed."""
    keep_for = job.tensorboard.keep_for if job.tensorboard else None
    give_up = time.monotonic() + (keep_for or float("inf"))
    signals: list[bool] = []
    with on_termination(lambda: signals.append(True)):
        print(f"TensorBoard stays up until Ctrl-C: {process.url}", file=sys.stderr, flush=True)
        while not signals and time.monotonic() < give_up:
            time.sleep(0.1)


# --- detach


def start_detached(plan: Plan, location: BackendLocation, display: Display, tensorboard: TensorBoardChoice) -> ExitCode:
    """Start a job, print how to follow it, and return the exit code: 0 once it has started.

    Locally a launcher stays in the background. On a cluster or platform no launcher does: the job is recorded, so that
    `tfsteps attach` can follow it.

    Raises:
        CommandError: It could not be started.
    """
    if tensorboard.keep:
        raise CommandError("--keep-tensorboard: a detached job has no terminal; see `tfsteps tensorboard`")
    display.begin(plan.identity.run)
    for warning in plan.warnings:
        warn(warning)
    try:
        status = _begun(plan) if plan.system.outlives_launcher else _in_background(plan, tensorboard)
    except LaunchError as error:
        raise launch_failed(plan.identity.task, error) from error
    except KeyboardInterrupt:  # the launcher in the background does not get Ctrl-C
        run = shlex.quote(plan.identity.run)
        say(f"run {plan.identity.run} may have started; `tfsteps stop {run}{location.options}` stops it")
        raise
    if display.output is OutputFormat.JSON:
        print_json(outputs(status))
    if status.state.terminal and plan.system.outlives_launcher:  # Ctrl-C during the start
        print(verdict(status))
        return exit_code(status)
    if display.output is OutputFormat.TEXT:
        print("\n".join(_hints(plan, location, status)))
    return ExitCode.SUCCEEDED


def _in_background(plan: Plan, tensorboard: TensorBoardChoice) -> Status:
    """Launch a job from a process that outlives this one."""

    def run(ready: Observer) -> None:
        try:
            with tensorboard_process(plan, tensorboard, here=True) as process:
                launch_plan(plan, [ready], process.url if process else "")
                forget_tensorboard(AttemptFolder.of(plan.identity))
        except CommandError as error:  # of the TensorBoard
            raise LaunchError(str(error), retryable=True) from error

    return background.spawn(run)


def _begun(plan: Plan) -> Status:
    """Create a job that needs no launcher, and record it on this machine."""
    status = begin(plan.job, plan.identity, plan.system, base_dir=plan.base_dir, warnings=plan.warnings, checked=True)
    if status.state.terminal:
        return status
    status.detached, status.launcher = True, 0
    try:
        AttemptFolder.of(status.identity).record(status, msgspec.json.encode(plan.job))
    except OSError as error:
        warn(f"{status.job} runs, but is not recorded on this machine: {error}; `tfsteps attach` may not know it")
    return status


def _hints(plan: Plan, location: BackendLocation, status: Status) -> list[str]:
    """Return the lines that say how to follow and stop a job, and what ends it."""
    run = shlex.quote(status.identity.run)
    lines = [
        f"{clean(status.identity.task)} runs as {status.job} on {status.system}",
        f"follow it:  tfsteps attach {run}{location.options}",
        f"stop it:    tfsteps stop {run}{location.options}",
    ]
    by_launcher = registry.capabilities_of(plan.system.name)["tensorboard"].level is Level.DONE
    if plan.job.tensorboard and plan.system.outlives_launcher and by_launcher:
        starts = f"`tfsteps attach {run}{location.options}` or `tfsteps tensorboard {run}{location.options}` starts one"
        lines.append(f"tensorboard: none while no launcher follows the job; {starts}")
    return [*lines, *_deadlines(plan)]


def _deadlines(plan: Plan) -> list[str]:
    """Return which deadlines nothing enforces while no launcher follows the job, and what enforces `total`."""
    if not plan.system.outlives_launcher:
        return []
    limits = plan.job.deadlines
    waiting = [name for name in ("queue", "pending", "running", "no_progress") if getattr(limits, name) is not None]
    total = f"`total` ({format_duration(limits.total)})"
    objects = json.dumps(msgspec.to_builtins(plan.system.plan(plan.job, plan.identity, plan.paths)))
    platform = registry.plugin(plan.system.name).platform
    by_system = (platform and platform.enforces_total) or '"activeDeadlineSeconds"' in objects
    by = f"{plan.system.name} and the janitor enforce" if by_system else "only the janitor enforces"
    lines = [f"deadline:   {by} {total} while no launcher follows the job"]
    if waiting:
        names = ", ".join(f"`{name}`" for name in waiting)
        lines.append(f"            {names}: not enforced until `tfsteps attach` follows the job")
    return lines


# --- dry runs


def print_plan(plan: Plan, *, as_json: bool) -> None:
    """Print what would be started: objects for kubectl, or the processes of a local run."""
    objects = json.loads(msgspec.json.encode(plan.system.plan(plan.job, plan.identity, plan.paths)))
    if all("apiVersion" in item for item in objects):
        for warning in plan.warnings:
            warn(warning)
        if note := registry.plugin(plan.system.name).plan_note:
            say(note)
        documents = objects
    else:
        documents = [_described(plan, objects)]
    if not as_json:
        import yaml  # noqa: PLC0415  commands start faster without it

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # of libyaml: many times as fast
        unicode = takes_any(sys.stdout)
        print(yaml.dump_all(documents, Dumper=dumper, sort_keys=False, allow_unicode=unicode), end="")
    elif len(documents) == 1:
        print_json(documents[0])
    else:
        print_json({"apiVersion": "v1", "kind": "List", "items": documents})


def print_job_file(plan: Plan) -> None:
    """Print the job file of a job that has none, as a comment."""
    import yaml  # noqa: PLC0415  as above

    source = plan.job.code_source  # the folder, not its hash: the file may be used on another machine
    code = msgspec.structs.replace(source, digest=None) if source and source.bucket else source and source.folder
    job = msgspec.structs.replace(plan.job, code=code)
    text = yaml.safe_dump(
        msgspec.to_builtins(job), sort_keys=False, allow_unicode=takes_any(sys.stdout), default_flow_style=None
    )
    print("\n".join(["# job file:", *(f"#   {line}" for line in text.splitlines())]))


def _described(plan: Plan, objects: list[Any]) -> dict[str, Any]:
    return {
        "run": plan.identity.run,
        "task": plan.identity.task,
        "attempt": plan.identity.attempt,
        "system": plan.system.name,
        "output": plan.paths.output,
        "model": plan.paths.model,
        "logs": plan.paths.logs,
        "warnings": plan.warnings,
        "objects": objects,
    }

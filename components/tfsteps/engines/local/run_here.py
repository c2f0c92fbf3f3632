"""Runs a pipeline on this machine with a live view, TensorBoard, and a summary of the results."""

import contextlib
import pathlib
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tfsteps.console.messages import warn
from tfsteps.console.outputs import forget_tensorboard, results
from tfsteps.console.text import columns, duration
from tfsteps.engines.base import TENSORBOARD_URL
from tfsteps.engines.local.runner import PipelineError, Step, check, run
from tfsteps.image import IMAGE
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.lifecycle import Observer
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.signals import on_termination
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.identity import new_run_id
from tfsteps.runs.pipeline_record import PipelineRecord, StepRecord
from tfsteps.tensorboard.process import TensorBoard, TensorBoardError
from tfsteps.text import streams


def run_here(
    pipeline: Any,
    arguments: Mapping[str, Any],
    *,
    images: Collection[str] = (),
    cwd: pathlib.Path | None = None,
    keep_tensorboard: bool = False,
) -> int:
    """Run a pipeline on this machine to its end and return the exit code: 0 only if it succeeded.

    Ctrl-C stops it. The run is recorded in the folder of all runs, so that `tfsteps show` and `logs` find its jobs.

    Args:
        pipeline: The result of `@dsl.pipeline`.
        arguments: Inputs by name; inputs that are left out have their defaults.
        images: Images, besides the one of tfsteps, whose programs are installed on this machine.
        cwd: Working directory of the steps' commands, in place of the image's; None = the current folder.
        keep_tensorboard: Whether TensorBoard runs on after the end of the pipeline, until Ctrl-C.
    """
    streams.ensure()
    run_id = new_run_id(pipeline.name)
    root = store.pipeline_folder(run_id)
    out = Printer()
    out.say(f"run {run_id}")
    created = time.time()
    try:
        check(pipeline, {IMAGE, *images})
    except PipelineError as error:
        _record(run_id, pipeline.name, created, [], error)
        out.say(f"{pipeline.name} cannot run on this machine: {error}")
        return error.exit_code
    # the folder is private, as the inputs of steps may hold secrets; locked, the run is not removed
    with contextlib.suppress(KeyboardInterrupt), store.locked(root), _tensorboard(run_id) as board:
        env = {TENSORBOARD_URL: board.url} if board else {}
        code, verdict, steps = _run(
            pipeline, arguments, pipeline_root=root, run_id=run_id, images={IMAGE, *images}, cwd=cwd, env=env
        )
        elapsed = duration(time.time() - created)
        if not (board and keep_tensorboard):
            _forget_tensorboard(run_id)
        out.say("\n".join([*_results(run_id, steps), f"{pipeline.name} {verdict} after {elapsed}"]))
        if board and keep_tensorboard:
            _keep(board)
            _forget_tensorboard(run_id)
        return code
    out.say(f"{pipeline.name} cancelled")  # Ctrl-C before or after the steps
    return ExitCode.CANCELLED


def _run(pipeline: Any, arguments: Mapping[str, Any], **options: Any) -> tuple[int, str, list[Step]]:
    """Run the pipeline and record its end; return the exit code, the result as text, and the steps that ended."""
    created = time.time()
    with _observer() as (observer, say):
        try:
            steps = run(pipeline, arguments, observer=observer, say=say, **options)
            _record(options["run_id"], pipeline.name, created, steps)
            return 0, "succeeded", steps  # noqa: TRY300
        except PipelineError as error:
            _record(options["run_id"], pipeline.name, created, error.steps, error)
            verdict = "cancelled" if error.exit_code == ExitCode.CANCELLED else f"failed: {error}"
            return error.exit_code, verdict, error.steps


def _record(run_id: str, name: str, created: float, steps: Sequence[Step], error: PipelineError | None = None) -> None:
    """Record how the pipeline ended, and write its report; if that fails, the result is only printed."""
    from tfsteps.report import write_run  # noqa: PLC0415  needed at the end only

    with contextlib.suppress(OSError):
        PipelineRecord(
            run=run_id,
            pipeline=name,
            state=_state(error.exit_code if error else 0),
            message=str(error) if error else "",
            created=created,
            ended=time.time(),
            steps=[
                StepRecord(
                    name=step.name,
                    state=_state(step.exit_code),
                    exit_code=step.exit_code,
                    started=step.started,
                    ended=step.started + step.seconds,
                )
                for step in steps
            ],
        ).write()
        write_run(run_id)


def _state(exit_code: int) -> State:
    """Return the state of a pipeline or a step with this exit code."""
    if exit_code == ExitCode.CANCELLED:
        return State.CANCELLED
    return State.FAILED if exit_code else State.SUCCEEDED


@contextlib.contextmanager
def _observer() -> Iterator[tuple[Observer | None, Any]]:
    """Yield the observer of the jobs and the printer of other lines: the live view, or None and plain lines."""
    if not sys.stdout.isatty():
        yield None, Printer().say
        return
    from tfsteps.console.live_view import LiveView  # noqa: PLC0415  rich is for terminals only

    with LiveView() as view:
        yield view, view.say


def _results(run_id: str, steps: list[Step]) -> list[str]:
    rows = [[step.name, f"exit {step.exit_code}", duration(step.seconds), str(step.folder)] for step in steps]
    lines = columns([["STEP", "", "ELAPSED", "OUTPUTS"], *rows]) if rows else []
    if store.run_report(run_id).exists():
        lines += ["", f"{'run report':<12} {store.run_report(run_id)}"]
    return [*lines, *(line for attempt in store.attempts(run_id) for line in ["", *results(attempt.status())]), ""]


# --- TensorBoard


@contextlib.contextmanager
def _tensorboard(run_id: str) -> Iterator[TensorBoard | None]:
    """Yield a TensorBoard for all jobs of the run; None, with a warning, if it cannot be started."""

    def failed(error: TensorBoardError) -> None:
        warn(f"{error}; the pipeline runs without it")

    board = TensorBoard(store.run_folder(run_id), on_failure=failed)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(board)
        except TensorBoardError as error:
            failed(error)
            yield None
            return
        Printer().say(f"tensorboard {board.url}")
        yield board


def _forget_tensorboard(run_id: str) -> None:
    for attempt in store.attempts(run_id):
        forget_tensorboard(attempt)


def _keep(board: TensorBoard) -> None:
    """Keep TensorBoard running until a signal arrives."""
    signals: list[bool] = []
    with on_termination(lambda: signals.append(True)):
        Printer().say(f"TensorBoard stays up at {board.url}; Ctrl-C ends it")
        while not signals:
            time.sleep(0.1)

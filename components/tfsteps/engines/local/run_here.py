"""Runs a pipeline on this machine with a live view, TensorBoard, and a summary of the results."""

import contextlib
import os
import pathlib
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.outputs import forget_tensorboard, pipeline_verdict, results
from tfsteps.console.text import clean, columns, duration
from tfsteps.engines.base import TENSORBOARD_URL
from tfsteps.engines.kfp.authoring import compiled_text
from tfsteps.engines.local.runner import PipelineError, check, run
from tfsteps.engines.local.step_output import StepObserver
from tfsteps.image import IMAGE
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.signals import on_termination
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.identity import new_run_id
from tfsteps.runs.pipeline_record import LocalSubmission, PipelineRecord, StepRecord
from tfsteps.tensorboard.process import TensorBoardError, TensorBoardProcess
from tfsteps.text import streams

_TENSORBOARD_STEP = "tfsteps.steps.tensorboard.launcher"


def run_here(
    pipeline: Any,
    arguments: Mapping[str, Any],
    *,
    images: Collection[str] = (),
    cwd: pathlib.Path | None = None,
    tensorboard: bool = False,
    keep_tensorboard: bool = False,
    run_id: str = "",
) -> int:
    """Run a pipeline on this machine to its end and return the exit code: 0 only if it succeeded.

    10 if a step failed; a step of tfsteps also with its other codes. Ctrl-C stops it. The run is recorded in the folder
    of all runs, where `tfsteps show`, `logs` and `rerun` find it.

    Args:
        pipeline: The result of `@dsl.pipeline`.
        arguments: Inputs by name; inputs that are left out have their defaults.
        images: Images, besides the one of tfsteps, whose programs are installed on this machine.
        cwd: Working directory of the steps' commands, in place of the image's; None = the current folder.
        tensorboard: Whether there is a TensorBoard for its jobs. There also is one if the pipeline has a `tensorboard`
            step.
        keep_tensorboard: Whether there is a TensorBoard, and it runs on after the end of the pipeline, until Ctrl-C.
        run_id: Id of the run; empty = a new one.
    """
    streams.ensure()
    run_id = run_id or new_run_id(pipeline.name)
    root, folder = store.pipeline_folder(run_id), cwd or pathlib.Path.cwd()
    out = Printer()
    out.say(f"run {run_id}")
    record = PipelineRecord(
        run=run_id, pipeline=pipeline.name, engine="local", state=State.RUNNING, created=time.time()
    )
    try:
        lock = store.locked(root)  # the run is not removed, and its folder is private: inputs may hold secrets
    except OSError as error:
        raise CommandError(f"the run folder cannot be used: {error}; set TFSTEPS_HOME", ExitCode.PLATFORM) from error
    with contextlib.suppress(KeyboardInterrupt), lock:
        text = compiled_text(pipeline)
        submission = LocalSubmission(
            pipeline=text, arguments=dict(arguments), images=sorted(images), folder=os.fspath(folder)
        )
        try:
            submission.write(run_id)
        except OSError as error:
            warn(f"the pipeline is not recorded, and cannot be run again by `tfsteps rerun`: {error}")
        try:
            check(pipeline, {IMAGE, *images})
        except PipelineError as error:
            _end(record, error)
            out.say(pipeline_verdict(record))
            return error.exit_code
        with_tensorboard = tensorboard or keep_tensorboard or _TENSORBOARD_STEP in text
        with _tensorboard(run_id) if with_tensorboard else contextlib.nullcontext() as process:
            env = {TENSORBOARD_URL: process.url} if process else {}
            code = _run(pipeline, arguments, record, images={IMAGE, *images}, cwd=folder, env=env)
            if not (process and keep_tensorboard):
                _forget_tensorboard(run_id)
            out.say("\n".join([*_results(record), pipeline_verdict(record)]))
            if process and keep_tensorboard:
                _keep(process)
                _forget_tensorboard(run_id)
            return code
    if record.ended is None:  # Ctrl-C before or after the steps
        _end(record, PipelineError("", ExitCode.CANCELLED))
    out.say(pipeline_verdict(record))
    return ExitCode.CANCELLED


def _run(pipeline: Any, arguments: Mapping[str, Any], record: PipelineRecord, **options: Any) -> int:
    """Run the pipeline, record its steps and its end, and return the exit code."""

    def changed(steps: Sequence[StepRecord]) -> None:
        record.steps = list(steps)
        with contextlib.suppress(OSError):  # a full disk: the result is only printed
            record.write()

    changed([])
    error = None
    with _observer() as (observer, say):
        try:
            run(
                pipeline,
                arguments,
                pipeline_root=store.pipeline_folder(record.run),
                run_id=record.run,
                observer=observer,
                say=say,
                record=changed,
                **options,
            )
        except PipelineError as failure:
            error = failure
    _end(record, error)
    return error.exit_code if error else 0


def _end(record: PipelineRecord, error: PipelineError | None) -> None:
    """Record how the pipeline ended, and write its report; if that fails, the result is only printed."""
    from tfsteps.report import write_run  # noqa: PLC0415  needed at the end only

    cancelled = error and error.exit_code == ExitCode.CANCELLED
    record.state = State.CANCELLED if cancelled else State.FAILED if error else State.SUCCEEDED
    record.message = str(error) if error and not cancelled else ""
    record.ended = time.time()
    with contextlib.suppress(OSError):
        record.write()
        write_run(record.run)


@contextlib.contextmanager
def _observer() -> Iterator[tuple[StepObserver | None, Any]]:
    """Yield the observer of the jobs and the printer of other lines: the live view, or None and plain lines."""
    if not sys.stdout.isatty():
        yield None, Printer().say
        return
    from tfsteps.console.live_view import LiveView  # noqa: PLC0415  rich is for terminals only

    with LiveView() as view:
        yield view, view.say


def _results(record: PipelineRecord) -> list[str]:
    rows = [
        [
            step.name,
            f"exit {'?' if step.exit_code is None else step.exit_code}",
            duration((step.ended or step.started) - step.started),
            step.outputs,
        ]
        for step in record.steps
    ]
    lines = columns([["STEP", "", "ELAPSED", "OUTPUTS"], *rows]) if rows else []
    for attempt in store.attempts(record.run):
        status = attempt.status()
        lines += ["", f"{'task':<12} {clean(status.identity.task)}", *results(status)[:-1]]  # without the verdict
    return [
        *lines,
        "",
        *([f"{'run report':<12} {report}"] if (report := store.run_report(record.run)).exists() else []),
    ]


# --- TensorBoard


@contextlib.contextmanager
def _tensorboard(run_id: str) -> Iterator[TensorBoardProcess | None]:
    """Yield a TensorBoard for all jobs of the run; None, with a warning, if it cannot be started."""

    def failed(error: TensorBoardError) -> None:
        warn(f"{error}; the pipeline runs without it")

    process = TensorBoardProcess(store.run_folder(run_id), on_failure=failed)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(process)
        except TensorBoardError as error:
            failed(error)
            yield None
            return
        Printer().say(f"tensorboard {process.url}")
        yield process


def _forget_tensorboard(run_id: str) -> None:
    for attempt in store.attempts(run_id):
        forget_tensorboard(attempt)


def _keep(process: TensorBoardProcess) -> None:
    """Keep TensorBoard running until a signal arrives."""
    signals: list[bool] = []
    with on_termination(lambda: signals.append(True)):
        Printer().say(f"TensorBoard stays up until Ctrl-C: {process.url}")
        while not signals:
            time.sleep(0.1)

"""Runs a pipeline on this machine: kfp.local, with container components as processes instead of containers."""

import contextlib
import functools
import math
import os
import pathlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from kfp import dsl
from kfp.local import utils

from tfsteps import typed_json
from tfsteps.engines.kfp.executor import RUN_ID, ExecutorInput
from tfsteps.engines.local.sdk_patches import patched, problem
from tfsteps.engines.local.step import StepProcess, can_fork
from tfsteps.engines.local.step_output import StepObserver, StepOutput, View
from tfsteps.image import IMAGE
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.signals import on_termination
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity, name_problem, new_run_id
from tfsteps.runs.pipeline_record import StepRecord
from tfsteps.runs.store import AttemptFolder
from tfsteps.systems.base import LaunchError
from tfsteps.systems.local import pipeline_lock
from tfsteps.systems.local.guard import Guard
from tfsteps.systems.local.pipeline_lock import PipelineLock

_NOT_LOCAL = (  # kfp.local fails with an IndexError for these placeholders
    dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER,
    dsl.PIPELINE_JOB_CREATE_TIME_UTC_PLACEHOLDER,
    dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER,
)


class PipelineError(Exception):
    """A pipeline that did not succeed.

    Attributes:
        exit_code: Exit code of the run: that of the failed step if it is one of tfsteps, else 10; 12 if the run was
            cancelled; 2 if nothing was started.
        steps: The tries of the steps, in the order of their starts.
    """

    def __init__(self, message: str, exit_code: int, steps: Sequence[StepRecord] = ()) -> None:
        """Store the message, the exit code and the steps."""
        self.exit_code = exit_code
        self.steps = list(steps)
        super().__init__(message)


def run(
    pipeline: Any,
    arguments: Mapping[str, Any],
    *,
    pipeline_root: pathlib.Path,
    run_id: str = "",
    images: Collection[str] = (IMAGE,),
    cwd: pathlib.Path | None = None,
    env: Mapping[str, str] | None = None,
    observer: StepObserver | None = None,
    say: Callable[[str], None] | None = None,
    record: Callable[[Sequence[StepRecord]], None] | None = None,
) -> list[StepRecord]:
    """Run a pipeline to its end and return its steps, including retries, in the order in which they started.

    SIGTERM, SIGINT and SIGHUP stop the running steps, and so the pipeline.

    Args:
        pipeline: The result of `@dsl.pipeline`.
        arguments: Inputs by name; inputs that are left out have their defaults.
        pipeline_root: Folder for the steps' outputs.
        run_id: Id of the run, by which `tfsteps show` finds its jobs; empty = a new id.
        images: Images whose programs are installed on this machine. A step with another image is refused.
        cwd: Working directory of the steps' commands, in place of the image's; None = the current folder.
        env: Environment variables for every step.
        observer: Receives the jobs' states and lines; called from several threads, one at a time.
        say: Receives the lines that are not passed to `observer`; None = print them.
        record: Receives the steps when one has started or ended, from several threads, one at a time; None = nobody.

    Raises:
        PipelineError: A step failed, the run was cancelled, or a step cannot run on this machine.
    """
    check(pipeline, images)
    run_id = run_id or new_run_id(pipeline.name)
    if problem := name_problem(run_id):
        raise PipelineError(f"run id {run_id!r} {problem}", ExitCode.USAGE)
    say = say or Printer().say
    with _jobs(run_id, say), PipelineLock() as lock, Guard() as guard:
        variables = {**(env or {}), **lock.env, RUN_ID: run_id}
        start = functools.partial(StepProcess, cwd=cwd or pathlib.Path.cwd(), guard=guard)
        steps = _Steps(variables, start, pathlib.Path(pipeline_root), View(observer, say), record or (lambda _: None))
        try:
            with patched(steps.run, pipeline_root, say), on_termination(steps.stop):
                pipeline(**arguments)
        except (
            _StoppedBySignal,
            RuntimeError,
        ) as error:  # kfp's RuntimeError contains only the name of the failed task
            refused = PipelineError(f"the pipeline ended, though no step failed: {error}", ExitCode.FAILED, steps.tries)
            raise steps.failure() or refused from error
    return steps.tries


@contextlib.contextmanager
def _jobs(run_id: str, say: Callable[[str], None]) -> Iterator[None]:
    """At the end of the block, wait for the jobs of `launch` steps: they stop when the pipeline's lock is released."""
    others = {attempt.folder for attempt in _alive(run_id)}
    try:
        yield
    finally:
        remaining = [attempt for attempt in _alive(run_id) if attempt.folder not in others]
        try:
            pipeline_lock.until_ended(remaining)
        except LaunchError as error:
            say(f"warning: {error}")


def _alive(run_id: str) -> list[AttemptFolder]:
    return [attempt for attempt in store.attempts(run_id) if attempt.alive().yes]


class _StoppedBySignal(Exception):  # noqa: N818  not an error
    """A signal arrived: no further step is started."""


class _Steps:
    """The ended and the running steps of one run."""

    def __init__(
        self,
        env: Mapping[str, str],
        start: Callable[[list[str], Mapping[str, str]], StepProcess],
        folder: pathlib.Path,
        view: View,
        record: Callable[[Sequence[StepRecord]], None],
    ) -> None:
        self.tries: list[StepRecord] = []
        self._env, self._start, self._folder, self._view, self._record = env, start, folder, view, record
        self._running: set[StepProcess] = set()
        self._starting = 0
        self._stopped = False
        self._ours: set[str] = set()  # names of the steps of tfsteps, whose exit codes have a meaning
        self._lock = threading.Lock()  # the iterations of a loop run in threads

    def run(self, command: list[str], env: Mapping[str, str], executor_input: Mapping[str, Any]) -> int:
        """Run one step to its end and return its exit code."""
        task = typed_json.convert(executor_input, ExecutorInput)
        task.make_folders()
        with self._process(command, {**self._env, **env}) as process:
            step = self._begin(task, ours=can_fork(command))
            output = StepOutput(self._attempt(task), step.name, self._folder / step.log, self._view)
            for lines in process.lines():
                with self._lock:
                    output.add_lines(lines)
            code = process.wait()
        output_file = pathlib.Path(task.outputs.output_file)
        if code == 0 and not output_file.exists():
            task.write({}, {})  # a program that writes its outputs alone: kfp.local would have no artifacts
        with self._lock:
            exception = output.close()
            step.message = exception if code else ""
            step.exit_code, step.ended, step.state = code, time.time(), self._state(code)
            self._record(self.tries)
        if self._stopped:
            raise _StoppedBySignal
        return code

    def _begin(self, task: ExecutorInput, *, ours: bool) -> StepRecord:
        name = task.identity().task
        outputs = pathlib.Path(task.outputs.output_file).parent
        with self._lock:
            number = sum(step.name == name for step in self.tries)
            log = f"logs/{store.quote(name)}.{number}"
            step = StepRecord(name=name, state=State.RUNNING, started=time.time(), log=log, outputs=os.fspath(outputs))
            self.tries.append(step)
            if ours:
                self._ours.add(name)
            self._record(self.tries)
        return step

    def _state(self, code: int) -> State:
        if code and (self._stopped or code == ExitCode.CANCELLED):
            return State.CANCELLED
        return State.FAILED if code else State.SUCCEEDED

    def stop(self) -> None:
        """Stop every running step, and start no other step. Called from the signal handler."""
        self._stopped = True
        for process in tuple(self._running):
            process.terminate()
        if not (self._running or self._starting):
            raise _StoppedBySignal

    def failure(self) -> PipelineError | None:
        """Return the first failure of a step whose last try failed; None if every step succeeded."""
        if self._stopped:
            return PipelineError("the pipeline was cancelled", ExitCode.CANCELLED, self.tries)
        last = {step.name: step for step in self.tries}
        for step in sorted(last.values(), key=lambda step: step.ended or math.inf):
            if step.exit_code:
                code = (
                    step.exit_code if step.name in self._ours and step.exit_code in set(ExitCode) else ExitCode.FAILED
                )
                return PipelineError(f"step {step.name} failed with {step.why}", code, self.tries)
        return None

    @contextlib.contextmanager
    def _process(self, command: list[str], env: Mapping[str, str]) -> Iterator[StepProcess]:
        if self._stopped:
            raise _StoppedBySignal
        self._starting += 1  # from now on a signal waits until there is a process to forward it to
        try:
            process = self._start(command, env)
            self._running.add(process)
        finally:
            self._starting -= 1
        if self._stopped:
            process.terminate()
        try:
            yield process
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            self._running.discard(process)

    def _attempt(self, task: ExecutorInput) -> AttemptFolder:
        """Return the attempt at a job that a step makes or waits for; it need not exist."""
        match task.parameters.get("job"):
            case {"run": str(run), "task": str(name), "attempt": int(attempt)}:  # a `wait` step, for this job
                identity = Identity(run=run, task=name, attempt=attempt)
            case _:
                first_attempt = task.identity(self._env)
                identity = msgspec.structs.replace(
                    first_attempt, attempt=store.next_attempt(first_attempt.run, first_attempt.task)
                )
        return AttemptFolder.of(identity)


# --- kfp.local


def check(pipeline: Any, images: Collection[str]) -> None:
    """Raise PipelineError if a step of the pipeline cannot run on this machine, before any step runs."""
    if sentence := problem(pipeline):
        raise PipelineError(sentence, ExitCode.USAGE)
    spec = pipeline.pipeline_spec
    text = str(spec)
    for placeholder in _NOT_LOCAL:
        if placeholder in text:
            raise PipelineError(f"{placeholder} has no value in local runs; leave it out", ExitCode.USAGE)
    for name, executor in spec.deployment_spec["executors"].items():
        container = utils.struct_to_executor_spec(executor).container
        step = name.removeprefix("exec-")
        if container.image and container.image not in images:
            raise PipelineError(
                f"step {step}: image {container.image!r} cannot run without containers; use "
                f"{' or '.join(sorted(images))}, add `--installed {container.image}` (in Python: `images=`) if its "
                "programs are installed on this machine, or run the pipeline on a cluster",
                ExitCode.USAGE,
            )
        if container.image and not container.command:
            wrong = "has no command, and the program of its image is not known here; add `command=[...]`"
            raise PipelineError(f"step {step}: {wrong}", ExitCode.USAGE)

"""Runs a pipeline: starts the program of each step as a process, one after another."""

import functools
import pathlib
import time
from collections.abc import Callable

import msgspec

from tfsteps.console.outputs import pipeline_verdict
from tfsteps.engines.local.step import StepProcess
from tfsteps.engines.submission import Submission, check_names
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.signals import on_termination
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.identity import new_run_id
from tfsteps.runs.pipeline_record import PipelineRecord, StepRecord
from tfsteps.systems.local.guard import Guard
from tfsteps.systems.local.pipeline_lock import PipelineLock
from toy_engine import ARGUMENT
from toy_engine.pipeline import Pipeline, Step
from toy_engine.submit_options import ToyOptions
from toy_engine.task import Task


def submit(submission: Submission) -> int:
    """Run a pipeline to its end and return the exit code."""
    check_names(submission.parameters, known=(), missing=())  # it has no inputs
    if submission.dry_run:
        Printer().say(submission.compiled.text)
        return ExitCode.SUCCEEDED
    pipeline = msgspec.yaml.decode(submission.compiled.text, type=Pipeline)
    options: ToyOptions = submission.options
    run = submission.name or new_run_id(pipeline.toy)
    folder = store.pipeline_folder(run)
    with store.locked(folder), PipelineLock() as lock, Guard() as guard:  # jobs end with the pipeline, also if killed
        start = functools.partial(StepProcess, env=lock.env, cwd=submission.folder, guard=guard)
        runner = _Runner(pipeline, run, folder, start, options.tries)
        with on_termination(runner.stop):
            return runner.run()


class _Runner:
    def __init__(
        self, pipeline: Pipeline, run: str, folder: pathlib.Path, start: Callable[[list[str]], StepProcess], tries: int
    ) -> None:
        self._pipeline, self._folder, self._start, self._tries = pipeline, folder, start, tries
        self._record = PipelineRecord(
            run=run, pipeline=pipeline.toy, engine="toy", state=State.RUNNING, created=time.time()
        )
        self._out = Printer()
        self._stopped = False
        self._process: StepProcess | None = None

    def stop(self) -> None:
        """Stop the running step and start no other but finalizers; called from the signal handler."""
        self._stopped = True
        if self._process:
            self._process.terminate()

    def run(self) -> int:
        """Run the steps and return the exit code."""
        self._out.say(f"run {self._record.run}")
        code: int = ExitCode.SUCCEEDED
        for step in self._pipeline.steps:
            for _ in range(self._tries or step.tries):
                if (code or self._stopped) and not step.finalizer:
                    break
                if not (ended := self._try(step)):
                    break
            else:
                code = code or ended
        state = State.CANCELLED if self._stopped else State.FAILED if code else State.SUCCEEDED
        self._record.state, self._record.ended = state, time.time()
        self._record.write()
        self._out.say(pipeline_verdict(self._record))
        return ExitCode.CANCELLED if self._stopped else code

    def _try(self, step: Step) -> int:
        """Run one try of a step and return its exit code."""
        run, file = self._record.run, self._folder / f"{step.name}.json"
        outputs = str(self._folder / f"{step.name}.outputs.json")
        task = Task(run=run, pipeline=self._pipeline.toy, name=step.name, parameters=step.inputs, outputs=outputs)
        file.write_bytes(msgspec.json.encode(task))
        command = ["python", "-m", f"tfsteps.steps.{step.program}.launcher", ARGUMENT, str(file)]
        record = StepRecord(name=step.name, state=State.RUNNING, started=time.time())
        self._record.steps.append(record)
        self._record.write()
        self._process = self._start(command)
        for lines in self._process.lines():
            for line in lines:
                self._out.say(line.decode(errors="replace"))
        code = self._process.wait()
        self._process = None
        record.state, record.exit_code, record.ended = State.FAILED if code else State.SUCCEEDED, code, time.time()
        self._record.write()
        return code

"""The record of a local pipeline run: its state, its steps, and what it was started with."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.demo import Mark
from tfsteps.runs.events import State
from tfsteps.runs.store import AttemptFolder, make_private, open_private, pipeline_folder, run_folder

STEP = "step-0"
"""The source of all lines in the log of a step; no replica has this name."""


class StepRecord(msgspec.Struct, kw_only=True):
    """One try of a step of a pipeline on this machine.

    Attributes:
        name: The name of the step's task.
        state: running, succeeded, failed or cancelled; lost = its pipeline was killed.
        exit_code: Exit code of the step; None = it has not ended.
        started: Seconds since the epoch.
        ended: Seconds since the epoch; None = it has not ended.
        message: The exception of a step that failed, if its output ends with one; empty = none is known.
        log: The file of its output, below the pipeline's folder; empty = its output was not kept. Lines of replicas are
            in the logs of their jobs instead.
        outputs: The folder of its output files; empty = not known.
    """

    name: str
    state: State
    exit_code: int | None = None
    started: float
    ended: float | None = None
    message: str = ""
    log: str = ""
    outputs: str = ""

    @property
    def number(self) -> int:
        """The number of the try among those of its step, from 0."""
        return int(self.log.rpartition(".")[2] or 0)

    @property
    def why(self) -> str:
        """Why the step did not succeed, as a clause; empty = it did, or it has not ended."""
        if not self.exit_code:
            return ""
        return f"exit code {self.exit_code}" + (f": {self.message}" if self.message else "")


class LocalSubmission(msgspec.Struct, kw_only=True):
    """What a pipeline on this machine was started with, for `tfsteps rerun`.

    Attributes:
        pipeline: The compiled pipeline.
        arguments: The inputs that were set, by name.
        images: Images, besides the one of tfsteps, whose programs are installed on this machine.
        folder: Working directory of the steps' commands.
    """

    pipeline: str
    arguments: dict[str, Any]
    images: list[str]
    folder: str

    def write(self, run: str) -> None:
        """Write it to the pipeline's folder, for its owner only: inputs may hold secrets. OSError if that fails."""
        with open_private(pipeline_folder(run) / "submission.json", "wb") as file:
            file.write(msgspec.json.encode(self))

    @classmethod
    def read(cls, run: str) -> "LocalSubmission | None":
        """Return that of a run; None if it is missing or cannot be read."""
        try:
            return typed_json.decode((pipeline_folder(run) / "submission.json").read_bytes(), cls)
        except (OSError, *NOT_READABLE):
            return None


class PipelineRecord(msgspec.Struct, kw_only=True):
    """A pipeline. That of this machine is stored in the run folder from its start on, even if the run has no jobs.

    Attributes:
        run: Id of the run.
        pipeline: Name of the pipeline.
        state: running, succeeded, failed or cancelled; lost = its process was killed; unknown = that is not known.
        message: Why it failed, or what its state means; empty = nothing is known.
        created: When it started, in seconds since the epoch.
        ended: When it ended, in seconds since the epoch; None = it has not, or nobody recorded it.
        steps: The tries of its steps in the order of their starts; empty if none has started, or it was recorded before
            tfsteps recorded steps.
        run_object: The name of its object on a cluster, such as a Workflow; empty = it ran on this machine.
        engine: The name of the engine that ran it; empty = recorded before engines were.
        demo: The mark of a demo; None = it is none.
    """

    run: str
    pipeline: str
    state: State
    message: str = ""
    created: float
    ended: float | None = None
    steps: list[StepRecord] = []
    run_object: str = msgspec.field(default="", name="workflow")  # the name in the output of `show`
    engine: str = ""
    demo: Mark | None = None

    @staticmethod
    def file(run: str) -> pathlib.Path:
        """Return the file of a run's record; it need not exist."""
        return run_folder(run) / "pipeline.json"

    def write(self) -> None:
        """Replace the record in the run folder as a whole. OSError if that fails."""
        folder = run_folder(self.run)
        make_private(folder)
        before = folder.stat()
        new = folder / "pipeline.json.new"
        with open_private(new, "wb") as file:
            file.write(msgspec.json.encode(self))
        new.replace(self.file(self.run))
        os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))  # runs are ordered by the times of their folders

    @classmethod
    def read(cls, run: str) -> "PipelineRecord | None":
        """Return the record of a run, changed to what is known now if its end is not recorded.

        None if it is missing or cannot be read. Its state, and that of running steps, is `lost` if its process has
        ended, and `unknown` if that is not known.
        """
        try:
            alive = AttemptFolder(
                pipeline_folder(run)
            ).alive()  # first: its end is recorded before the lock is released
            record = typed_json.decode(cls.file(run).read_bytes(), cls)
        except (OSError, *NOT_READABLE):
            return None
        if not (record.state.terminal or alive.yes):
            record.state = State.LOST if alive.no else State.UNKNOWN
            record.message = _KILLED if alive.no else f"it is not known whether its process runs: {alive.why}"
            for step in record.steps:
                step.state = step.state if step.state.terminal else record.state
        return record

    def log_of(self, step: StepRecord) -> pathlib.Path | None:
        """Return the file of a step's output; None if there is none."""
        path = pipeline_folder(self.run) / step.log
        return path if step.log and path.exists() else None

    def without_job(self, jobs: Mapping[str, State]) -> list[StepRecord]:
        """Return the tries of steps that launched no job, and those that did not succeed although their job did.

        Args:
            jobs: The state of the last job of each task.
        """
        return [
            step
            for step in self.steps
            if step.name not in jobs
            or (jobs[step.name] is State.SUCCEEDED and step.state not in (State.SUCCEEDED, State.RUNNING))
        ]


_KILLED = "the process of the pipeline was killed: its end is not recorded"

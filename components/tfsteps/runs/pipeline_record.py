"""The record of a local pipeline run, for `tfsteps show`."""

import msgspec

from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.events import State
from tfsteps.runs.store import make_private, open_private, run_folder


class StepRecord(msgspec.Struct, kw_only=True):
    """One try of a step of a pipeline on this machine.

    Attributes:
        name: The name of the step's task.
        state: succeeded, failed or cancelled.
        exit_code: Exit code of the step.
        started: Seconds since the epoch.
        ended: Seconds since the epoch.
    """

    name: str
    state: State
    exit_code: int
    started: float
    ended: float


class PipelineRecord(msgspec.Struct, kw_only=True):
    """How a pipeline ended. That of this machine is stored in the run folder, even if the run has no jobs.

    Attributes:
        run: Id of the run.
        pipeline: Name of the pipeline.
        state: succeeded, failed or cancelled.
        message: Why it failed; empty = it did not fail.
        created: When it started, in seconds since the epoch.
        ended: When it ended, in seconds since the epoch.
        steps: The tries of its steps in the order of their ends; empty if none ran, or it was recorded before tfsteps
            recorded steps.
        workflow: The name of its Workflow on a cluster; empty = it ran on this machine.
    """

    run: str
    pipeline: str
    state: State
    message: str = ""
    created: float
    ended: float
    steps: list[StepRecord] = []
    workflow: str = ""

    def write(self) -> None:
        """Write the record to the run folder. OSError if that fails."""
        folder = run_folder(self.run)
        make_private(folder)
        with open_private(folder / "pipeline.json", "wb") as file:
            file.write(msgspec.json.encode(self))

    @classmethod
    def read(cls, run: str) -> "PipelineRecord | None":
        """Return the record of a run; None if it is missing or cannot be read."""
        try:
            return msgspec.json.decode((run_folder(run) / "pipeline.json").read_bytes(), type=cls)
        except (OSError, *NOT_READABLE):
            return None

"""How a pipeline ended that ran on this machine, for `tfsteps show`."""

import msgspec

from tfsteps.runs.events import State
from tfsteps.runs.store import make_private, open_private, run_folder


class PipelineRecord(msgspec.Struct, kw_only=True):
    """How a pipeline ended that ran on this machine, kept beside its jobs, of which there may be none.

    Attributes:
        run: Id of the run.
        pipeline: Its name.
        state: succeeded, failed or cancelled.
        message: Why it failed; empty = it did not.
        created: When it was begun, in seconds since the epoch.
        ended: When it had ended.
    """

    run: str
    pipeline: str
    state: State
    message: str = ""
    created: float
    ended: float

    def write(self) -> None:
        """Write it. OSError if the disk does not take it."""
        folder = run_folder(self.run)
        make_private(folder)
        with open_private(folder / "pipeline.json", "wb") as file:
            file.write(msgspec.json.encode(self))

    @classmethod
    def read(cls, run: str) -> "PipelineRecord | None":
        """Return that of a run; None if there is none that can be read."""
        try:
            return msgspec.json.decode((run_folder(run) / "pipeline.json").read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

"""The exit codes of launchers and of the `tfsteps` command."""

import enum

from tfsteps.digest import taken_away
from tfsteps.records import Status
from tfsteps.systems.base import State


class Exit(enum.IntEnum):
    """What a step's exit code says."""

    SUCCEEDED = 0
    USAGE = 2  # bad job description or command line: nothing was created
    FAILED = 10  # the job failed
    DEADLINE = 11  # one of its deadlines passed
    CANCELLED = 12  # somebody stopped it
    PLATFORM = 13  # not the job's fault: safe to retry

    @property
    def meaning(self) -> str:
        """What the code says, for a message: an engine may show another code, as Kubeflow Pipelines shows 1."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.SUCCEEDED: "succeeded",
    Exit.USAGE: "a retry fails again until the inputs or the cluster are corrected",
    Exit.FAILED: "the job failed",
    Exit.DEADLINE: "a deadline of the job passed",
    Exit.CANCELLED: "the job was stopped",
    Exit.PLATFORM: "the platform's fault, not the job's; a retry is safe",
}


def exit_code(status: Status) -> Exit:
    """Return the exit code for a job that has ended.

    The platform's fault is one that has not, and one that failed because a replica was evicted, pre-empted or lost.
    """
    match status.state:
        case State.SUCCEEDED:
            return Exit.SUCCEEDED
        case State.FAILED if status.reason == "DeadlineExceeded":
            return Exit.DEADLINE
        case State.FAILED:
            return Exit.PLATFORM if taken_away(status) else Exit.FAILED
        case State.CANCELLED:
            return Exit.CANCELLED
        case _:
            return Exit.PLATFORM

"""The exit codes of launchers and of the `tfsteps` command."""

import enum

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


def exit_code(status: Status) -> Exit:
    """Return the exit code for a job that has ended. A job that has not is the platform's fault."""
    match status.state:
        case State.SUCCEEDED:
            return Exit.SUCCEEDED
        case State.FAILED if status.reason == "DeadlineExceeded":
            return Exit.DEADLINE
        case State.FAILED:
            return Exit.FAILED
        case State.CANCELLED:
            return Exit.CANCELLED
        case _:
            return Exit.PLATFORM

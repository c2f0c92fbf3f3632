"""The end of a job as it is recorded: by the job system, and by what the launcher ended."""

import msgspec

from tfsteps.launcher.deadlines import Exceeded
from tfsteps.launcher.failure import LastLines, failure_summary
from tfsteps.launcher.repeated_failure import RepeatedFailure
from tfsteps.runs.events import JobChanged, State
from tfsteps.runs.status import Status
from tfsteps.text.tracebacks import stack


def recorded_end(
    final: JobChanged, ended_by: Exceeded | RepeatedFailure | None, status: Status, last_lines: LastLines
) -> JobChanged:
    """Return the end of the job as it is recorded: what the launcher ended is a failure, and each has a summary.

    Args:
        final: The end by the job system.
        ended_by: Why the launcher ended the job: a deadline, or a failure that came again; None = it did not.
        status: Of the job; its failure summary is set.
        last_lines: Returns the last lines of a replica, as `failure_summary` needs them.
    """
    position = None
    stopped = final.state in (State.CANCELLED, State.FAILED)  # FAILED: the platform reports the killed replicas
    if stopped and isinstance(ended_by, Exceeded):
        quiet = ended_by.silence
        position = stack(last_lines(quiet.replica, quiet.incarnation) if quiet.replica else ())
        message = ended_by.message(status.waiting, position.frame)
        final = msgspec.structs.replace(final, state=State.FAILED, reason="DeadlineExceeded", message=message)
    elif stopped and isinstance(ended_by, RepeatedFailure):
        message, replica = ended_by.message, ended_by.replica
        final = msgspec.structs.replace(
            final, state=State.FAILED, reason="SameFailure", message=message, replica=replica
        )
    if final.state in (State.FAILED, State.LOST):
        status.state, status.reason, status.message = final.state, final.reason, final.message
        status.failure = failure_summary(status, last_lines, str(final.replica or ""))
        if position and not status.failure.tail:
            status.failure.tail = position.excerpt
    return final

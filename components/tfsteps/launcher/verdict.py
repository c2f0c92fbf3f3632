"""The end of a job as it is recorded: by the job system, and by the launcher's deadlines."""

import msgspec

from tfsteps.launcher.deadlines import Exceeded
from tfsteps.launcher.failure import LastLines, failure_summary
from tfsteps.runs.events import JobChanged, State
from tfsteps.runs.status import Status
from tfsteps.text.tracebacks import stack


def recorded_end(final: JobChanged, exceeded: Exceeded | None, status: Status, last_lines: LastLines) -> JobChanged:
    """Return the end of the job as it is recorded: a passed deadline is a failure, and each failure has a summary.

    Args:
        final: The end by the job system.
        exceeded: The deadline that ended the job; None = none did.
        status: Of the job; its failure summary is set.
        last_lines: Returns the last lines of a replica, as `failure_summary` needs them.
    """
    position = None
    if exceeded and final.state in (State.CANCELLED, State.FAILED):  # FAILED: the platform reports the killed replicas
        quiet = exceeded.silence
        position = stack(last_lines(quiet.replica, quiet.incarnation) if quiet.replica else ())
        message = exceeded.message(status.waiting, position.frame)
        final = msgspec.structs.replace(final, state=State.FAILED, reason="DeadlineExceeded", message=message)
    if final.state in (State.FAILED, State.LOST):
        status.state, status.reason, status.message = final.state, final.reason, final.message
        status.failure = failure_summary(status, last_lines, str(final.replica or ""))
        if position and not status.failure.tail:
            status.failure.tail = position.excerpt
    return final

"""Notices that a job which its operator restarts fails by the same exception at the same place again."""

import time

import msgspec

from tfsteps.launcher.failure import LastLines
from tfsteps.runs.events import ReplicaName, ReplicaState
from tfsteps.runs.status import Incarnation, ReplicaStatus, Status
from tfsteps.text.failure_patterns import repeatable
from tfsteps.text.tracebacks import raised

_SETTLE_SECONDS = 2.0  # for the last lines, which come by another way than the end of the replica


class RepeatedFailure(msgspec.Struct, frozen=True):
    """Two incarnations of a replica in succession have failed alike.

    Attributes:
        replica: The replica.
        message: What happened, in one sentence.
    """

    replica: ReplicaName
    message: str


class FailureWatch:
    """Follows one job whose operator restarts replicas.

    Only what two successive incarnations certainly did counts: each ended with an exit code other than 0, for no reason
    of the platform's, after it had printed a whole traceback of an exception that does not pass by itself.
    """

    def __init__(self, status: Status, last_lines: LastLines) -> None:
        """Follow.

        Args:
            status: Of the job, as it is kept up to date.
            last_lines: Returns the last lines of a replica, as `failure_summary` needs them.
        """
        self._status, self._last_lines = status, last_lines
        self._seen: dict[tuple[str, int], float] = {}  # when an end was seen first, by the monotonic clock
        self._failures: dict[tuple[str, int], str] = {}  # the exception and its place; empty = not known, or it passes

    def look(self) -> RepeatedFailure | None:
        """Return the first repeated failure; None = there is none so far."""
        for replica in self._status.replicas:
            if not replica.restarts:
                continue
            for before, last in zip(replica.incarnations[-3:], replica.incarnations[-2:], strict=False):
                if last.number == before.number + 1 and self._repeats(replica, before, last):
                    message = (
                        f"{replica.name} ended with exit code {last.exit_code}, twice by the same exception at the "
                        "same place."
                    )
                    return RepeatedFailure(ReplicaName(replica.role, replica.index), message)
        return None

    def _repeats(self, replica: ReplicaStatus, before: Incarnation, last: Incarnation) -> bool:
        failures = [self._failure(replica.name, incarnation) for incarnation in (before, last)]
        return failures[0] == failures[1] != ""

    def _failure(self, name: str, incarnation: Incarnation) -> str:
        """Return the exception of an incarnation and its place; empty = not known yet, or no failure of that kind."""
        failed = incarnation.state is ReplicaState.FAILED and incarnation.exit_code and not incarnation.container
        if not failed or incarnation.reason:
            return ""
        key = name, incarnation.number
        if key not in self._failures:
            if time.monotonic() - self._seen.setdefault(key, time.monotonic()) < _SETTLE_SECONDS:
                return ""
            self._failures[key] = repeatable(raised(self._last_lines(*key)))
        return self._failures[key]

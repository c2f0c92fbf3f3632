"""Which replica was silent when a deadline passed, and where it stood."""

from collections.abc import Mapping

import msgspec

from tfsteps.runs.events import ReplicaState
from tfsteps.runs.status import Status

_NOTABLE_SECONDS = 10.0
_WIDTH = 120  # characters of a line
_UP = (ReplicaState.RUNNING, ReplicaState.PENDING)


class Silence(msgspec.Struct, frozen=True):
    """The replica without output for the longest time.

    Attributes:
        replica: Its name; empty = none was silent.
        incarnation: Number of its incarnation.
        seconds: How long it was silent.
        line: Its last line; empty = it has printed nothing.
        early: Names of the trainers that had ended with 0 while others trained, which may wait for them.
    """

    replica: str = ""
    incarnation: int = 0
    seconds: float = 0.0
    line: str = ""
    early: list[str] = []

    def sentence(self, frame: str) -> str:
        """Return what is known of it, in sentences; empty = nothing. `frame` is where it stood; empty = not known."""
        parts = []
        if self.replica:
            last = f"; its last line: {self.line[:_WIDTH]}" if self.line else ""
            place = f"; it stood at {frame}" if frame else ""
            parts.append(f"{self.replica} printed nothing for {self.seconds:.0f} s{place}{last}.")
        if self.early:
            parts.append(f"{', '.join(self.early)} had ended with exit code 0, and the others may wait for that.")
        return " ".join(parts)


def silence(status: Status, outputs: Mapping[str, tuple[float, str]], now: float, limit: float) -> Silence:
    """Return the silence of a job's replicas.

    Args:
        status: Of the running job.
        outputs: When each replica printed last, in seconds since the epoch, and what.
        now: Seconds since the epoch.
        limit: The deadline that has passed, in seconds: no silence is shorter than that or 10 seconds.
    """
    trainers = [replica for replica in status.replicas if replica.role in ("chief", "worker")]
    early = [replica.name for replica in trainers if replica.state is ReplicaState.SUCCEEDED]
    servers = any(replica.role == "ps" for replica in status.replicas)
    early = [] if servers or len(early) == len(trainers) else early
    running = {
        replica.name: replica.incarnations[-1]
        for replica in status.replicas
        if replica.state in _UP and replica.incarnations
    }
    printed = [(*outputs.get(name, (last.started, "")), name) for name, last in running.items()]
    at, line, name = min(printed, default=(now, "", ""))
    if not name or now - at < min(limit, _NOTABLE_SECONDS):
        return Silence(early=early)
    return Silence(name, running[name].number, now - at, line, early)

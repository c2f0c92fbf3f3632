"""One incarnation of a replica of a local job."""

import time
from collections.abc import Iterator

from tfsteps.runs.events import PARTIAL_SECONDS, PartialLine, ReplicaChanged, ReplicaName, ReplicaState
from tfsteps.runs.last_lines import LastLines
from tfsteps.systems.local.process import Ended, LocalProcess

UP = (ReplicaState.PENDING, ReplicaState.RUNNING)


class ReplicaProcess:
    """A process of a replica, from its start; it stays the replica's last one until the next is started.

    Attributes:
        replica: The replica.
        number: Which of the replica's incarnations this is, from 0.
        process: The process.
        state: The state of the replica, as reported.
        reason: Why it ended: OOMKilled, PeerLost, ...; empty = not known.
        stop_asked: Whether the job has asked it to end.
        ended: How the process ended; None = it runs. Its output may be read later.
        output_read: Whether its whole output has been read.
        tail: Its last lines.
    """

    def __init__(self, replica: ReplicaName, number: int, process: LocalProcess) -> None:
        """Take over a process that has just been started."""
        self.replica, self.number, self.process = replica, number, process
        self.state = ReplicaState.PENDING
        self.reason = ""
        self.stop_asked = self.output_read = False
        self.ended: Ended | None = None
        self.tail = LastLines()
        self._partial_due = 0.0  # when its unfinished line may be shown again, by the monotonic clock

    def change(self) -> ReplicaChanged:
        """Return the event with the state, and with the end of the process if it is reported now."""
        command = self.process.command
        place = f"pid {self.process.pid}" + (f" port {command.port}" if command.port else "")
        ended = None if self.state in (*UP, ReplicaState.RESTARTING) else self.ended
        return ReplicaChanged(
            at=time.time(),
            replica=self.replica,
            state=self.state,
            restarts=self.number,
            exit_code=ended.exit_code if ended else None,
            reason=self.reason,
            place=place if self.state in UP else "",
            cpu_seconds=ended.cpu_seconds if ended else None,
            memory_bytes=ended.memory_bytes if ended else None,
            memory_limit=command.memory_limit,
        )

    def partial_lines(self) -> Iterator[PartialLine]:
        """Yield its unfinished line, if there is one, at a limited rate."""
        if self.process.rest and time.monotonic() >= self._partial_due:
            self._partial_due = time.monotonic() + PARTIAL_SECONDS
            yield PartialLine.of(time.time(), self.replica, self.process.rest)

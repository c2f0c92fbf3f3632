"""A replica of a local job."""

import time
from collections.abc import Iterator

from tfsteps.runs.events import PARTIAL_SECONDS, PartialLine, Replica, ReplicaChanged, ReplicaState
from tfsteps.runs.last_lines import Tail
from tfsteps.systems.local.output import Source
from tfsteps.systems.local.process import Ended, Process


class ReplicaProcess:
    """One replica over all its incarnations."""

    def __init__(self, replica: Replica) -> None:
        """Start without a process."""
        self.replica = replica
        self.state = ReplicaState.PENDING
        self.process: Process | None = None
        self.output: Source[ReplicaProcess] | None = None  # None once the whole output has been read
        self.ended: Ended | None = None  # the end of its process, while output is left
        self.restarts = -1
        self.stop_asked = False
        self.reason = ""
        self.memory_limit: int | None = None
        self.partial_due = 0.0  # when its unfinished line may be shown again, by the monotonic clock
        self.tail = Tail()

    @property
    def place(self) -> str:
        """The process and the port, `pid 4711 port 40123`; empty = it does not run."""
        if self.process is None:
            return ""
        port = self.process.command.port
        return f"pid {self.process.pid}" + (f" port {port}" if port else "")

    @property
    def up(self) -> bool:
        """Whether the program runs, or has succeeded."""
        runs = self.process is not None and self.state in (ReplicaState.PENDING, ReplicaState.RUNNING)
        return runs or self.state is ReplicaState.SUCCEEDED

    def end_state(self, ended: Ended) -> ReplicaState:
        """Return the state of the replica after the end of its process."""
        if ended.exit_code == 0:
            return ReplicaState.SUCCEEDED
        return ReplicaState.STOPPED if self.stop_asked else ReplicaState.FAILED

    def change(self, ended: Ended | None = None) -> ReplicaChanged:
        """Return the event with its state, and with the end of its process if it has ended."""
        return ReplicaChanged(
            at=time.time(),
            replica=self.replica,
            state=self.state,
            restarts=max(self.restarts, 0),
            exit_code=ended.exit_code if ended else None,
            reason=self.reason,
            place=self.place,
            cpu_seconds=ended.cpu_seconds if ended else None,
            memory_bytes=ended.memory_bytes if ended else None,
            memory_limit=self.memory_limit,
        )

    def partial_lines(self) -> Iterator[PartialLine]:
        """Yield its unfinished line, if there is one, at a limited rate."""
        if self.process and self.process.rest and time.monotonic() >= self.partial_due:
            self.partial_due = time.monotonic() + PARTIAL_SECONDS
            yield PartialLine.of(time.time(), self.replica, self.process.rest)

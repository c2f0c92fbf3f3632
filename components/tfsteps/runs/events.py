"""The states of a job and of its replicas, and the events that every job system tells them by."""

import enum
from collections.abc import Iterable
from typing import Protocol

import msgspec

from tfsteps.spec import RoleName

TICK_SECONDS = 0.5
"""`events()` yields a Tick this often, so that deadlines are judged and stop requests are seen."""


PARTIAL_SECONDS = 1.0
"""`events()` yields no more than one PartialLine in this time for each replica."""


_SHOWN_BYTES = 1024


class State(enum.StrEnum):
    """The closed set of states of a job. Every job system maps its own words to these."""

    QUEUED = "queued"
    PENDING = "pending"
    RUNNING = "running"
    RESTARTING = "restarting"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    UNKNOWN = "unknown"

    @property
    def terminal(self) -> bool:
        """Whether a job in this state never changes again."""
        return self in _TERMINAL


_TERMINAL = {State.SUCCEEDED, State.FAILED, State.CANCELLED, State.LOST}


class ReplicaState(enum.StrEnum):
    """The states of one replica."""

    PENDING = "pending"
    RUNNING = "running"
    RESTARTING = "restarting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"  # ended by the system because it was no longer needed, or by a stop: never a failure
    UNKNOWN = "unknown"  # its launcher was killed: it may go on


class Replica(msgspec.Struct, frozen=True, order=True):
    """Names one replica. `str()` gives `worker-1`, the prefix of its log lines."""

    role: RoleName
    index: int

    @property
    def member(self) -> tuple[RoleName, int]:
        """Its role and its index."""
        return self.role, self.index

    def __str__(self) -> str:
        """Return `<role>-<index>`."""
        return f"{self.role}-{self.index}"


class _Counted(Protocol):
    @property
    def replicas(self) -> int: ...


def replicas_of(roles: Iterable[tuple[RoleName, _Counted]]) -> list[Replica]:
    """Return all replicas of some roles, by name and role, in their order."""
    return [Replica(name, index) for name, role in roles for index in range(role.replicas)]


class JobChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The job is in `state` now.

    Attributes:
        at: Seconds since the epoch.
        state: The new state.
        reason: One CamelCase word for programs, as in Kubernetes conditions; empty = none.
        message: One sentence for people; empty = none.
        replica: Whose end is the cause; None = nobody's in particular.
    """

    at: float
    state: State
    reason: str = ""
    message: str = ""
    replica: "Replica | None" = None


class ReplicaChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A replica is in `state` now.

    Attributes:
        at: Seconds since the epoch: when it was seen, or, where nobody looked then, when the job system says it was.
        replica: Which.
        state: The new state.
        restarts: How often it was started again so far.
        exit_code: As a shell counts: 128 + n for signal n; None while it runs, or not known.
        reason: OOMKilled, PortTaken, PeerLost, ...; empty = none.
        container: Name of the container whose end this is, where it is not the program's.
        place: Where it runs: `pid 4711 port 40123`, or a pod's name; empty = not known.
        cpu_seconds: CPU used by the incarnation that just ended; None = not known.
        memory_bytes: Its peak memory; None = not known.
        started: When the incarnation's program started, as the job system says; None = it does not.
        incarnation: Which of the replica's incarnations it is, from 0, as LogLines names it; None = `restarts` tells.
    """

    at: float
    replica: Replica
    state: ReplicaState
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    container: str = ""
    place: str = ""
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    started: float | None = None
    incarnation: int | None = None


class LogLines(msgspec.Struct, frozen=True):
    """Consecutive lines of one replica: one event a block, for one a line would cost more than all else.

    Attributes:
        at: Seconds since the epoch when they were read, or the last of them was printed.
        replica: Who printed them.
        texts: The bytes of each line as printed, without its end; any bytes at all. Empty = bytes of a line that has
            not ended yet have come: the replica makes progress, and there is nothing to show.
        stamps: When each was printed, as `log_file.stamp` writes times; empty = all of them `at`.
        incarnation: Which of the replica's incarnations printed them, from 0; None = not known.
        container: Name of the container that printed them, an init container or a sidecar; empty = the program's.
        sidecar: Whether that runs beside the program: what it prints says nothing of the training.
    """

    at: float
    replica: Replica
    texts: list[bytes]
    stamps: list[bytes] = []
    incarnation: int | None = None
    container: str = ""
    sidecar: bool = False

    @property
    def source(self) -> str:
        """`worker-1`, or `worker-1/init-data` for another container than the program's: the prefix of the lines."""
        return f"{self.replica}/{self.container}" if self.container else str(self.replica)


def one_line(at: float, replica: Replica, text: bytes, container: str = "") -> LogLines:
    """Return a block of one line."""
    return LogLines(at, replica, [text], container=container)


class PartialLine(msgspec.Struct, frozen=True):
    """A line that a replica has not ended yet, such as a progress bar; at most one a second for each replica.

    Attributes:
        at: Seconds since the epoch when it was read.
        replica: Who prints it.
        text: What a terminal would show of it: what follows the last carriage return, at most 1 KiB of it.
    """

    at: float
    replica: Replica
    text: bytes

    @classmethod
    def of(cls, at: float, replica: Replica, printed: bytes) -> "PartialLine":
        """Return it for all that was `printed` since the last line end."""
        return cls(at, replica, printed.rstrip(b"\r").rpartition(b"\r")[2][:_SHOWN_BYTES])


class Tick(msgspec.Struct, frozen=True):
    """Time goes on: every TICK_SECONDS, however much happens in between.

    Attributes:
        at: Seconds since the epoch.
        visible: Whether we would be told of a change of the job now: the job system answers.
        readable: Whether we would be told of output now: nobody refuses us the log of a replica that runs.
    """

    at: float
    visible: bool = True
    readable: bool = True


Event = JobChanged | ReplicaChanged | LogLines | PartialLine | Tick

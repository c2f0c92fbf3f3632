"""The states of a job and of its replicas, and the events by which every job system reports them."""

import collections
import enum
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from tfsteps.runs.usage import Sample
from tfsteps.spec import RoleName
from tfsteps.text.tracebacks import FATAL, HEADER, STACK, is_chained

TICK_SECONDS = 0.5
"""`events()` yields a Tick this often, so that deadlines and stop requests are checked."""

PARTIAL_SECONDS = 1.0
"""`events()` yields at most one PartialLine in this time for each replica."""

_SHOWN_BYTES = 1024
_RECENT = 40
_WIDTH = 1000  # bytes of a line
_MOST_LINES = 400  # from the traceback on; a program that prints more survived that exception
_MOST_BYTES = 64 << 10
_MARK, _STACKS = HEADER.encode(), (FATAL.encode(), STACK.encode())


class State(enum.StrEnum):
    """The closed set of states of a job. Every job system maps its own states to these."""

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


class Verdict(msgspec.Struct, frozen=True):
    """What a platform tells of a job.

    Attributes:
        state: The state, as far as that shows it.
        reason: Of that state; empty = none.
        message: Of that state; empty = none.
    """

    state: State
    reason: str = ""
    message: str = ""


class ReplicaState(enum.StrEnum):
    """The states of one replica."""

    PENDING = "pending"
    RUNNING = "running"
    RESTARTING = "restarting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"  # the system ended it because it was no longer needed or the job was stopped: not a failure
    UNKNOWN = "unknown"  # the launcher was killed, and the replica may still run; or its pod is gone


class ReplicaName(msgspec.Struct, frozen=True, order=True):
    """The name of one replica. `str()` returns `worker-1`, the prefix of its log lines."""

    role: RoleName
    index: int

    @property
    def member(self) -> tuple[RoleName, int]:
        """The role and the index."""
        return self.role, self.index

    def __str__(self) -> str:
        """Return `<role>-<index>`."""
        return f"{self.role}-{self.index}"


class _Counted(Protocol):
    @property
    def replicas(self) -> int: ...


def replicas_of(roles: Iterable[tuple[RoleName, _Counted]]) -> list[ReplicaName]:
    """Return the replicas of all roles; `roles` are pairs of role name and role, and their order is kept."""
    return [ReplicaName(name, index) for name, role in roles for index in range(role.replicas)]


class JobChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The job changed to `state`.

    Attributes:
        at: Seconds since the epoch.
        state: The new state.
        reason: One CamelCase word for programs, as in Kubernetes conditions; empty = none.
        message: One sentence for people; empty = none.
        replica: The replica that ended and so caused the change; None = no single replica.
    """

    at: float
    state: State
    reason: str = ""
    message: str = ""
    replica: "ReplicaName | None" = None


class ReplicaChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A replica changed to `state`.

    Attributes:
        at: Seconds since the epoch: when the change was seen, or, if it happened earlier, the job system's time.
        replica: The replica.
        state: The new state.
        restarts: Restarts of the replica so far.
        exit_code: As in a shell: 128 + n for signal n; None while it runs, or not known.
        reason: OOMKilled, PortTaken, PeerLost, ...; empty = none.
        container: Name of the container that ended; empty = the program's container.
        place: Where it runs: `pid 4711 port 40123`, or a pod's name; empty = not known.
        cpu_seconds: CPU time of the incarnation that just ended; None = not known.
        memory_bytes: Peak memory of that incarnation; None = not known.
        memory_limit: Its memory limit in bytes; None = it has none, or not known.
        message: What the job system reports about a failure, for people; empty = nothing.
        started: When the incarnation's program started, from the job system; None = the system does not report it.
        image: Its image, with the digest, as `images.image_of` returns it; empty = not known, or it has none.
        incarnation: Number of the incarnation within the replica, from 0, as in LogLines; None = equal to `restarts`.
    """

    at: float
    replica: ReplicaName
    state: ReplicaState
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    container: str = ""
    place: str = ""
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    memory_limit: int | None = None
    message: str = ""
    started: float | None = None
    image: str = ""
    incarnation: int | None = None


class LastLines:
    """Keeps the last lines of one incarnation of a replica."""

    def __init__(self) -> None:
        """Start without lines."""
        self._recent: collections.deque[bytes] = collections.deque(maxlen=_RECENT)
        self._traceback: list[bytes] = []
        self._room = 0  # free bytes of `_traceback`; 0 = no traceback is kept
        self._before = b""  # the last line that was not empty

    def add(self, texts: Sequence[bytes]) -> None:
        """Add the next lines, in the order in which they were printed."""
        start = 0
        joined = b"\n".join(texts)
        if _MARK in joined or any(mark in joined for mark in _STACKS):
            starts = [n for n, t in enumerate(texts) if t.rstrip().endswith(_MARK) or t.startswith(_STACKS)]
            for place in starts:
                self._append(texts[start:place])
                if not (self._traceback and is_chained(self._before.decode(errors="replace"))):
                    self._traceback, self._room = [], _MOST_BYTES
                start = place
        self._append(texts[start:])

    def lines(self) -> list[str]:
        """Return the last lines, from the last traceback on if at most 400 lines and 64 KiB follow its header."""
        lines = self._traceback if len(self._traceback) > len(self._recent) else self._recent
        return [text.decode(errors="replace") for text in lines]

    def _append(self, texts: Sequence[bytes]) -> None:
        if self._room:
            lines = list(map(_cut, texts[: _MOST_LINES + 1]))
            self._traceback += lines
            self._room -= sum(map(len, lines))
            if self._room <= 0 or len(self._traceback) > _MOST_LINES:
                self._traceback, self._room = [], 0
        last = list(map(_cut, texts[-_RECENT:]))
        self._recent.extend(last)
        self._before = next((text for text in reversed(last) if text.strip()), self._before)


def _cut(text: bytes) -> bytes:
    """Return the start of a line, or only the traceback header if a long line, such as a progress bar, ends with it."""
    return _MARK if len(text) > _WIDTH and text.rstrip().endswith(_MARK) else text[:_WIDTH]


class LogLines(msgspec.Struct, frozen=True):
    """Consecutive lines of one replica, as one event, because one event for each line would be too slow.

    Attributes:
        at: Seconds since the epoch when the lines were read, or when the last one was printed.
        replica: The replica that printed the lines.
        texts: The bytes of each line as printed, without its newline; they need not be valid UTF-8. Empty = bytes of an
            unfinished line were read: the replica makes progress, but there is no line to show.
        stamps: When each line was printed, in the format of `log_file.stamp`; empty = `at` for all lines.
        incarnation: Number of the incarnation that printed the lines, from 0; None = not known.
        container: Name of the init container or sidecar that printed the lines; empty = the program's container.
        sidecar: Whether that container is a sidecar; its output is no sign of training progress.
        tail: The last lines of that incarnation, these included, if its job system keeps them; None = it does not.
    """

    at: float
    replica: ReplicaName
    texts: list[bytes]
    stamps: list[bytes] = []
    incarnation: int | None = None
    container: str = ""
    sidecar: bool = False
    tail: LastLines | None = None

    @property
    def source(self) -> str:
        """The prefix of the lines: `worker-1`, or `worker-1/init-data` for an init container or a sidecar."""
        return f"{self.replica}/{self.container}" if self.container else str(self.replica)


def one_line(at: float, replica: ReplicaName, text: bytes, container: str = "") -> LogLines:
    """Return a block of one line."""
    return LogLines(at, replica, [text], container=container)


class PartialLine(msgspec.Struct, frozen=True):
    """A line that a replica has not ended yet, such as a progress bar; at most one a second for each replica.

    Attributes:
        at: Seconds since the epoch when it was read.
        replica: The replica that prints the line.
        text: The text that a terminal would show: at most 1 KiB after the last carriage return.
    """

    at: float
    replica: ReplicaName
    text: bytes

    @classmethod
    def of(cls, at: float, replica: ReplicaName, printed: bytes) -> "PartialLine":
        """Return the event for the bytes `printed` since the last newline."""
        return cls(at, replica, printed.rstrip(b"\r").rpartition(b"\r")[2][:_SHOWN_BYTES])


class UsageSampled(msgspec.Struct, frozen=True):
    """What replicas used; no sign of training progress.

    Attributes:
        samples: At most one for each container of each replica; empty = only the note is new.
        note: Why there are no samples, or no further ones, in one sentence; empty = no problem.
    """

    samples: list[Sample] = []
    note: str = ""


class Tick(msgspec.Struct, frozen=True):
    """Comes every TICK_SECONDS, however many other events there are.

    Attributes:
        at: Seconds since the epoch.
        visible: Whether changes of the job can be seen now: the job system answers requests.
        readable: Whether output can be read now: the logs of running replicas are not refused.
    """

    at: float
    visible: bool = True
    readable: bool = True


Event = JobChanged | ReplicaChanged | LogLines | PartialLine | UsageSampled | Tick

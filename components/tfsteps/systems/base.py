"""What `launch` sees of a job system: one small protocol, and the events that come out of it."""

import enum
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

import msgspec

from tfsteps.identity import Identity
from tfsteps.spec import Problem, RoleName, TrainingJob
from tfsteps.systems.places import Places

Scope = Literal["siblings", "run"]
OnEnd = Literal["keep", "delete_pods", "delete"]

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


class Cause(enum.StrEnum):
    """Why a job is being stopped."""

    CANCELLED = "cancelled"  # the user or the engine wants it gone
    DEADLINE = "deadline"  # one of ours passed
    LAUNCHER = "launcher"  # the launcher itself fails; nothing may be left behind


class Replica(msgspec.Struct, frozen=True, order=True):
    """Names one replica. `str()` gives `worker-1`, the prefix of its log lines."""

    role: RoleName
    index: int

    def __str__(self) -> str:
        """Return `<role>-<index>`."""
        return f"{self.role}-{self.index}"


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


class Handle(Protocol):
    """A job that was created or adopted."""

    name: str
    uid: str
    namespace: str
    created: float
    """When the job was created, in seconds since the epoch."""

    warnings: list[str]
    """What was found out since the start and people should know."""

    tensorboard_url: str
    """Of the job system's own TensorBoard, once the job has ended; empty = there is none."""

    @property
    def age(self) -> float:
        """Seconds that the job existed before it was followed, by the job system's own clock; 0 = new or not known."""

    def events(self) -> Iterator[Event]:
        """Yield what happens, in order, until a JobChanged to a terminal state, which is the last."""

    def stop(self, cause: Cause) -> None:
        """Begin to end the job and return at once; `events()` goes on. Safe in a signal handler, and again."""

    def read_folder(self, folder: str, program: Sequence[str]) -> Any:
        """Run a program that reads `folder` where the volumes of the ended job are, and return the JSON that it prints.

        None where no other place sees more of that folder than this process. `stop` ends it.

        Args:
            folder: Of the job's, which this process does not see.
            program: Arguments of a Python interpreter that has tfsteps.

        Raises:
            LaunchError: Why it could not be run, and what to do.
        """

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Remove what the ended job left: its pods or processes, or all of it. Does nothing where nothing is left.

        Raises:
            LaunchError: Something could not be removed.
        """


class Note(enum.StrEnum):
    """What a launcher leaves on a job for the steps that come after it."""

    DETACHED = "detached"  # it is left running for a `wait` step
    FOLLOWED = "followed"  # this step follows it from now on, in place of the one that launched it
    REPORTED = "reported"  # its end was reported: the next launcher of the task makes a new attempt if it failed


REPORT_SECONDS = 15.0
"""How long `Note.REPORTED` is tried: the step has written its outputs, and waits for nothing else."""


class System(Protocol):
    """One job system."""

    name: str
    outlives_launcher: bool
    """Whether jobs go on when the process that started them ends."""

    def attempt(self, run: str, task: str) -> int:
        """Return the number of the attempt that a launcher of this task is to make now.

        Raises:
            LaunchError: Whoever knows cannot be asked.
        """

    def problems(self, job: TrainingJob) -> list[Problem]:
        """Return what makes `job` impossible here, found before anything is created."""

    def warnings(self, job: TrainingJob) -> list[str]:
        """Return a sentence for each thing in `job` that has no effect here."""

    def places(self, job: TrainingJob, identity: Identity, here: pathlib.Path) -> Places:
        """Return the folders of an attempt, as its replicas see them; relative paths of the job start from `here`."""

    def plan(self, job: TrainingJob, identity: Identity, places: Places) -> list[dict[str, object]]:
        """Return what `start` would create, as plain objects. Creates nothing."""

    def start(self, job: TrainingJob, identity: Identity, places: Places) -> Handle:
        """Create the job, or adopt the one that an earlier launcher of this attempt created.

        Raises:
            LaunchError: It could not be created; nothing is left of it.
            StoppedError: `give_up` was called meanwhile, or before, and the job system did not answer.
        """

    def note(self, job: TrainingJob, name: str, uid: str, note: Note) -> None:
        """Note on a job how its launcher leaves it; does nothing where the job is gone, or the system needs no notes.

        Args:
            job: What was started.
            name: The handle's name.
            uid: Its uid.
            note: What to note.

        Raises:
            LaunchError: It could not be noted.
        """

    def attach(self, job: TrainingJob, name: str, uid: str, created: float) -> Handle:
        """Return the job that a `start` has created, so that it can be followed from another process. Creates nothing.

        Only where jobs outlive their launcher. A job that is gone, or another one of that name, is found out by
        `events()`, which says `lost` then.

        Args:
            job: What was started.
            name: The handle's name.
            uid: Its uid.
            created: When it was created, in seconds since the epoch.

        Raises:
            LaunchError: The job system cannot be reached.
        """

    def clean_up(self, identity: Identity, scope: Scope, on_end: OnEnd | None) -> list[str]:
        """Remove what the jobs of a run left, and return the names of those that something was removed of.

        Unfinished jobs are stopped and removed. To ended ones the clean-up policy is applied. What is gone already,
        or going, is left alone: done again, it removes nothing.

        Args:
            identity: The finalizer's own.
            scope: siblings = the jobs of the steps whose end the finalizer is for: below the node of its hook or exit
                handler, else of those beside it that have ended. run = all jobs of the run.
            on_end: The policy; None = each job's own.

        Raises:
            LaunchError: They cannot be looked for, or one of them not removed.
        """

    def give_up(self) -> None:
        """Make a `start` that is under way, or comes, end soon if it is not answered. Safe in a signal handler."""


class StoppedError(Exception):
    """A `start` was given up, and nothing is left of the job as far as could be seen; the message says how far."""


class LaunchError(Exception):
    """A job system could not do what was asked; the message says what to do.

    Attributes:
        retryable: True: the platform's fault, the same call may work later. False: the caller must change something.
        created: Whether the job had been created, or adopted, before: it may go on.
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        """Keep `retryable` beside the message."""
        self.retryable = retryable
        self.created = False  # `lifecycle` knows
        super().__init__(message)

"""What `launch` sees of a job system: one small protocol, and the events that come out of it."""

import enum
import pathlib
from collections.abc import Iterator
from typing import Literal, Protocol

import msgspec

from tfsteps.identity import Identity
from tfsteps.spec import Problem, RoleName, TrainingJob

Scope = Literal["siblings", "run"]
OnEnd = Literal["keep", "delete_pods", "delete"]

TICK_SECONDS = 0.5
"""`events()` yields at least this often, so that deadlines and stop requests are seen."""


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
        at: Seconds since the epoch.
        replica: Which.
        state: The new state.
        restarts: How often it was started again so far.
        exit_code: As a shell counts: 128 + n for signal n; None while it runs, or not known.
        reason: OOMKilled, PortTaken, PeerLost, ...; empty = none.
        place: Where it runs: `pid 4711 port 40123`, or a pod's name; empty = not known.
        cpu_seconds: CPU used by the incarnation that just ended; None = not known.
        memory_bytes: Its peak memory; None = not known.
    """

    at: float
    replica: Replica
    state: ReplicaState
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    place: str = ""
    cpu_seconds: float | None = None
    memory_bytes: int | None = None


class LogLine(msgspec.Struct, frozen=True):
    """One line that a replica printed.

    Attributes:
        at: Seconds since the epoch when it was read.
        replica: Who printed it.
        text: The bytes as printed, without the line's end; any bytes at all.
    """

    at: float
    replica: Replica
    text: bytes


class Tick(msgspec.Struct, frozen=True):
    """Nothing happened; time goes on."""

    at: float


Event = JobChanged | ReplicaChanged | LogLine | Tick


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of one attempt, as the replicas see them.

    Attributes:
        output: Shared by all replicas and all attempts of the task.
        model: Where the model goes.
        logs: Where the event files go.
        here: Folder of the job file; programs start there locally.
    """

    output: str
    model: str
    logs: str
    here: pathlib.Path


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

    def events(self) -> Iterator[Event]:
        """Yield what happens, in order, until a JobChanged to a terminal state, which is the last."""

    def stop(self, cause: Cause) -> None:
        """Begin to end the job and return at once; `events()` goes on. Safe in a signal handler, and again."""

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Remove what the ended job left: its pods or processes, or all of it. Does nothing where nothing is left.

        Raises:
            LaunchError: Something could not be removed.
        """


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
            scope: siblings = the jobs launched beside the finalizer: in the same (sub-)pipeline and loop iteration.
                run = all jobs of the run.
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
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        """Keep `retryable` beside the message."""
        self.retryable = retryable
        super().__init__(message)

"""The status of an attempt: what `status.json` holds, and what the outputs of a step are made of."""

from typing import Annotated, Literal

import msgspec

from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.spec import RoleName

# Limits that a garbled file breaks and nothing else does: a process id of -1 would be every process.
Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]


Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]


class Incarnation(msgspec.Struct, kw_only=True):
    """One incarnation of a replica: from its start to its end.

    Attributes:
        started: Seconds since the epoch.
        ended: None while it runs.
        state: running, succeeded, failed or stopped.
        exit_code: 128 + n for signal n; None while it runs, or not known.
        reason: OOMKilled, PeerLost, ...; empty = none.
        container: Name of the container that ended it, where it is not the program's.
        place: `pid 4711 port 40123`, or a pod's name.
        cpu_seconds: None = not known.
        memory_bytes: Peak; None = not known.
        number: Which of the replica's incarnations it is, from 0: log lines are kept by that number.
    """

    started: float
    ended: float | None = None
    state: ReplicaState = ReplicaState.RUNNING
    exit_code: int | None = None
    reason: str = ""
    container: str = ""
    place: str = ""
    cpu_seconds: float | None = None
    memory_bytes: Bytes | None = None
    number: Count = 0


class ReplicaStatus(msgspec.Struct, kw_only=True):
    """One replica, with all its incarnations, the newest last."""

    role: RoleName
    index: Count
    state: ReplicaState = ReplicaState.PENDING
    restarts: Count = 0
    incarnations: list[Incarnation] = []

    @property
    def name(self) -> str:
        """`worker-1`."""
        return f"{self.role}-{self.index}"


class Transition(msgspec.Struct, kw_only=True):
    """A change of the job's state; times in seconds since the epoch."""

    at: float
    state: State
    reason: str = ""
    message: str = ""


class FailureSummary(msgspec.Struct, kw_only=True):
    """Why a job failed, for people in a hurry.

    Attributes:
        summary: One sentence.
        replica: Who failed first, `worker-1`; empty = nobody in particular.
        exit_code: Its exit code; None = not known.
        meaning: What that code means.
        exception: The last line of its traceback; empty = none seen.
        frame: The last frame of its traceback, `train.py:41 in step`; empty = none seen.
        tail: Its last lines, at most 20.
        fault: platform = the same job may succeed next time; user = something must be changed first.
    """

    summary: str
    replica: str = ""
    exit_code: int | None = None
    meaning: str = ""
    exception: str = ""
    frame: str = ""
    tail: list[str] = []
    fault: Literal["user", "platform"] = "user"


class Status(msgspec.Struct, kw_only=True):
    """Everything known about one attempt. Times in seconds since the epoch, None = not yet.

    Attributes:
        identity: Run, task, attempt, pipeline.
        job: The job object's name in its system.
        uid: Its uid there.
        namespace: Its namespace; empty where there are none.
        system: The job system's name.
        deciding: Name of the replica whose end is the job's.
        state: Where it stands.
        reason: Of that state.
        message: Of that state.
        created: When the launcher started it.
        started: When all replicas had started.
        ended: When it had ended.
        launcher: Process id of the launcher on this machine.
        output: The output folder.
        logs: The folder of the event files.
        model: The folder of the model.
        metrics: By name; only those that were found.
        tensorboard_url: Empty = none is up.
        transitions: Every change of state.
        replicas: In the order chief, worker, ps, evaluator.
        failure: None unless it failed.
        warnings: What had no effect, or was lost.
        waiting: Names of the replicas that were pending when a deadline passed.
    """

    identity: Identity
    job: str
    system: str
    uid: str = ""
    namespace: str = ""
    decisive_replica: str = ""
    state: State = State.PENDING
    reason: str = ""
    message: str = ""
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    launcher: Count = 0
    output: str = ""
    logs: str = ""
    model: str = ""
    metrics: dict[str, float] = {}
    tensorboard_url: str = ""
    transitions: list[Transition] = []
    replicas: list[ReplicaStatus] = []
    failure: FailureSummary | None = None
    warnings: list[str] = []
    waiting: list[str] = []

"""The status of an attempt: the content of `status.json`, and the source of a step's outputs.

Beside it: how the events of a job change it, for launchers and for commands that read a job once, and what is known if
its launcher has ended before its job. Pure.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from tfsteps.runs.code import Code
from tfsteps.runs.events import ReplicaChanged, ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.location import HomeCluster, Location
from tfsteps.runs.usage import UsageSummary
from tfsteps.spec import RoleName

CLOCK_SECONDS = 60.0
"""Clocks of two machines may differ by this much; a time that is further in the future is not known."""

# Only a damaged file exceeds these limits. A process id of -1 would mean every process.
Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
ABANDONED = "LauncherDied"
"""Reason of a status if the launcher was killed. The job's state is unknown then if it outlives its launcher."""

DETACHED = "Detached"
"""Reason of a status if the job was left running without a launcher, on purpose. The job's state is unknown then."""

UNREACHABLE = "LauncherElsewhere"
"""Reason of a status if this machine cannot know whether the launcher still runs."""

_UP = (ReplicaState.PENDING, ReplicaState.RUNNING)
_ENDED = {ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.STOPPED}


class Incarnation(msgspec.Struct, kw_only=True):
    """One incarnation of a replica: from its start to its end.

    Attributes:
        started: Seconds since the epoch.
        ended: Seconds since the epoch; None while it runs.
        state: running, succeeded, failed or stopped.
        exit_code: 128 + n for signal n; None while it runs, or not known.
        reason: OOMKilled, PeerLost, ...; empty = none.
        container: Name of the container that ended it; empty = the program's container.
        place: `pid 4711 port 40123`, or a pod's name.
        cpu_seconds: CPU time; None = not known.
        memory_bytes: Peak memory; None = not known.
        memory_limit: Memory limit in bytes; None = it has none, or not known.
        message: What the job system reports about its failure; empty = nothing.
        image: The image of the program's container with its digest; empty = not known, or it has none.
        number: Number of the incarnation within the replica, from 0; log lines are kept by this number.
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
    memory_limit: Bytes | None = None
    message: str = ""
    image: str = ""
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


class FailureSummary(msgspec.Struct, kw_only=True, frozen=True):
    """Why a job failed, in short.

    Attributes:
        summary: One sentence.
        replica: Name of the replica that failed first, `worker-1`; empty = no single replica.
        exit_code: Exit code of that replica; None = not known.
        meaning: Meaning of that exit code.
        exception: Last line of its traceback; empty = none found.
        frame: Last frame of its traceback, `train.py:41 in step`; empty = none found.
        tail: Its last lines, at most 20.
        hint: What helps against the exception, with the page about it; empty = not known.
        fault: platform = the same job may succeed next time; user = something must be changed first.
    """

    summary: str
    replica: str = ""
    exit_code: int | None = None
    meaning: str = ""
    exception: str = ""
    frame: str = ""
    tail: list[str] = []
    hint: str = ""
    fault: Literal["user", "platform"] = "user"


class Status(msgspec.Struct, kw_only=True):
    """Everything known about one attempt. Times in seconds since the epoch, None = not yet.

    Attributes:
        identity: Run, task, attempt, pipeline.
        job: The job object's name in its system.
        uid: The job object's uid in its system.
        namespace: The job's namespace; empty if the system has no namespaces.
        cluster: The name of the job's cluster, as the job or the settings name it; empty = that of the command or the
            launcher.
        context: The context of the kubeconfig that the launcher used, also if it was the current one; empty = none, as
            in a pod, or not known.
        home_namespace: The namespace of the launcher, whose settings it used; empty = not known, or no cluster.
        system: The job system's name.
        decisive_replica: Name of the replica that decides how the job ends.
        state: State of the job.
        reason: Reason of that state, one CamelCase word; empty = none.
        message: Message about that state, one sentence; empty = none.
        created: When the launcher created the job.
        started: When the last replica started.
        ended: When the job ended.
        launcher: Process id of the launcher on this machine.
        output: The output folder.
        logs: The folder of the event files.
        model: The folder of the model.
        metrics: Metrics by name; only those that were found.
        metric_notes: By metric: a sentence that says why it is not set, or what is not known of its value.
        tensorboard_url: Address of the TensorBoard; empty = none is running.
        transitions: Every change of state.
        replicas: In the order chief, worker, ps, evaluator.
        failure: Why the job failed; None if it did not.
        warnings: Settings without effect, and lost data.
        waiting: Names of the replicas that were pending when a deadline passed.
        base_dir: Folder on this machine that relative paths of the job start from; empty = not recorded.
        detached: Whether the job was left running without a launcher, on purpose.
        usage: What the replicas of each role used, once the job has ended; without roles that were never sampled.
        location: A `Location`, or the name of the platform where the job lives.
        outlives_launcher: Whether the job goes on after its launcher has ended.
        code: The code in the folder that it was launched from, when it was launched; None = not known, as in pods.
    """

    identity: Identity
    job: str
    system: str
    uid: str = ""
    namespace: str = ""
    cluster: str = ""
    context: str = ""
    home_namespace: str = ""
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
    metric_notes: dict[str, str] = {}
    tensorboard_url: str = ""
    transitions: list[Transition] = []
    replicas: list[ReplicaStatus] = []
    failure: FailureSummary | None = None
    warnings: list[str] = []
    waiting: list[str] = []
    base_dir: str = ""
    detached: bool = False
    usage: dict[RoleName, UsageSummary] = {}
    location: str = Location.ELSEWHERE
    outlives_launcher: bool = True
    code: Code | None = None

    @property
    def on_this_machine(self) -> bool:
        """Whether its replicas are processes of the machine of its launcher."""
        return self.location == Location.LOCAL

    @property
    def images(self) -> dict[RoleName, list[str]]:
        """The images that the replicas of each role ran, with their digests; without roles of which none is known."""
        images: dict[RoleName, dict[str, None]] = {}
        for replica in self.replicas:
            for incarnation in replica.incarnations:
                if incarnation.image:
                    images.setdefault(replica.role, {})[incarnation.image] = None
        return {role: [*those] for role, those in images.items()}

    @property
    def reached_by(self) -> str:
        """The name of a cluster or context that leads a command to the job; empty = the current context has to."""
        return self.cluster or self.context

    @property
    def home(self) -> HomeCluster | None:
        """Where the cluster of the job is defined; None = the job is on the launcher's own cluster."""
        return HomeCluster(self.context, self.home_namespace) if self.cluster else None

    @property
    def where(self) -> list[str]:
        """The options with which a command finds the job where it lives; empty = only by records of this machine."""
        if self.location in (Location.LOCAL, Location.ELSEWHERE):
            return []
        context = ["--context", self.reached_by] if self.reached_by else []
        return ["--on", self.location, *context, *(["--namespace", self.namespace] if self.namespace else [])]


class Incarnations:
    """Updates the replicas of one job from events."""

    def __init__(self, replicas: Sequence[ReplicaStatus]) -> None:
        """Store `replicas`; `apply` changes them in place."""
        self._replicas = {(replica.role, replica.index): replica for replica in replicas}
        self._starts: dict[tuple[str, int], float] = {}

    @property
    def started(self) -> float | None:
        """Latest first start of a replica, in seconds since the epoch, from the job system; None if any is missing."""
        return max(self._starts.values(), default=None) if len(self._starts) == len(self._replicas) else None

    def apply(self, event: ReplicaChanged) -> None:
        """Apply the change of a replica. KeyError if the job has no such replica."""
        name = event.replica.role, event.replica.index
        if event.started is not None:
            self._starts.setdefault(name, event.started)
        replica = self._replicas[name]
        replica.state, replica.restarts = event.state, event.restarts
        if event.state is ReplicaState.RESTARTING:
            return
        up = event.state in _UP
        number = event.restarts if event.incarnation is None else event.incarnation
        last = replica.incarnations[-1] if replica.incarnations else None
        if last is None or (last.ended is not None and (up or number > last.number)):
            untold = event.started is None and event.exit_code is None and not event.reason
            if event.state is ReplicaState.STOPPED or (untold and not up):  # it never ran, or nothing else is known
                return
            replica.incarnations.append(Incarnation(started=event.at if up else event.started or event.at))
        incarnation = replica.incarnations[-1]
        if event.state is ReplicaState.RUNNING and incarnation.state is ReplicaState.PENDING and event.started:
            # without the time in a queue; between both reports, because the job system's clock may differ
            incarnation.started = min(max(event.started, incarnation.started), event.at)
        incarnation.image = event.image or incarnation.image
        incarnation.state, incarnation.number, incarnation.place = event.state, number, event.place or incarnation.place
        if up:
            return
        incarnation.ended = max(event.at, incarnation.started)  # the clocks of a node and of the launcher differ
        incarnation.exit_code, incarnation.reason = event.exit_code, event.reason
        incarnation.container, incarnation.message = event.container, event.message
        incarnation.cpu_seconds = event.cpu_seconds
        incarnation.memory_bytes, incarnation.memory_limit = event.memory_bytes, event.memory_limit


def abandon(status: Status, at: float, *, stopped: bool) -> None:
    """Change the last status of a launcher that ended at about `at`, before its job, to what is known now.

    Args:
        status: Changed in place.
        at: Seconds since the epoch.
        stopped: Whether all replicas were seen to be gone.
    """
    if status.detached:
        _leave_running(status)
        return
    where = f" in namespace {status.namespace}" if status.namespace else ""
    rest = "its replicas were stopped too" if stopped else "it is not known whether its replicas were stopped too"
    status.state, status.reason, status.ended = State.LOST, ABANDONED, max(at, status.created)
    status.message = f"The launcher was killed; {f'the job may go on{where}' if status.outlives_launcher else rest}."
    status.transitions.append(
        Transition(at=status.ended, state=status.state, reason=status.reason, message=status.message)
    )
    _end_replicas(status, ReplicaState.STOPPED if stopped else ReplicaState.UNKNOWN)
    for replica in status.replicas:
        for incarnation in replica.incarnations:
            if incarnation.ended is None:
                incarnation.ended, incarnation.state = max(at, incarnation.started), replica.state


def doubt(status: Status, why: str) -> None:
    """Change a status to that of a job of which nothing is known now; `why` is the end of a sentence."""
    status.message = f"Last recorded: {status.state}. {why[:1].upper()}{why[1:]}."
    status.state, status.reason = State.UNKNOWN, UNREACHABLE
    _end_replicas(status, ReplicaState.UNKNOWN)


def _leave_running(status: Status) -> None:
    """Change the status of a job that was left running to what is known of it now."""
    where = f" in namespace {status.namespace}" if status.namespace else f" on {status.system}"
    status.state, status.reason = State.UNKNOWN, DETACHED
    status.message = f"The job was left running{where}; `tfsteps attach {status.identity.run}` follows it."
    _end_replicas(status, ReplicaState.UNKNOWN)


def _end_replicas(status: Status, state: ReplicaState) -> None:
    for replica in status.replicas:
        if replica.state not in _ENDED:
            replica.state = state


def may_continue(status: Status) -> bool:
    """Return whether the job of a status may go on while no launcher on this machine follows it."""
    return status.outlives_launcher and status.reason in (ABANDONED, DETACHED)

"""What is known of one replica of a job over all its pods. Pure."""

import itertools
from collections.abc import Iterator

import msgspec

from tfsteps.runs.events import ReplicaChanged, ReplicaName, ReplicaState
from tfsteps.systems.kubernetes.follow.pods import Pod

UP = {ReplicaState.PENDING, ReplicaState.RUNNING}
_LONGEST = 300  # characters of a message


class PodRecord(msgspec.Struct):
    """One pod of a replica; it stays known after its deletion.

    Attributes:
        uid: Its uid.
        restarts: Number of restarts of its program within the pod.
        held: Whether it existed while the job was suspended: the suspension deletes it.
        withdrawn: Whether it was deleted because the job was stopped or suspended: a new one is no restart.
        ended_from_outside: Whether it was deleted while it ran.
    """

    uid: str
    restarts: int = 0
    held: bool = False
    withdrawn: bool = False
    ended_from_outside: bool = False


class ReplicaHistory:
    """One replica.

    Attributes:
        replica: Its name.
        pods: Its pods by uid, the newest last; empty = none was seen.
        shown: The last reported change; None = nothing was reported.
        failure: Message about a failed container that is not the program's; empty = none.
    """

    def __init__(self, replica: ReplicaName) -> None:
        """Begin without a pod."""
        self.replica = replica
        self.pods: dict[str, PodRecord] = {}
        self.shown: ReplicaChanged | None = None
        self.failure = ""

    @property
    def newest(self) -> PodRecord | None:
        """Its newest pod; None = none was seen."""
        return self.pods[next(reversed(self.pods))] if self.pods else None

    @property
    def taken(self) -> bool:
        """Whether its newest pod was deleted while it ran."""
        return self.newest is not None and self.newest.ended_from_outside

    @property
    def state(self) -> ReplicaState | None:
        """The last reported state; None = nothing was reported."""
        return self.shown.state if self.shown else None

    def record(self, pod: Pod) -> PodRecord:
        """Return what is known of a pod, which is its newest one if it was not known."""
        is_new = pod.uid not in self.pods
        record = self.pods.setdefault(pod.uid, PodRecord(pod.uid))
        if pod.deleting and (not pod.ended or (is_new and pod.killed)):
            record.ended_from_outside = True
        return record

    def incarnations_before(self, uid: str, *, withdrawn: bool = True) -> int:
        """Return how many incarnations it had before the pod with this uid, which need not be known yet.

        Args:
            uid: Of the pod.
            withdrawn: Whether withdrawn pods count.
        """
        earlier = itertools.takewhile(lambda pod: pod.uid != uid, self.pods.values())
        return sum(1 + pod.restarts for pod in earlier if withdrawn or not pod.withdrawn)

    def change(self, pod: Pod, now: float) -> ReplicaChanged:
        """Return its state by its pod at `now`, in seconds since the epoch."""
        return ReplicaChanged(
            at=now,
            replica=self.replica,
            state=pod.state,
            restarts=pod.restarts + self.incarnations_before(pod.uid, withdrawn=False),
            exit_code=pod.exit_code,
            reason=pod.reason,
            message=pod.message[:_LONGEST] if pod.state is ReplicaState.FAILED else "",
            memory_limit=pod.memory_limit,
            container=pod.failed if pod.state is ReplicaState.FAILED else "",
            place=f"{pod.name} on {pod.node}" if pod.node else pod.name,
            started=pod.started,
            image=pod.image,
            incarnation=pod.restarts + self.incarnations_before(pod.uid),
        )

    def changes(self, pod: Pod, now: float, *, is_new: bool) -> Iterator[ReplicaChanged]:
        """Yield what its newest pod says: the end before its last restart in place, if none was reported, its state."""
        if pod.earlier and not self.pods[pod.uid].withdrawn:
            old, change = self.shown, self.change(pod.earlier, pod.earlier.finished or now)
            if old is None or (old.incarnation or 0, old.state not in UP) < (change.incarnation, True):
                yield change
        if pod.failed and pod.state is ReplicaState.FAILED:
            self.failure = pod.message
        yield self.change(pod, (is_new and pod.since) or now)

    def superseded(self, pod: Pod, now: float) -> ReplicaChanged:
        """Return the end of its running `pod`, which a new pod replaces; it may still be terminating."""
        change = self.change(pod, now)
        if self.pods[pod.uid].withdrawn:
            return msgspec.structs.replace(change, state=ReplicaState.STOPPED, reason="")
        reason = pod.reason or ("PodDeleted" if pod.deleting else "")
        return msgspec.structs.replace(change, state=ReplicaState.FAILED, reason=reason)

    def show(self, change: ReplicaChanged) -> Iterator[ReplicaChanged]:
        """Yield a change unless nothing is new; before a new incarnation, yield the end of the one before."""
        old = self.shown
        if old and msgspec.structs.replace(old, at=change.at) == change:
            return
        self.shown = change
        if old and old.state is ReplicaState.RUNNING and change.restarts > old.restarts:
            yield msgspec.structs.replace(old, at=change.at, state=ReplicaState.FAILED)
        yield change

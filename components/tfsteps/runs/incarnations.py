"""Derives incarnations from the changes of replicas, for launchers and for commands that read a job once. Pure."""

from collections.abc import Sequence

from tfsteps.runs.events import ReplicaChanged, ReplicaState
from tfsteps.runs.status import Incarnation, ReplicaStatus

_UP = (ReplicaState.PENDING, ReplicaState.RUNNING)


class Incarnations:
    """Updates the replicas of one job from events."""

    def __init__(self, replicas: Sequence[ReplicaStatus]) -> None:
        """Store `replicas`; `see` changes them in place."""
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
        _apply(self._replicas[name], event)


def _apply(replica: ReplicaStatus, event: ReplicaChanged) -> None:
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
    incarnation.exit_code, incarnation.reason, incarnation.container = event.exit_code, event.reason, event.container
    incarnation.cpu_seconds, incarnation.message = event.cpu_seconds, event.message
    incarnation.memory_bytes, incarnation.memory_limit = event.memory_bytes, event.memory_limit

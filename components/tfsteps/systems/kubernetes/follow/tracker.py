"""Turns watch events into the events of a job. It has no connection, so tests can try every order of events."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.kube.watch import Changed, Deleted, Listed, Seen
from tfsteps.runs.events import Event, JobChanged, ReplicaChanged, ReplicaName, ReplicaState, State, Verdict
from tfsteps.systems.kubernetes.follow.job_object import JobObject, noted_states
from tfsteps.systems.kubernetes.follow.pods import Pod, pod
from tfsteps.systems.kubernetes.follow.warning_events import WarningEvent
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.render.gang import repeats_gang_failure
from tfsteps.systems.kubernetes.times import by_age

_NAMED = 5  # replicas in a message
_UNSEEN_SECONDS = 60.0  # a running controller reconciles a new object within a second
_STARTED = {ReplicaState.RUNNING, ReplicaState.SUCCEEDED}
_HELD = {State.SUSPENDED, State.QUEUED}
_ENDED = {ReplicaState.SUCCEEDED, ReplicaState.FAILED}
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
        at = (is_new and pod.since) or now
        if self.shown:  # by the launcher's clock: that of the pod's node may differ
            at = min(max(at, self.shown.at), now)
        yield self.change(pod, at)

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


def explanation(final: JobChanged, replica: ReplicaChanged | None, failure: str, unknown: str) -> str:
    """Return the message of a failed job.

    Args:
        final: The end of the job, by the job object.
        replica: The end of the replica whose failure is the cause; None = no remaining pod failed.
        failure: The failure of another container than that replica's program; empty = none.
        unknown: Why it may not be known which replica failed, as a sentence; empty = all pods were seen.
    """
    if replica is None:
        return f"{final.message} {unknown}".strip()
    if failure:
        return f"{final.message} {replica.replica}: {failure}.".strip()
    if final.message and final.reason != "ReplicaFailed":
        return final.message
    code = "" if replica.exit_code is None else f" with exit code {replica.exit_code}"
    return f"{replica.replica} failed{code}{f' ({replica.reason})' if replica.reason else ''}."


def several(final: JobChanged, failed: Sequence[ReplicaChanged]) -> str:
    """Return the message of a job of which several replicas `failed`, at unknown times."""
    ends = ", ".join(f"{change.replica} with exit code {change.exit_code}" for change in failed[:_NAMED])
    more = f" and {len(failed) - _NAMED} more" if failed[_NAMED:] else ""
    return f"{final.message} These failed: {ends}{more}; which one first is not known.".strip()


def _without_pods(gone: Sequence[ReplicaName]) -> str:
    names = ", ".join(map(str, gone[:_NAMED])) + (f" and {len(gone) - _NAMED} more" if gone[_NAMED:] else "")
    return f"No pod is left of {names}, so it is not known which replica failed and with which exit code."


class Tracker:
    """Follows one job object and its pods; other pods must not be reported to it.

    Attributes:
        replicas: The replicas of the job.
        object: The job object and its parts.
        final: The end of the job, with the replica that caused it; None = it has not ended.
        pods: The pods that are there, by uid.
        warning: Why pods are not created; None = not known.
        listed: Whether the pods were listed: then a pod that was not seen does not exist, unless one is undecided.
        undecided: A sentence about pods that may be the job's; empty = there are none.
        restarts: Restarts of all replicas.
    """

    def __init__(self, kind: JobKind, item: Mapping[str, Any], replicas: list[ReplicaName], created: float) -> None:
        """Start with the job object as it was created or adopted, at the time `created`."""
        self.object = JobObject(kind, item)
        self.final: JobChanged | None = None
        self.pods: dict[str, Pod] = {}
        self.warning: WarningEvent | None = None
        self.listed = False
        self.undecided = ""
        self.restarts = 0
        self._kind, self.replicas, self._created = kind, replicas, created
        self._histories = {replica: ReplicaHistory(replica) for replica in replicas}
        self._history_of: dict[str, ReplicaHistory] = {}  # by the uid of a pod
        self._last_state: tuple[State, str, str] | None = None  # None = none was reported
        self._unstarted = set(replicas)  # as of the last check of each
        self._changed = set(replicas)  # replicas with events since that check

    # --- the job object

    def job(self, seen: Seen, now: float) -> Iterator[Event]:
        """Yield what follows from an event of the watch on the job object."""
        self.object.apply(seen, now)
        self._end()
        if self.object.verdict.state in _HELD:
            yield from self._suspended(now)
        yield from self.state(now)

    def _suspended(self, now: float) -> Iterator[Event]:
        """Yield the stop of each replica whose pod's end was seen before the suspension that caused it."""
        for uid, seen in self.pods.items():
            record = self._history_of[uid].pods[uid]
            record.held = record.held or not seen.ended
        for history in self._histories.values():
            newest = history.newest
            if newest and newest.ended_from_outside and history.shown and history.state is ReplicaState.FAILED:
                newest.withdrawn = True
                stopped = msgspec.structs.replace(history.shown, at=now, state=ReplicaState.STOPPED, reason="")
                yield from self._show(history, stopped)

    def stop(self, verdict: Verdict) -> None:
        """Take `verdict` for the end of the job if its object is gone from now on: tfsteps deletes it."""
        self.object.stopping = verdict

    def give_up(self, verdict: Verdict, now: float) -> None:
        """End with `verdict`, whatever the job object says later."""
        self.object.finish(verdict, now)
        self._end()

    def _end(self) -> None:
        if self.object.end and not self.final:
            self.final = msgspec.structs.replace(self.object.end, replica=self._first_failed())

    def _first_failed(self) -> ReplicaName | None:
        """Return the replica whose container failed first; None if none did.

        Pods report whole seconds; within one second the operator may have ended other replicas because of the failure.
        """
        failed = [
            (history.shown.at, history.taken, number, replica)
            for number, (replica, history) in enumerate(self._histories.items())
            if history.shown and history.state is ReplicaState.FAILED
        ]
        return min(failed)[-1] if failed else None

    def last(self) -> JobChanged:
        """Return the end of the job, with the replica that caused the failure and its explanation, as known by now."""
        assert self.final
        final = self.final
        if final.state is not State.FAILED:
            return final
        replica = self._blamed_replica()
        without = {name: history.shown for name, history in self._histories.items() if not history.pods}
        gone = [name for name, change in without.items() if not (change and change.place)] if self.listed else []
        untimed = [change for change in without.values() if change and change.state is ReplicaState.FAILED]
        if replica in without and len(untimed) > 1:
            return msgspec.structs.replace(final, replica=None, message=several(final, untimed))
        blamed = self._histories[replica] if replica else None
        change, failure = (blamed.shown, blamed.failure) if blamed else (None, "")
        message = explanation(final, change, failure, self.undecided or (_without_pods(gone) if gone else ""))
        return msgspec.structs.replace(final, replica=replica, message=message)

    # --- the pods

    def seen_pod(self, seen: Seen, now: float) -> Iterator[Event]:
        """Yield what follows from an event of the watch on the pods."""
        match seen:
            case Listed(items=items):
                self.listed = True
                for uid in set(self.pods) - {item["metadata"]["uid"] for item in items}:
                    yield from self._pod_gone(uid, now)
                for item in by_age(items):
                    yield from self._pod(item, now)
            case Changed(item=item):
                yield from self._pod(item, now)
            case Deleted(item=item):
                yield from self._pod(item, now)
                yield from self._pod_gone(item["metadata"]["uid"], now)
        yield from self.state(now)

    def knows_end(self, metadata: Mapping[str, Any]) -> bool:
        """Tell whether this version of a pod's object was seen before, and the pod had ended: then nothing follows."""
        seen = self.pods.get(metadata["uid"])
        return seen is not None and seen.ended and seen.version == metadata.get("resourceVersion", "") != ""

    def replica(self, uid: str) -> ReplicaName:
        """Return whose pod this is."""
        return self._history_of[uid].replica

    def _pod(self, item: Mapping[str, Any], now: float) -> Iterator[Event]:
        replica = self._kind.replica(item["metadata"], self.replicas)
        if replica is None or (history := self._histories.get(replica)) is None:
            return
        seen = pod(item, self._kind.container)
        newest, is_new = history.newest, seen.uid not in history.pods
        record = history.record(seen)
        old = self.pods.get(seen.uid)
        if old and old.ended and not seen.ended:
            return  # stale event: a later list already reported the pod finished
        superseded = not is_new and record is not newest
        held = self.object.verdict.state in _HELD or record.held
        was_up = old is None or old.state in UP
        if seen.deleting and not superseded and (held or (self.object.stopping and was_up)):
            record.withdrawn = True
        if record.withdrawn and seen.state is not ReplicaState.SUCCEEDED:
            seen = msgspec.structs.replace(seen, state=ReplicaState.STOPPED, reason="", message="")
        record.restarts = seen.restarts
        self.pods[seen.uid] = msgspec.structs.replace(seen, before=history.incarnations_before(seen.uid))
        self._history_of[seen.uid] = history
        self._changed.add(replica)
        if is_new:
            if newest and (self.object.stopping or newest.held):  # the stop, or the pod's end, was not seen yet
                newest.withdrawn = True
            if newest and (last := self.pods.get(newest.uid)) and last.state is ReplicaState.RUNNING:
                yield from self._show(history, history.superseded(last, now))
        if not superseded:
            for change in history.changes(seen, now, is_new=is_new):
                yield from self._show(history, change)

    def _pod_gone(self, uid: str, now: float) -> Iterator[Event]:
        seen = self.pods.pop(uid, None)
        if seen is None:
            return
        history = self._history_of[uid]
        record = history.pods[uid]
        self._changed.add(history.replica)
        if seen.state in _ENDED or record is not history.newest:
            return
        record.ended_from_outside = True
        record.withdrawn = record.withdrawn or record.held or self.object.verdict.state in _HELD
        expected = self.object.stopping or self.final or record.withdrawn
        state = ReplicaState.STOPPED if expected else ReplicaState.FAILED
        reason = "" if state is ReplicaState.STOPPED else seen.reason or "PodDeleted"
        yield from self._show(history, msgspec.structs.replace(history.change(seen, now), state=state, reason=reason))

    def _show(self, history: ReplicaHistory, change: ReplicaChanged) -> Iterator[Event]:
        self.restarts -= history.shown.restarts if history.shown else 0
        events = list(history.show(change))
        self.restarts += history.shown.restarts if history.shown else 0
        yield from events

    def stop_remaining(self, now: float, *, running: bool = True) -> Iterator[Event]:
        """Yield the stop of each replica that still runs after the end of its job: the operator ends it later.

        Some operators end replicas before they report the end of the job; such an end looked like a failure. A replica
        whose disruption failed the job, and which is still terminating, has failed. A replica that was never seen has
        the state that an earlier launcher noted, or is unknown if the first look found an ended job without pods.

        Args:
            now: Seconds since the epoch.
            running: Also of those whose pods still run.
        """
        unexplained, blamed = running and self.unexplained, self._blamed_replica()
        over = self.final is not None and self.final.state in (State.SUCCEEDED, State.FAILED)
        item = self.object.item
        noted = noted_states(item, self.replicas)
        seen = self._last_state or self.object.stopping or any(history.pods for history in self._histories.values())
        unseen = ReplicaState.STOPPED if seen else ReplicaState.UNKNOWN
        ends = {end.replica: end for end in self._kind.replica_ends(item, self.replicas)} if self.final else {}
        for replica, history in self._histories.items():
            end, newest = ends.get(replica), history.newest
            change = history.shown or ReplicaChanged(at=now, replica=replica, state=ReplicaState.PENDING)
            stopped = msgspec.structs.replace(change, at=now, state=ReplicaState.STOPPED, reason="")
            taken = self.pods.get(newest.uid) if unexplained and newest else None
            if end and (newest is None or (end.uid == newest.uid and change.exit_code is None)):
                yield from self._show(history, end.change(now))
            elif taken and taken.deleting and taken.reason:
                yield from self._show(history, msgspec.structs.replace(change, at=now, state=ReplicaState.FAILED))
            elif change.state is ReplicaState.FAILED and over and replica != blamed and history.taken:
                # the operator ended it because the job was over: its failure is not the cause
                yield from self._show(history, msgspec.structs.replace(stopped, at=change.at))
            elif newest is None:
                yield from self._show(history, msgspec.structs.replace(stopped, state=noted.get(replica, unseen)))
            elif running and change.state not in {*_ENDED, ReplicaState.STOPPED}:
                yield from self._show(history, stopped)

    @property
    def replica_states(self) -> dict[ReplicaName, ReplicaState]:
        """The last reported state of each replica of which one was reported."""
        return {replica: history.shown.state for replica, history in self._histories.items() if history.shown}

    def _blamed_replica(self) -> ReplicaName | None:
        failed = self.final is not None and self.final.state is State.FAILED
        return (self.final.replica or self._first_failed()) if self.final and failed else None

    @property
    def unexplained(self) -> bool:
        """Whether the job has failed, no replica has, and a pod that is being deleted may be the cause.

        The training operator counts a pod that is being deleted as failed while it still runs, and an eviction may
        give it long [source: training-operator 1.8.1, `pkg/core/status.go`].
        """
        if self.final is None or self.final.state is not State.FAILED or self._first_failed():
            return False
        return any(seen.deleting and not seen.ended for seen in self.pods.values())

    # --- both

    def state(self, now: float) -> Iterator[Event]:
        """Yield the job's state if it changed; nothing before the job object was seen. `final` has its end."""
        if self.final or not self.object.was_read:
            return
        state, reason, message = self._state(now)
        if (state, reason, message) != self._last_state:
            self._last_state = (state, reason, message)
            yield JobChanged(at=now, state=state, reason=reason, message=message)

    def _state(self, now: float) -> tuple[State, str, str]:
        verdict = self.object.verdict
        restarting = verdict.state is State.RESTARTING
        ran = self._last_state is not None and self._last_state[0] in (State.RUNNING, State.RESTARTING)
        before_running = State.RESTARTING if ran or restarting else State.PENDING
        if self.warning and self.is_short():
            return before_running, self.warning.reason, self.warning.message
        if verdict.state not in (State.PENDING, State.RUNNING, State.RESTARTING):
            return verdict.state, verdict.reason, verdict.message
        if not restarting and self._have_started():
            return (State.RUNNING, *((verdict.reason, verdict.message) if verdict.state is State.RUNNING else ("", "")))
        stuck = [
            (self.replica(seen.uid), seen)
            for seen in self.pods.values()
            if seen.reason and seen.state is ReplicaState.PENDING
        ]
        if stuck:
            replica, seen = min(stuck, key=lambda pair: (repeats_gang_failure(pair[1].message), pair[0]))
            return before_running, seen.reason, f"{replica}: {seen.message or seen.reason}"
        if not self.pods and verdict.reason == "" and now - self._created > _UNSEEN_SECONDS:
            message = f"No controller has updated the job for {_UNSEEN_SECONDS:.0f} s. Is the operator running?"
            return State.UNKNOWN, "NotReconciled", message
        return (before_running, *((verdict.reason, verdict.message) if restarting else ("", "")))

    def is_short(self) -> bool:
        """Tell whether replicas have no pod although the job is neither suspended nor queued."""
        if self.final or self.object.stopping or self.object.verdict.state in {*_HELD, State.UNKNOWN}:
            return False
        there = {self.replica(uid) for uid in self.pods}
        ended = {name for name, history in self._histories.items() if history.state is ReplicaState.SUCCEEDED}
        return not there | ended >= set(self.replicas)

    def _have_started(self) -> bool:
        """Tell whether all replicas run or have run; only replicas with new events are checked, for speed."""
        for replica in self._changed:
            history = self._histories[replica]
            # of a failed one whose pod is there, the job object decides what follows
            failed = history.state is ReplicaState.FAILED and history.newest and history.newest.uid in self.pods
            (self._unstarted.discard if failed or history.state in _STARTED else self._unstarted.add)(replica)
        self._changed.clear()
        return not self._unstarted

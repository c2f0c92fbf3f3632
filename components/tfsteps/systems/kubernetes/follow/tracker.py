"""Turns watch events into the events of a job. It has no connection, so tests can try every order of events."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen
from tfsteps.runs.events import Event, JobChanged, Replica, ReplicaChanged, ReplicaState, State
from tfsteps.runs.identity import PREFIX
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.follow.pods import Pod, pod
from tfsteps.systems.kubernetes.follow.warning_events import WarningEvent
from tfsteps.systems.kubernetes.job_kind import GONE, JobKind, Verdict
from tfsteps.systems.kubernetes.render.gang import echo
from tfsteps.systems.kubernetes.replica_states import noted_states
from tfsteps.systems.kubernetes.times import by_age, job_ended

_LONGEST = 300  # characters of a message
_NAMED = 5  # replicas in a message
STOPPED = f"{PREFIX}stopped"
"""Annotation of a job that `tfsteps stop` is about to delete; its value is the time."""
_UNSEEN_SECONDS = 60.0  # a running controller reconciles a new object within a second
_STARTED = {ReplicaState.RUNNING, ReplicaState.SUCCEEDED}
_HELD = {State.SUSPENDED, State.QUEUED}
_UP = {ReplicaState.PENDING, ReplicaState.RUNNING}
_ENDED = {ReplicaState.SUCCEEDED, ReplicaState.FAILED}


class PodHistory(dict[Replica, list[str]]):
    """The uids of each replica's pods, the newest last."""

    def __init__(self, replicas: Iterable[Replica]) -> None:
        """Begin without a pod."""
        super().__init__((replica, []) for replica in replicas)
        self.restarts: dict[str, int] = {}
        """Number of restarts of a pod's program within the pod, by uid."""
        self.withdrawn: set[str] = set()
        """Uids of pods that were deleted because the job was stopped or suspended: new ones are no restarts."""

    def incarnations_before(self, replica: Replica, uid: str, without: Collection[str] = ()) -> int:
        """Return how many incarnations a replica had before the pod with this uid.

        Args:
            replica: Whose pod.
            uid: Of the pod, which need not be listed yet.
            without: Uids of pods that do not count.
        """
        earlier = itertools.takewhile(lambda other: other != uid, self[replica])
        return sum(1 + self.restarts[other] for other in earlier if other not in without)

    def change(self, replica: Replica, seen: Pod, now: float) -> ReplicaChanged:
        """Return the state of a replica by its pod at `now`, in seconds since the epoch."""
        return ReplicaChanged(
            at=now,
            replica=replica,
            state=seen.state,
            restarts=seen.restarts + self.incarnations_before(replica, seen.uid, without=self.withdrawn),
            exit_code=seen.exit_code,
            reason=seen.reason,
            message=seen.message[:_LONGEST] if seen.state is ReplicaState.FAILED else "",
            memory_limit=seen.memory_limit,
            container=seen.failed if seen.state is ReplicaState.FAILED else "",
            place=f"{seen.name} on {seen.node}" if seen.node else seen.name,
            started=seen.started,
            image=seen.image,
            incarnation=seen.restarts + self.incarnations_before(replica, seen.uid),
        )


def explanation(final: JobChanged, replica: ReplicaChanged | None, failure: str, gone: Sequence[Replica]) -> str:
    """Return the message of a failed job.

    Args:
        final: The end of the job, by the job object.
        replica: The end of the replica whose failure is the cause; None = no remaining pod failed.
        failure: The failure of another container than that replica's program; empty = none.
        gone: Replicas without a pod, of which no pod was seen.
    """
    if replica is None:
        return f"{final.message} {_unknown(gone)}".strip() if gone else final.message
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


def _unknown(gone: Sequence[Replica]) -> str:
    names = ", ".join(map(str, gone[:_NAMED])) + (f" and {len(gone) - _NAMED} more" if gone[_NAMED:] else "")
    return f"No pod is left of {names}, so it is not known which replica failed and with which exit code."


class Tracker:
    """Follows one job object and its pods; other pods must not be reported to it.

    Attributes:
        stopping: The verdict for a job object that is gone because tfsteps deleted it; None = it did not.
        final: The end of the job, once it is known.
        pods: The pods that are there, by uid.
        item: The last known job object.
        complaint: Why pods are not created; None = not known.
        listed: Whether the pods were listed: then a pod that was not seen does not exist.
    """

    def __init__(self, kind: JobKind, item: Mapping[str, Any], replicas: list[Replica], created: float) -> None:
        """Start with the job object as it was created or adopted, at the time `created`."""
        self.stopping: Verdict | None = None
        self.final: JobChanged | None = None
        self.pods: dict[str, Pod] = {}
        self.item = item
        self.complaint: WarningEvent | None = None
        self.listed = False
        self._kind = kind
        self._replicas = replicas
        self._objects: dict[str, Mapping[str, Any]] = {}  # the job object and its parts, by name
        self._name, self._uid = item["metadata"]["name"], item["metadata"]["uid"]
        self._created = created
        self._verdict = Verdict(State.PENDING)
        self._seen = False  # whether the job object was looked at
        self._replica_of: dict[str, Replica] = {}
        self._shown: dict[Replica, ReplicaChanged] = {}
        self._uids = PodHistory(replicas)
        self._held: set[str] = set()  # pods that existed while the job was suspended: the suspension deletes them
        self._ended_from_outside: set[str] = set()  # pods that were deleted while they ran, by uid
        self._failures: dict[Replica, str] = {}  # message about a failed container that is not the program's
        self._last_state: tuple[State, str, str] | None = None
        self._unstarted = set(replicas)  # as of the last check of each
        self._news = set(replicas)  # replicas with events since that check
        self.restarts = 0  # restarts of all replicas

    # --- the job object

    def job(self, seen: Seen, now: float) -> Iterator[Event]:
        """Yield what follows from an event of the watch on the job object."""
        match seen:
            case Listed(items=items):
                listed = {item["metadata"]["name"]: item for item in items}
                gone = self._objects.keys() - listed.keys() - {self._name}
                self._objects = {**listed, **{name: {**self._objects[name], GONE: True} for name in gone}}
                self._look(now)
                if self._name not in self._objects:
                    self._gone(now)
            case Changed(item=item):
                self._objects[item["metadata"]["name"]] = item
                self._look(now)
            case Deleted(item=item):
                self._deleted(item, now)
            case Refused(error=error, retryable=retryable):
                raise LaunchError(
                    f"{self._name} continues, but cannot be watched any more: {error}", retryable=retryable
                )
        yield from self._suspended(now)
        yield from self.state(now)

    def _suspended(self, now: float) -> Iterator[Event]:
        """Yield the stop of each replica whose pod's end was seen before the suspension that caused it."""
        if self._verdict.state not in _HELD:
            return
        self._held |= {uid for uid, seen in self.pods.items() if not seen.ended}
        for replica, change in list(self._shown.items()):
            uid = self._uids[replica][-1]
            if change.state is ReplicaState.FAILED and uid in self._ended_from_outside:
                self._uids.withdrawn.add(uid)
                stopped = msgspec.structs.replace(change, at=now, state=ReplicaState.STOPPED, reason="")
                yield from self._show(replica, stopped)

    def _deleted(self, item: Mapping[str, Any], now: float) -> None:
        name, uid = item["metadata"]["name"], item["metadata"]["uid"]
        if uid != self._objects.get(name, item)["metadata"]["uid"] or (name == self._name and uid != self._uid):
            return  # event of an earlier object of this name
        self._objects[name] = item
        self._look(now)  # it may have ended first
        if name == self._name:
            del self._objects[name]
            self._gone(now)
        else:
            self._objects[name] = {**item, GONE: True}
            self._look(now)

    def _look(self, now: float) -> None:
        for item in self._kind.group_objects(self._objects.values()):
            if item["metadata"]["name"] == self._name:
                self._judge(item, now)

    def _judge(self, item: Mapping[str, Any], now: float) -> None:
        if item["metadata"]["uid"] != self._uid:
            self._end(now, State.LOST, "Replaced", "The job was deleted, and another one has its name.")
            return
        self.item = item
        if STOPPED in (item["metadata"].get("annotations") or {}):
            self.stopping = self.stopping or Verdict(State.CANCELLED, "Stopped", "`tfsteps stop` ended it.")
        self._verdict = self._kind.verdict(item)
        if self._verdict.state.terminal:
            at = now if self._seen else job_ended(item) or now  # it ended before it was followed
            self._end(at, self._verdict.state, self._verdict.reason, self._verdict.message)
        self._seen = True

    def _gone(self, now: float) -> None:
        if self.stopping:
            self._end(now, self.stopping.state, self.stopping.reason, self.stopping.message)
        else:
            self._end(now, State.LOST, "Deleted", "The job was deleted by a user, or its time to live was over.")

    def give_up(self, verdict: Verdict, now: float) -> None:
        """End with `verdict`, whatever the job object says later."""
        self._end(now, verdict.state, verdict.reason, verdict.message)

    def _end(self, now: float, state: State, reason: str, message: str) -> None:
        if self.final is None:
            self.final = JobChanged(at=now, state=state, reason=reason, message=message, replica=self._culprit())

    def _culprit(self) -> Replica | None:
        """Return the replica whose container failed first; None if none did.

        Pods report whole seconds; within one second the operator may have ended other replicas because of the failure.
        """
        failed = [
            (change.at, not self._ended_from_outside.isdisjoint(uids[-1:]), number, replica)
            for number, (replica, uids) in enumerate(self._uids.items())
            if (change := self._shown.get(replica)) and change.state is ReplicaState.FAILED
        ]
        return min(failed)[-1] if failed else None

    def explained(self, final: JobChanged) -> JobChanged:
        """Return the end of the job, with the replica that caused the failure and its explanation, as known by now."""
        if final.state is not State.FAILED:
            return final
        replica = self._cause()
        without = {name: self._shown.get(name) for name, uids in self._uids.items() if not uids}
        gone = [name for name, change in without.items() if not (change and change.place)] if self.listed else []
        untimed = [change for change in without.values() if change and change.state is ReplicaState.FAILED]
        if replica in without and len(untimed) > 1:
            return msgspec.structs.replace(final, replica=None, message=several(final, untimed))
        change, failure = (self._shown.get(replica), self._failures.get(replica, "")) if replica else (None, "")
        message = explanation(final, change, failure, gone)
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

    def replica(self, uid: str) -> Replica:
        """Return whose pod this is."""
        return self._replica_of[uid]

    def _pod(self, item: Mapping[str, Any], now: float) -> Iterator[Event]:
        replica = self._kind.replica(item["metadata"], self._replicas)
        if replica is None or replica not in self._uids:
            return
        seen = pod(item, self._kind.container)
        is_new = seen.uid not in self._uids[replica]
        if seen.deleting and (not seen.ended or (is_new and seen.killed)):
            self._ended_from_outside.add(seen.uid)
        old = self.pods.get(seen.uid)
        if old and old.ended and not seen.ended:
            return  # stale event: a later list already reported the pod finished
        superseded = seen.uid in self._uids[replica][:-1]
        was_up = old is None or old.state in _UP
        held = self._verdict.state in _HELD or seen.uid in self._held
        if seen.deleting and not superseded and (held or (self.stopping and was_up)):
            self._uids.withdrawn.add(seen.uid)
        if seen.uid in self._uids.withdrawn and seen.state is not ReplicaState.SUCCEEDED:
            seen = msgspec.structs.replace(seen, state=ReplicaState.STOPPED, reason="", message="")
        self._uids.restarts[seen.uid] = seen.restarts
        before = self._uids.incarnations_before(replica, seen.uid)
        self.pods[seen.uid] = msgspec.structs.replace(seen, before=before)
        self._news.add(replica)
        self._replica_of[seen.uid] = replica
        if is_new:
            yield from self._supersede(replica, now)
            self._uids[replica].append(seen.uid)
        if not superseded:
            if seen.failed and seen.state is ReplicaState.FAILED:
                self._failures[replica] = seen.message
            yield from self._ended_before(replica, seen, now)
            yield from self._show(replica, self._uids.change(replica, seen, (is_new and seen.since) or now))

    def _ended_before(self, replica: Replica, seen: Pod, now: float) -> Iterator[Event]:
        """Yield the end of the incarnation before the last restart in place, if no event reported it."""
        if seen.earlier is None or seen.uid in self._uids.withdrawn:
            return
        old, change = self._shown.get(replica), self._uids.change(replica, seen.earlier, seen.earlier.finished or now)
        if old is None or (old.incarnation or 0, old.state not in _UP) < (change.incarnation, True):
            yield from self._show(replica, change)

    def _supersede(self, replica: Replica, now: float) -> Iterator[Event]:
        """Yield the end of a replica's pod that a new pod replaces; the old one may still be terminating."""
        uid = next(reversed(self._uids[replica]), "")
        if uid and (self.stopping or uid in self._held):  # the stop, or the pod's end, was not seen yet
            self._uids.withdrawn.add(uid)
        seen = self.pods.get(uid)
        if seen and seen.state is ReplicaState.RUNNING:
            change = self._uids.change(replica, seen, now)
            if uid in self._uids.withdrawn:
                yield from self._show(replica, msgspec.structs.replace(change, state=ReplicaState.STOPPED, reason=""))
                return
            reason = seen.reason or ("PodDeleted" if seen.deleting else "")
            yield from self._show(replica, msgspec.structs.replace(change, state=ReplicaState.FAILED, reason=reason))

    def _pod_gone(self, uid: str, now: float) -> Iterator[Event]:
        seen = self.pods.pop(uid, None)
        if seen:
            self._news.add(self._replica_of[uid])
        if seen is None or seen.state in _ENDED:
            return
        replica = self._replica_of[uid]
        if uid != self._uids[replica][-1]:
            return
        self._ended_from_outside.add(uid)
        if self._verdict.state in _HELD or uid in self._held:
            self._uids.withdrawn.add(uid)
        expected = self.stopping or self.final or uid in self._uids.withdrawn
        state = ReplicaState.STOPPED if expected else ReplicaState.FAILED
        reason = "" if state is ReplicaState.STOPPED else seen.reason or "PodDeleted"
        change = self._uids.change(replica, seen, now)
        yield from self._show(replica, msgspec.structs.replace(change, state=state, reason=reason))

    def _show(self, replica: Replica, change: ReplicaChanged) -> Iterator[Event]:
        """Yield a change unless nothing is new; before a new incarnation, yield the end of the one before."""
        old = self._shown.get(replica)
        if old and msgspec.structs.replace(old, at=change.at) == change:
            return
        if old and old.state is ReplicaState.RUNNING and change.restarts > old.restarts:
            yield msgspec.structs.replace(old, at=change.at, state=ReplicaState.FAILED)
        self.restarts += change.restarts - (old.restarts if old else 0)
        self._shown[replica] = change
        yield change

    def dismissed(self, now: float, *, running: bool = True) -> Iterator[Event]:
        """Yield the stop of each replica that still runs after the end of its job: the operator ends it later.

        Some operators end replicas before they report the end of the job; such an end looked like a failure. A replica
        whose disruption failed the job, and which is still terminating, has failed. A replica that was never seen has
        the state that an earlier launcher noted, or is unknown if the first look found an ended job without pods.

        Args:
            now: Seconds since the epoch.
            running: Also of those whose pods still run.
        """
        unexplained, cause = running and self.unexplained, self._cause()
        noted = noted_states(self.item, self._replicas)
        looked_late = not self._last_state and not self.stopping and not any(self._uids.values())
        unseen = ReplicaState.UNKNOWN if looked_late else ReplicaState.STOPPED
        ends = {end.replica: end for end in self._kind.replica_ends(self.item, self._replicas)} if self.final else {}
        for replica, uids in self._uids.items():
            end = ends.get(replica)
            if end and (not uids or (end.uid == uids[-1] and self._shown[replica].exit_code is None)):
                yield from self._show(replica, end.change(now))
                continue
            change = self._shown.get(replica) or ReplicaChanged(at=now, replica=replica, state=ReplicaState.PENDING)
            stopped = msgspec.structs.replace(change, at=now, state=ReplicaState.STOPPED, reason="")
            taken = self.pods.get(uids[-1]) if unexplained and uids else None
            if taken and taken.deleting and taken.reason:
                yield from self._show(replica, msgspec.structs.replace(change, at=now, state=ReplicaState.FAILED))
            elif change.state is ReplicaState.FAILED and self._was_in_the_way(replica, cause):
                yield from self._show(replica, msgspec.structs.replace(stopped, at=change.at))
            elif not uids:
                yield from self._show(replica, msgspec.structs.replace(stopped, state=noted.get(replica, unseen)))
            elif running and change.state not in {*_ENDED, ReplicaState.STOPPED}:
                yield from self._show(replica, stopped)

    @property
    def replica_states(self) -> dict[Replica, ReplicaState]:
        """The last reported state of each replica."""
        return {replica: change.state for replica, change in self._shown.items()}

    def _cause(self) -> Replica | None:
        return (self.final.replica or self._culprit()) if self.final and self.final.state is State.FAILED else None

    def _was_in_the_way(self, replica: Replica, cause: Replica | None) -> bool:
        """Tell whether the operator ended a replica because the job was over: its failure is not the cause."""
        over = self.final is not None and self.final.state in (State.SUCCEEDED, State.FAILED)
        return over and replica != cause and not self._ended_from_outside.isdisjoint(self._uids[replica][-1:])

    @property
    def unexplained(self) -> bool:
        """Whether the job has failed, no replica has, and a pod that is being deleted may be the cause.

        The training operator counts a pod that is being deleted as failed while it still runs, and an eviction may
        give it long [source: training-operator 1.8.1, `pkg/core/status.go`].
        """
        if self.final is None or self.final.state is not State.FAILED or self._culprit():
            return False
        return any(seen.deleting and not seen.ended for seen in self.pods.values())

    # --- both

    def state(self, now: float) -> Iterator[Event]:
        """Yield the job's state if it changed; nothing before the job object was seen. `final` has its end."""
        if self.final or not self._seen:
            return
        state, reason, message = self._state(now)
        if (state, reason, message) != self._last_state:
            self._last_state = (state, reason, message)
            yield JobChanged(at=now, state=state, reason=reason, message=message)

    def _state(self, now: float) -> tuple[State, str, str]:
        verdict = self._verdict
        if self.complaint and self.is_short():
            return self._before_running(), self.complaint.reason, self.complaint.message
        if verdict.state not in (State.PENDING, State.RUNNING, State.RESTARTING):
            return verdict.state, verdict.reason, verdict.message
        if verdict.state is not State.RESTARTING and self._have_started():
            return (State.RUNNING, *((verdict.reason, verdict.message) if verdict.state is State.RUNNING else ("", "")))
        stuck = [
            (r, p)
            for p in self.pods.values()
            if p.reason and p.state is ReplicaState.PENDING
            for r in [self._replica_of[p.uid]]
        ]
        if stuck:
            replica, seen = min(stuck, key=lambda pair: (echo(pair[1].message), pair[0]))
            return self._before_running(), seen.reason, f"{replica}: {seen.message or seen.reason}"
        if not self.pods and verdict.reason == "" and now - self._created > _UNSEEN_SECONDS:
            message = f"No controller has looked at the job for {_UNSEEN_SECONDS:.0f} s. Is the operator running?"
            return State.UNKNOWN, "NotReconciled", message
        restarting = verdict.state is State.RESTARTING
        return (self._before_running(), *((verdict.reason, verdict.message) if restarting else ("", "")))

    def is_short(self) -> bool:
        """Tell whether replicas have no pod although the job is neither suspended nor queued."""
        if self.final or self.stopping or self._verdict.state in {*_HELD, State.UNKNOWN}:
            return False
        there = {self._replica_of[uid] for uid in self.pods}
        ended = {replica for replica, change in self._shown.items() if change.state is ReplicaState.SUCCEEDED}
        return not there | ended >= set(self._replicas)

    def _have_started(self) -> bool:
        """Tell whether all replicas have started; only replicas with new events are checked, for speed."""
        for replica in self._news:
            (self._unstarted.discard if self._has_started(replica) else self._unstarted.add)(replica)
        self._news.clear()
        return not self._unstarted

    def _has_started(self, replica: Replica) -> bool:
        """Tell whether a replica runs or has run; for a failed one, the job object decides what follows."""
        state = self._shown[replica].state if replica in self._shown else None
        return state in _STARTED or (state is ReplicaState.FAILED and self._uids[replica][-1] in self.pods)

    def _before_running(self) -> State:
        running = self._last_state is not None and self._last_state[0] in (State.RUNNING, State.RESTARTING)
        return State.RESTARTING if running or self._verdict.state is State.RESTARTING else State.PENDING

"""From what the platform and the ranks' agents say to the events of a job. Holds no connection."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.systems.base import Event, JobChanged, Replica, ReplicaChanged, ReplicaState, State
from tfsteps.systems.hai.verdict import verdict
from tfsteps.systems.kubernetes.kind import Verdict

_UP = {ReplicaState.PENDING, ReplicaState.RUNNING}
_STARTED = {ReplicaState.RUNNING, ReplicaState.SUCCEEDED, ReplicaState.STOPPED, ReplicaState.FAILED}
_HELD = {State.QUEUED, State.SUSPENDED, State.RESTARTING}


class _Rank(msgspec.Struct):
    """What is known of one rank.

    Attributes:
        shown: What was said of it last; None = nothing yet.
        starts: How often its program was started since HAI gave it its present node.
        restarts: How often it was started again where nobody took its node.
        incarnation: Which of its incarnations runs, or ran last, from 0, on whichever node; -1 = none has run.
        place: Its pod, or node.
    """

    shown: ReplicaChanged | None = None
    starts: int = 0
    restarts: int = 0
    incarnation: int = -1
    place: str = ""


class Tracker:
    """Follows one chain.

    Attributes:
        stopping: What to say when the chain is stopped because we wanted that; None while we do not.
        final: The end of the job, once it is known.
    """

    def __init__(self, replicas: Sequence[Replica]) -> None:
        """Begin with nothing known. `replicas` is who is which rank."""
        self.stopping: Verdict | None = None
        self.final: JobChanged | None = None
        self._ranks = {replica: _Rank() for replica in replicas}
        self._by_name = {str(replica): replica for replica in replicas}
        self._verdict = Verdict(State.UNKNOWN)
        self._said: Verdict | None = None
        self._ran = False  # all replicas ran at once
        self._again = ""  # why programs are being started again
        self._failed: Mapping[str, Any] | None = None  # what ended the job, as the agents tell

    # --- the task

    def task(self, task: Mapping[str, Any] | None, now: float) -> Iterator[Event]:
        """Yield what follows from the newest task of the chain; None = there is no such chain any more."""
        if task is None:
            self._end(self.stopping or Verdict(State.LOST, "Deleted", "HAI knows no such task any more."), now)
            return
        self._places(task)
        self._verdict = verdict(task)
        if self.stopping and self._verdict.state is State.SUSPENDED:
            self._verdict = self.stopping
        if self._verdict.state in _HELD:
            for replica in self._ranks:
                yield from self._withdrawn(replica, now)
        if self._verdict.state.terminal:
            self._end(self._verdict, now, task)
        yield from self.state(now)

    def give_up(self, verdict: Verdict, now: float) -> None:
        """End with `verdict`, whatever is heard later."""
        self._end(verdict, now)

    def _end(self, found: Verdict, now: float, task: Mapping[str, Any] | None = None) -> None:
        if self.final:
            return
        if self.stopping and found.state is State.CANCELLED:
            found = self.stopping
        culprit = self._culprit(task) if found.state is State.FAILED else None
        self.final = JobChanged(at=now, state=found.state, reason=found.reason, message=found.message, replica=culprit)

    def last(self) -> JobChanged:
        """Return the end of the job, as the agents explain it, whose last words are read after it."""
        assert self.final
        if self._failed is None or self.final.reason != "ReplicaFailed":
            return self.final
        said = self._failed
        return msgspec.structs.replace(
            self.final,
            reason=str(said.get("reason", "")),
            message=str(said.get("message", "")),
            replica=self._by_name.get(str(said.get("replica")), self.final.replica),
        )

    def _culprit(self, task: Mapping[str, Any] | None) -> Replica | None:
        """Return whose pod failed; None if none did."""
        ranks = list(self._ranks)
        for pod in (task or {}).get("_pods_") or []:
            if str(pod.get("status", "")).startswith("failed"):
                return ranks[int(pod["job_id"])]
        return None

    def _places(self, task: Mapping[str, Any]) -> None:
        ranks = list(self._ranks.values())
        for pod in task.get("_pods_") or []:
            rank = int(pod.get("job_id", -1))
            if 0 <= rank < len(ranks) and pod.get("node"):
                ranks[rank].place = f"{pod.get('pod_id')} on {pod['node']}"

    # --- the ranks

    def told(self, replica: Replica, what: Mapping[str, Any], now: float) -> Iterator[Event]:
        """Yield what follows from the words of a rank's agent."""
        rank = self._ranks[replica]
        match what.get("event"):
            case "begun":
                yield from self._withdrawn(replica, now)
                rank.starts = 0
                rank.place = rank.place or str(what.get("host", ""))
                yield from self._show(replica, ReplicaState.PENDING, now)
            case "started":
                rank.restarts += rank.starts > 0
                rank.starts += 1
                rank.incarnation += 1
                yield from self._show(replica, ReplicaState.RUNNING, now)
            case "ended":
                code = int(what.get("code", 0))
                state = ReplicaState.FAILED if code else ReplicaState.SUCCEEDED
                yield from self._show(replica, state, now, what)
            case "stopped":
                yield from self._show(replica, ReplicaState.STOPPED, now, what)
            case "again":
                self._again = str(what.get("why", ""))
            case "failed":
                self._failed = what
        yield from self.state(now)

    def ended(self, task: Mapping[str, Any] | None, now: float) -> Iterator[Event]:
        """Yield the end of each rank whose agent could not tell it: the platform's pods say how."""
        pods = {int(pod["job_id"]): pod for pod in (task or {}).get("_pods_") or [] if "job_id" in pod}
        for number, replica in enumerate(self._ranks):
            shown = self._ranks[replica].shown
            if shown is not None and shown.state not in _UP:
                continue
            pod = pods.get(number, {})
            code = str(pod.get("exit_code") or "")
            status = str(pod.get("status") or "")
            told = {"code": int(code)} if code.lstrip("-").isdigit() else {}
            if status.startswith("failed"):
                yield from self._show(replica, ReplicaState.FAILED, now, told)
            elif status.startswith("succeeded"):
                yield from self._show(replica, ReplicaState.SUCCEEDED, now, {"code": 0})
            elif shown is not None:
                yield from self._show(replica, ReplicaState.STOPPED, now)

    def incarnation(self, replica: Replica) -> int:
        """Return which incarnation of a replica prints what is read now."""
        return max(self._ranks[replica].incarnation, 0)

    def _withdrawn(self, replica: Replica, now: float) -> Iterator[Event]:
        """Yield that the platform took a rank's node away while its program was there."""
        shown = self._ranks[replica].shown
        if shown and shown.state in _UP:
            yield from self._show(replica, ReplicaState.STOPPED, now)

    def _show(
        self, replica: Replica, state: ReplicaState, now: float, told: Mapping[str, Any] | None = None
    ) -> Iterator[Event]:
        rank, told = self._ranks[replica], told or {}
        change = ReplicaChanged(
            at=now,
            replica=replica,
            state=state,
            restarts=rank.restarts,
            exit_code=told.get("code"),
            place=rank.place,
            cpu_seconds=told.get("cpu"),
            memory_bytes=told.get("memory"),
            incarnation=max(rank.incarnation, 0),
        )
        if rank.shown is None or msgspec.structs.replace(rank.shown, at=now) != change:
            rank.shown = change
            yield change

    # --- both

    def state(self, now: float) -> Iterator[Event]:
        """Yield the job's state if it is another one now. Its end is not said here, but in `final`."""
        if self.final:
            return
        found = self._state()
        if found != self._said:
            self._said = found
            yield JobChanged(at=now, state=found.state, reason=found.reason, message=found.message)

    def _state(self) -> Verdict:
        if self._verdict.state not in (State.PENDING, State.RUNNING):
            self._again = ""
            return self._verdict
        states = [rank.shown.state if rank.shown and rank.starts else None for rank in self._ranks.values()]
        if self._again and ReplicaState.FAILED not in states and ReplicaState.STOPPED not in states:
            self._again = ""
        if self._again:
            return Verdict(State.RESTARTING, "ReplicaFailed", self._again)
        if all(state in _STARTED for state in states):
            self._ran = True
            return Verdict(State.RUNNING)
        return Verdict(State.RESTARTING if self._ran else State.PENDING, self._verdict.reason, self._verdict.message)

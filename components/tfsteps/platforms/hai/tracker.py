"""Turns answers of the platform and reports of the ranks' agents into the events of a job. Has no connection."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.platforms.hai.verdict import requeued, verdict
from tfsteps.runs.events import Event, JobChanged, ReplicaChanged, ReplicaName, ReplicaState, State, Verdict

_UP = {ReplicaState.PENDING, ReplicaState.RUNNING}
_STARTED = {ReplicaState.RUNNING, ReplicaState.SUCCEEDED, ReplicaState.STOPPED, ReplicaState.FAILED}
_BY_A_RANK = {"ReplicaFailed", "InitFailed"}  # ends that a rank's agent may explain


class _Rank(msgspec.Struct):
    """The state of one rank.

    Attributes:
        shown: Its last reported change; None = nothing yet.
        starts: Number of starts of its program on its present node.
        restarts: Number of restarts on the same node.
        incarnation: Which of its incarnations runs, or ran last, from 0, on whichever node; -1 = none has run.
        place: Its pod, or node.
        task: Id of the task of the chain whose log is being read; empty = its agent has not reported yet.
    """

    shown: ReplicaChanged | None = None
    starts: int = 0
    restarts: int = 0
    incarnation: int = -1
    place: str = ""
    task: str = ""


class ChainTracker:
    """Follows one chain.

    Attributes:
        replicas: The replicas of its ranks, in order.
        final: The end of the job, once it is known.
    """

    def __init__(self, replicas: Sequence[ReplicaName]) -> None:
        """Start without a known state. `replicas` are the replicas of the ranks, in order."""
        self._stopping: Verdict | None = None  # for a chain that tfsteps stopped; None = it did not
        self.replicas = list(replicas)
        self.final: JobChanged | None = None
        self._ranks = {replica: _Rank() for replica in replicas}
        self._by_name = {str(replica): replica for replica in replicas}
        self._verdict = Verdict(State.UNKNOWN)
        self._last_state: Verdict | None = None
        self._outdated = False  # whether the last state was reported as not known to be true any more
        self._ran = False  # whether all replicas ran at once
        self._again = ""  # why programs are being restarted
        self._why = Verdict(State.PENDING)  # why HAI queued the chain again, until all programs run
        self._newest = ""  # id of the newest task of the chain
        self._earlier: set[str] = set()  # ids of those before it
        self._failed: tuple[str, Mapping[str, Any]] | None = None  # the task, and the agents' report of the failure

    # --- the task

    def task(self, task: Mapping[str, Any] | None, now: float) -> Iterator[Event]:
        """Yield what follows from the newest task of the chain; None = the chain is gone."""
        if task is None:
            self._end(self._stopping or Verdict(State.LOST, "Deleted", "The task no longer exists on HAI."), now)
            return
        yield from self._chain(task, now)
        self._places(task)
        self._verdict = verdict(task)
        if self._stopping and self._verdict.state is State.SUSPENDED:
            self._verdict = self._stopping
        if self._verdict.state is State.SUSPENDED:
            for replica in self._ranks:
                yield from self._withdrawn(replica, now)
        if self._verdict.state.terminal:
            self._end(self._verdict, now, task)
        yield from self.state(now)

    def _chain(self, task: Mapping[str, Any], now: float) -> Iterator[Event]:
        """Yield that HAI has queued the chain again since the last check, even if it already runs again."""
        ids = [str(number) for number in task.get("id_list") or [task.get("id", "")]]
        before, self._newest, self._earlier = self._newest, ids[-1], set(ids[:-1])
        if before in ("", self._newest):
            return
        self._verdict = self._why = requeued(task)
        self._again = ""
        for replica, rank in self._ranks.items():
            if rank.task != self._newest:  # else its agent was read before the task
                yield from self._withdrawn(replica, now)
                rank.place = ""
                yield from self._show(replica, ReplicaState.PENDING, now) if rank.shown else ()
        yield from self.state(now)

    def stop(self, verdict: Verdict) -> None:
        """Take `verdict` for the end of a chain that is gone, stopped or suspended from now on."""
        self._stopping = verdict

    def give_up(self, verdict: Verdict, now: float) -> None:
        self._end(verdict, now)

    def _end(self, end: Verdict, now: float, task: Mapping[str, Any] | None = None) -> None:
        if self.final:
            return
        if self._stopping and end.state in (State.CANCELLED, State.LOST):
            end = self._stopping
        failed_replica = self._first_failed(task) if end.reason in _BY_A_RANK else None
        self.final = JobChanged(at=now, state=end.state, reason=end.reason, message=end.message, replica=failed_replica)

    def last(self) -> JobChanged:
        """Return the end of the job with the explanation of the agents, whose last reports are read after it."""
        assert self.final
        if self.final.reason not in _BY_A_RANK:
            return self.final
        if self._failed and self._failed[0] not in self._earlier:
            report = self._failed[1]
            reason, message = str(report.get("reason", "")), str(report.get("message", ""))
            failed = self._by_name.get(str(report.get("replica")), self.final.replica)
            return msgspec.structs.replace(self.final, reason=reason, message=message, replica=failed)
        for rank in self._ranks.values() if self.final.reason == "InitFailed" else ():
            if rank.shown and rank.shown.state is ReplicaState.FAILED:
                message = f"{rank.shown.replica} ended with exit code {rank.shown.exit_code}."
                return msgspec.structs.replace(
                    self.final, reason="ReplicaFailed", message=message, replica=rank.shown.replica
                )
        return self.final

    def _first_failed(self, task: Mapping[str, Any] | None) -> ReplicaName | None:
        """Return the replica whose pod failed; None = none, or several, of which HAI does not say which was the first.

        HAI also marks pods without an exit code as failed: one that has a code comes before them.
        """
        ranks = list(self._ranks)
        pods = [pod for pod in (task or {}).get("_pods_") or [] if str(pod.get("status", "")).startswith("failed")]
        pods = [pod for pod in pods if _exit_code(pod)] or pods
        return ranks[int(pods[0]["job_id"])] if len(pods) == 1 else None

    def _places(self, task: Mapping[str, Any]) -> None:
        ranks = list(self._ranks.values())
        for pod in task.get("_pods_") or []:
            rank = int(pod.get("job_id", -1))
            of_newest = str(pod.get("task_id", self._newest)) == self._newest
            if 0 <= rank < len(ranks) and pod.get("node") and of_newest:
                ranks[rank].place = f"{pod.get('pod_id')} on {pod['node']}"

    # --- the ranks

    def report(self, replica: ReplicaName, what: Mapping[str, Any], now: float) -> Iterator[Event]:
        """Yield what follows from a report of a rank's agent. Those of earlier tasks of the chain change no state."""
        rank, event = self._ranks[replica], what.get("event")
        if event == "begun":
            rank.task, rank.starts = str(what.get("id", "")), 0
        elif event == "started":
            rank.restarts += rank.starts > 0
            rank.starts += 1
            rank.incarnation += 1
        if rank.task not in self._earlier:
            yield from self._reported(replica, what, now)
            yield from self.state(now)

    def _reported(self, replica: ReplicaName, what: Mapping[str, Any], now: float) -> Iterator[Event]:
        rank = self._ranks[replica]
        match what.get("event"):
            case "begun":
                if rank.shown and rank.shown.state is ReplicaState.RUNNING:
                    yield from self._withdrawn(replica, now)
                rank.place = rank.place or str(what.get("host", ""))
                yield from self._show(replica, ReplicaState.PENDING, now)
            case "started":
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
                self._failed = rank.task, what

    def overwritten(self, replica: ReplicaName, task: str, now: float) -> Iterator[Event]:
        """Yield that a program runs whose start cannot be read: HAI overwrote it with later output of this task."""
        rank = self._ranks[replica]
        if task == self._newest and rank.task != task and self._verdict.state is State.RUNNING:
            rank.task, rank.starts = task, 1
            rank.incarnation += 1
            yield from self._show(replica, ReplicaState.RUNNING, now)
            yield from self.state(now)

    def ended(self, task: Mapping[str, Any] | None, now: float) -> Iterator[Event]:
        """Yield the end of each rank whose agent could not report it, by the platform's pods."""
        pods = {int(pod["job_id"]): pod for pod in (task or {}).get("_pods_") or [] if "job_id" in pod}
        for number, replica in enumerate(self._ranks):
            shown = self._ranks[replica].shown
            if shown is not None and shown.state not in _UP:
                continue
            pod = pods.get(number, {})
            code, status = _exit_code(pod), str(pod.get("status") or "")
            reason = self.final.reason if code is None and self.final else ""
            if status.startswith("failed") and reason in ("", "ReplicaFailed"):
                yield from self._show(replica, ReplicaState.FAILED, now, {} if code is None else {"code": code})
            elif status.startswith("succeeded") and reason != "MarkedSucceeded":
                yield from self._show(replica, ReplicaState.SUCCEEDED, now, {"code": 0})
            else:
                yield from self._show(replica, ReplicaState.STOPPED, now)

    def incarnation(self, replica: ReplicaName) -> int:
        """Return the incarnation of a replica whose output is read now."""
        return max(self._ranks[replica].incarnation, 0)

    def _withdrawn(self, replica: ReplicaName, now: float) -> Iterator[Event]:
        """Yield that the platform took a rank's node away. A program that failed before did not end the job."""
        shown = self._ranks[replica].shown
        if shown and (shown.state in _UP or shown.state is ReplicaState.FAILED):
            known = {"code": shown.exit_code, "cpu": shown.cpu_seconds, "memory": shown.memory_bytes}
            yield from self._show(replica, ReplicaState.STOPPED, now, known)

    def _show(
        self, replica: ReplicaName, state: ReplicaState, now: float, report: Mapping[str, Any] | None = None
    ) -> Iterator[Event]:
        rank, report = self._ranks[replica], report or {}
        change = ReplicaChanged(
            at=now,
            replica=replica,
            state=state,
            restarts=rank.restarts,
            exit_code=report.get("code"),
            place=rank.place,
            cpu_seconds=report.get("cpu"),
            memory_bytes=report.get("memory"),
            started=now if state is ReplicaState.RUNNING else None,
            incarnation=max(rank.incarnation, 0),
        )
        if rank.shown is None or msgspec.structs.replace(rank.shown, at=now, started=change.started) != change:
            rank.shown = change
            yield change

    # --- both

    def unanswered(self, message: str, now: float) -> JobChanged:
        """Return the last known state with a message that it may be out of date. The next `state` is yielded again."""
        self._outdated = True
        state = self._last_state.state if self._last_state else State.UNKNOWN
        return JobChanged(at=now, state=state, reason="NotFollowed", message=message)

    def state(self, now: float) -> Iterator[Event]:
        """Yield the job's state if it changed; `final` has its end."""
        if self.final:
            return
        current = self._state()
        if self._outdated or current != self._last_state:
            self._last_state, self._outdated = current, False
            yield JobChanged(at=now, state=current.state, reason=current.reason, message=current.message)

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
            self._ran, self._why = True, Verdict(State.PENDING)
            return Verdict(State.RUNNING)
        why = self._verdict if self._verdict.reason else self._why
        return Verdict(State.RESTARTING if self._ran else State.PENDING, why.reason, why.message)


def _exit_code(pod: Mapping[str, Any]) -> int | None:
    """Return the exit code of a pod by the platform; None = none, for example if HAI marked it as ended."""
    text = str(pod.get("exit_code") or "")
    return int(text) if text.lstrip("-").isdigit() else None

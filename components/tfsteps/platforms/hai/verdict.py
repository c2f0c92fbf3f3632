"""The state of a job, from the newest task of its chain. Pure.

A chain of tasks is one job: after pre-emption or a restart it continues as a new task of the chain, and the old task is
`finished`. `chain_status` shows whether the job has ended; `worker_status` of the newest task then shows how.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from tfsteps.platforms.hai.schema import PAUSED, labels, paused_task
from tfsteps.runs.events import State, Verdict
from tfsteps.spec import format_duration

STOP, INTERRUPT, UNSCHEDULABLE, FAILED, INIT_FAILED, TIMEOUT = 1, 16, 32, 128, 256, 512
MANUAL_STOP, HOOK_RESTART, MANUAL_SUCCEEDED, MANUAL_FAILED = 1024, 2048, 4096, 8192
_REQUEUED = {  # bits of stop_code after which HAI queues a task again
    INTERRUPT: ("Interrupted", "HAI took the nodes away and queued the task again."),
    UNSCHEDULABLE: ("Unschedulable", "The pods did not start in time on their nodes; HAI has queued the task again."),
    HOOK_RESTART: ("HookRestart", "A hardware check failed; HAI has queued the task again."),
}
_REQUEUE = INTERRUPT | UNSCHEDULABLE | HOOK_RESTART
_ENDED_BY_STOP = MANUAL_STOP | _REQUEUE
_FAILED = {
    MANUAL_FAILED: ("MarkedFailed", "A user marked the task as failed on HAI."),
    TIMEOUT: ("Watchdog", "A rank printed nothing for as long as the platform's watchdog allows."),
    INIT_FAILED: ("InitFailed", "A pod ended before HAI's manager of the task had started, or could not be started."),
}
_NOT_STARTED = ("queued", "created", "building")
_STARTED = ("running", *(end + how for end in ("succeeded", "failed", "stopped") for how in ("", "_terminating")))
"""`worker_status` of a task of which pods have run: HAI ends the chain only when its manager is over, seconds later."""

_ROUNDS = 2  # after this many tasks in a row whose pods did not start, the image is the likely cause
_ROUNDING_SECONDS = 2.0  # HAI measures the timeout in whole seconds


def verdict(task: Mapping[str, Any]) -> Verdict:
    """Return the state of a task's chain."""
    match task.get("chain_status"):
        case "waiting_init":
            return Verdict(State.QUEUED)
        case "suspended":
            return requeued(task)
        case "running":
            return _scheduled(task)
        case "finished":
            return _finished(task)
        case other:
            return Verdict(State.UNKNOWN, "UnknownStatus", f"HAI says that the task is {other!r}.")


def requeued(task: Mapping[str, Any]) -> Verdict:
    """Return why a chain was queued again, from the end of the task before its newest one."""
    state = State.QUEUED if task.get("chain_status") == "suspended" else State.RESTARTING
    codes = [int(code) for code in task.get("stop_code_list") or []][:-1]
    for bit, (reason, message) in _REQUEUED.items():
        if codes and codes[-1] & bit:
            return Verdict(state, reason, _unschedulable(task, codes) if bit == UNSCHEDULABLE else message)
    return Verdict(state, "Resumed", "The task waits for nodes to continue.")


def _unschedulable(task: Mapping[str, Any], codes: list[int]) -> str:
    rounds = next((i for i, code in enumerate(reversed(codes)) if not code & UNSCHEDULABLE), len(codes))
    message = _REQUEUED[UNSCHEDULABLE][1]
    if rounds < _ROUNDS:
        return message
    image = _schema(task, "resource").get("image") or "of the task"
    hint = f"HAI also counts pods that are still being created: check that the nodes can pull the image {image}"
    return f"{message} This happened {rounds} times in a row. {hint}."


def _scheduled(task: Mapping[str, Any]) -> Verdict:
    if (status := task.get("worker_status")) in _STARTED:
        return Verdict(State.RUNNING)
    stuck = [pod for pod in task.get("_pods_") or [] if pod.get("status") == "unschedulable"]
    if stuck:
        return Verdict(State.PENDING, "Unschedulable", f"{stuck[0].get('pod_id')} does not fit on its node.")
    if status in _NOT_STARTED:
        return Verdict(State.PENDING)
    return Verdict(State.UNKNOWN, "UnknownStatus", f"HAI says that the pods are {status!r}.")


def _finished(task: Mapping[str, Any]) -> Verdict:
    """Return the end of a chain; a chain that `tfsteps pause` stopped is suspended."""
    ended = _ended(task)
    if _paused(task) and (ended.state is State.CANCELLED or task.get("worker_status") == "stopped"):
        return Verdict(State.SUSPENDED, "Paused", "`tfsteps resume` continues it.")
    return ended


def _paused(task: Mapping[str, Any]) -> bool:
    """Return whether tfsteps paused a chain, and nobody has resumed it since, for example in HAI's studio.

    HAI itself continues a chain only after the codes of `_REQUEUED`: after another end, a person did.
    """
    if PAUSED not in labels(task):
        return False
    columns = [task.get(f"{name}_list") or [] for name in ("id", "stop_code", "worker_status")]
    since = paused_task(task)
    earlier = [
        (int(code), status) for number, code, status in list(zip(*columns, strict=False))[:-1] if int(number) >= since
    ]
    return all(code & _REQUEUE and not code & MANUAL_STOP and status != "canceled" for code, status in earlier)


def _ended(task: Mapping[str, Any]) -> Verdict:
    code, status = int(task.get("stop_code") or 0), task.get("worker_status")
    match status:
        case "succeeded":
            manual = "A user marked the task as succeeded on HAI." if code & MANUAL_SUCCEEDED else ""
            return Verdict(State.SUCCEEDED, "MarkedSucceeded" if manual else "", manual)
        case "canceled":
            return Verdict(State.CANCELLED, "Stopped", "The task was stopped while it was queued.")
        case "failed":
            return _failed(code)
        case "stopped" if code & _ENDED_BY_STOP:
            return _stopped()
        case "stopped":
            return _ended_by_platform(task, code)
    return Verdict(State.LOST, "UnknownEnd", f"HAI reports that the task ended as {status!r} (stop code {code}).")


def _stopped() -> Verdict:
    return Verdict(State.CANCELLED, "Stopped", "The task was stopped on HAI.")


def _failed(code: int) -> Verdict:
    for bit, (reason, message) in _FAILED.items():
        if code & bit:
            return Verdict(State.FAILED, reason, message)
    if code & _REQUEUE or (code & MANUAL_STOP and not code & FAILED):  # HAI queues the former again unless stopped
        return _stopped()
    return Verdict(State.FAILED, "ReplicaFailed", "A rank failed, and HAI ended the task.")


def _ended_by_platform(task: Mapping[str, Any], code: int) -> Verdict:
    """Return the end of a task that no user stopped. Its stop code is `STOP` or 0."""
    if limit := _timed_out(task):
        source = "`systems.hai.timeout`, or `deadlines.total` without it"
        message = f"HAI ended the run: it reached its timeout of {format_duration(limit)} ({source})."
        return Verdict(State.FAILED, "DeadlineExceeded", message)
    if code & STOP:
        message = "A pod was deleted, or its node was drained or lost, and HAI ended the task; or the user is inactive."
        return Verdict(State.LOST, "PodDeleted", message)
    message = "HAI ended the task before it started: its manager could not be created, or the user is inactive."
    return Verdict(State.LOST, "StartFailed", message)


def _timed_out(task: Mapping[str, Any]) -> float:
    """Return the `timeout` of the newest task of a chain, in seconds, if it has run that long; else 0."""
    limit = float(_schema(task, "options").get("timeout") or 0)
    try:
        begin, end = (dt.datetime.fromisoformat(str(task.get(name))) for name in ("begin_at", "end_at"))
    except ValueError:
        return 0.0
    return limit if 0 < limit < (end - begin).total_seconds() + _ROUNDING_SECONDS else 0.0


def _schema(task: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """Return a part of the schema of a task; empty if the platform does not return it."""
    try:
        return dict(task["config_json"]["schema"][part])
    except (KeyError, TypeError, ValueError):
        return {}

"""What a task says about its job. Pure.

A chain is one job: pre-empted or restarted, it goes on as a new task of the same chain, and the old one is `finished`.
So `chain_status` says whether it has ended; only then `worker_status`, of the newest task, says how.
"""

from collections.abc import Mapping
from typing import Any

from tfsteps.systems.base import State
from tfsteps.systems.hai.schema import PAUSED, labels
from tfsteps.systems.kubernetes.kind import Verdict

INTERRUPT, UNSCHEDULABLE, FAILED, INIT_FAILED, TIMEOUT = 16, 32, 128, 256, 512
MANUAL_STOP, HOOK_RESTART, MANUAL_SUCCEEDED, MANUAL_FAILED = 1024, 2048, 4096, 8192
_AGAIN = {  # bits of stop_code that queue a task again, and what they mean
    INTERRUPT: ("Interrupted", "HAI took the nodes away, and has queued the task again."),
    UNSCHEDULABLE: ("Unschedulable", "The pods found no place on their nodes; HAI has queued the task again."),
    HOOK_RESTART: ("HookRestart", "A check of the hardware failed; HAI has queued the task again."),
}
_FAILED = {
    MANUAL_FAILED: ("MarkedFailed", "Somebody marked the task as failed on HAI."),
    TIMEOUT: ("Watchdog", "A rank printed nothing for as long as the platform's watchdog allows."),
    INIT_FAILED: ("InitFailed", "The platform could not start the pods."),
}
_RUNNING = ("running", "succeeded")


def verdict(task: Mapping[str, Any]) -> Verdict:
    """Return where a task's chain stands."""
    match task.get("chain_status"):
        case "waiting_init":
            return Verdict(State.QUEUED)
        case "suspended":
            return _queued_again(task)
        case "running":
            return _scheduled(task)
        case "finished" if PAUSED in labels(task) and task.get("worker_status") in ("stopped", "canceled"):
            return Verdict(State.SUSPENDED, "Paused", "`tfsteps resume` lets it go on.")
        case "finished":
            return _finished(task)
        case other:
            return Verdict(State.UNKNOWN, "UnknownStatus", f"HAI says that the task is {other!r}.")


def _queued_again(task: Mapping[str, Any]) -> Verdict:
    codes = task.get("stop_code_list") or []
    last = int(codes[-2]) if len(codes) > 1 else 0  # the last one is of the task that waits
    for bit, (reason, message) in _AGAIN.items():
        if last & bit:
            return Verdict(State.RESTARTING, reason, message)
    return Verdict(State.RESTARTING, "Resumed", "The task waits for nodes to go on.")


def _scheduled(task: Mapping[str, Any]) -> Verdict:
    if task.get("worker_status") in _RUNNING:
        return Verdict(State.RUNNING)
    stuck = [pod for pod in task.get("_pods_") or [] if pod.get("status") == "unschedulable"]
    if stuck:
        return Verdict(State.PENDING, "Unschedulable", f"{stuck[0].get('pod_id')} finds no place on its node.")
    return Verdict(State.PENDING)


def _finished(task: Mapping[str, Any]) -> Verdict:
    code, status = int(task.get("stop_code") or 0), task.get("worker_status")
    match status:
        case "succeeded":
            manual = "Somebody marked the task as succeeded on HAI." if code & MANUAL_SUCCEEDED else ""
            return Verdict(State.SUCCEEDED, "MarkedSucceeded" if manual else "", manual)
        case "failed":
            return _failed(code)
        case "canceled":
            return Verdict(State.CANCELLED, "Stopped", "Somebody stopped the task while it was queued.")
        case "stopped" if code & (MANUAL_STOP | INTERRUPT):
            return Verdict(State.CANCELLED, "Stopped", "Somebody stopped the task on HAI.")
        case "stopped":  # STOP alone is also the code of a normal end
            return Verdict(State.FAILED, "Timeout", "HAI ended the run: its `timeout` had passed.")
    return Verdict(State.FAILED, "UnknownEnd", f"HAI says that the task ended as {status!r} (stop code {code}).")


def _failed(code: int) -> Verdict:
    for bit, (reason, message) in _FAILED.items():
        if code & bit:
            return Verdict(State.FAILED, reason, message)
    return Verdict(State.FAILED, "ReplicaFailed", "A rank failed, and HAI ended the task.")

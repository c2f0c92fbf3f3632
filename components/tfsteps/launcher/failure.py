"""Why a job failed, from its status and the last lines of its replicas."""

from collections.abc import Callable, Sequence
from typing import Literal

from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.status import FailureSummary, Incarnation, ReplicaStatus, Status
from tfsteps.spec import format_bytes
from tfsteps.text.tracebacks import raised

_WIDTH = 300  # characters of an exception
_MEANINGS = {
    1: "the program raised an error",
    2: "wrong usage of the program, or its file is missing",
    126: "the command cannot be executed",
    127: "the command was not found",
    134: "aborted (SIGABRT)",
    135: "bus error (SIGBUS): often /dev/shm or the disk is full",
    137: "killed (SIGKILL): by somebody, or by the kernel for lack of memory",
    139: "crashed (SIGSEGV)",
    143: "ended (SIGTERM) by somebody",
}
_TAKEN = {
    "Evicted",
    "Preempting",
    "PreemptionByKubeScheduler",
    "Shutdown",
    "NodeShutdown",
    "EvictionByEvictionAPI",
    "NodeLost",
    "PodDeleted",
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "DeletionByPodGC",
    "TerminationByKubelet",
}
_NOT_BY_A_REPLICA = {"DeadlineExceeded", "Watchdog", "MarkedFailed", "Deleted", "PartDeleted"}
"""Reasons of a failed job whose cause is not the end of a replica, even if a replica failed before."""

_KILLED = (137, 143)
_PLATFORM = {"PeerLost", "PortTaken", "StartFailed", *_TAKEN}


def failure_summary(
    status: Status, last_lines: Callable[[str, int], Sequence[str]], blamed: str = ""
) -> FailureSummary:
    """Return why the job of `status` failed.

    Args:
        status: Of the ended job.
        last_lines: Returns the last lines of a replica, or of its other container (`worker-1/init-data`), by that name
            and the number of the incarnation, from 0.
        blamed: Name of the replica that the job system blames; empty = the one that failed first.
    """
    failed = _failed_replica(status, blamed)
    incarnation = _failed_incarnation(failed) if failed else None
    if failed is None or incarnation is None:
        replica = "" if status.reason == "DeadlineExceeded" else blamed
        summary = status.message or f"The job is {status.state}."
        return FailureSummary(summary=summary, replica=replica, fault=_fault(status, None))
    source = f"{failed.name}/{incarnation.container}" if incarnation.container else failed.name
    error = raised(last_lines(source, incarnation.number))
    meaning = _meaning(incarnation)
    exception = error.exception[:_WIDTH]
    detail = exception or meaning
    where = f" at {error.frame}" if error.frame else ""
    again = f" after {failed.restarts} restart{'s' * (failed.restarts != 1)}" if failed.restarts else ""
    code = f" with exit code {incarnation.exit_code}" if incarnation.exit_code is not None else ""
    whose = f"{failed.name}'s container {incarnation.container}" if incarnation.container else failed.name
    failure = f"{whose} failed{code}{again}: {detail}{where}."
    lost = status.state is State.LOST and incarnation.reason not in _TAKEN
    before = status.message and (lost or status.reason in _NOT_BY_A_REPLICA)
    return FailureSummary(
        summary=f"{status.message.rstrip('.')}. Before that, {failure}" if before else failure,
        replica=failed.name,
        exit_code=incarnation.exit_code,
        meaning=meaning,
        exception=exception,
        frame=error.frame,
        tail=error.excerpt,
        fault=_fault(status, incarnation),
    )


def _failed_replica(status: Status, blamed: str) -> ReplicaStatus | None:
    """Return the replica that is blamed, else the first that failed; None = none did, or a deadline killed them."""
    past_deadline = status.reason == "DeadlineExceeded"
    failed = [
        (incarnation.ended or 0.0, replica)
        for replica in [replica for replica in status.replicas if replica.name == blamed] or status.replicas
        if (incarnation := _failed_incarnation(replica)) and not (past_deadline and _killed(incarnation))
    ]
    return min(failed, key=lambda pair: pair[0])[1] if failed else None


def _failed_incarnation(replica: ReplicaStatus) -> Incarnation | None:
    return next(
        (incarnation for incarnation in reversed(replica.incarnations) if incarnation.state is ReplicaState.FAILED),
        None,
    )


def _meaning(incarnation: Incarnation) -> str:
    if incarnation.reason == "OOMKilled":
        peak = f" (peak {format_bytes(incarnation.memory_bytes)})" if incarnation.memory_bytes else ""
        return f"killed for using more than its memory limit{peak}"
    if incarnation.reason in _TAKEN:
        return f"its pod was taken away ({incarnation.reason})"
    code = incarnation.exit_code
    if code is None:
        return "its exit code is not known"
    return _MEANINGS.get(code, f"ended by signal {code - 128}" if code > 128 else "the program ended with an error")


def _killed(incarnation: Incarnation) -> bool:
    """Tell whether a signal from outside of the container ended it."""
    return incarnation.exit_code in _KILLED and incarnation.reason != "OOMKilled"


def _fault(status: Status, incarnation: Incarnation | None) -> Literal["user", "platform"]:
    reasons = {status.reason, incarnation.reason if incarnation else ""}
    killed = incarnation is not None and _killed(incarnation)
    lost = status.state is State.LOST
    return "platform" if lost or killed or reasons & _PLATFORM else "user"


def taken_away(status: Status) -> bool:
    """Return whether the platform removed the replica that the failure summary names, for example by eviction."""
    replica = next((r for r in status.replicas if status.failure and r.name == status.failure.replica), None)
    incarnation = _failed_incarnation(replica) if replica else None
    return incarnation is not None and incarnation.reason in _TAKEN

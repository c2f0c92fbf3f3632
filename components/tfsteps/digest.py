"""Why a job failed, from its status and the last lines of its replicas."""

from collections.abc import Callable, Sequence
from typing import Literal

from tfsteps.records import Digest, ReplicaStatus, Span, Status
from tfsteps.spec import format_bytes
from tfsteps.systems.base import ReplicaState, State
from tfsteps.tracebacks import raised

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
_NOT_BY_A_REPLICA = {"DeadlineExceeded", "Timeout", "Watchdog", "MarkedFailed"}
"""Reasons of a job that failed for something else than the end of a replica, which may have failed before."""

_PLATFORM = {"PeerLost", "PortTaken", "StartFailed", *_TAKEN}


def digest(status: Status, last_lines: Callable[[str, int], Sequence[str]], blamed: str = "") -> Digest:
    """Return why the job of `status` failed.

    Args:
        status: Of the ended job.
        last_lines: Returns the last lines of a replica, or of its other container (`worker-1/init-data`), by that name
            and the number of the incarnation, from 0.
        blamed: Name of the replica that the job system blames; empty = the one that failed first.
    """
    found = next((r for r in status.replicas if r.name == blamed), None) or _first_failed(status.replicas)
    span = _failed_span(found) if found else None
    if found is None or span is None:
        return Digest(
            summary=status.message or f"The job is {status.state}.", replica=blamed, fault=_fault(status, None)
        )
    source = f"{found.name}/{span.container}" if span.container else found.name
    error = raised(last_lines(source, span.incarnation))
    meaning = _meaning(span)
    exception = error.exception[:_WIDTH]
    detail = exception or meaning
    where = f" at {error.frame}" if error.frame else ""
    again = f" after {found.restarts} restart{'s' * (found.restarts != 1)}" if found.restarts else ""
    code = f" with exit code {span.exit_code}" if span.exit_code is not None else ""
    whose = f"{found.name}'s container {span.container}" if span.container else found.name
    failure = f"{whose} failed{code}{again}: {detail}{where}."
    lost = status.state is State.LOST and span.reason not in _TAKEN
    before = status.message and (lost or status.reason in _NOT_BY_A_REPLICA)
    return Digest(
        summary=f"{status.message} Before that, {failure}" if before else failure,
        replica=found.name,
        exit_code=span.exit_code,
        meaning=meaning,
        exception=exception,
        frame=error.frame,
        tail=error.excerpt,
        fault=_fault(status, span),
    )


def _first_failed(replicas: Sequence[ReplicaStatus]) -> ReplicaStatus | None:
    failed = [(span.ended or 0.0, replica) for replica in replicas if (span := _failed_span(replica))]
    return min(failed, key=lambda pair: pair[0])[1] if failed else None


def _failed_span(replica: ReplicaStatus) -> Span | None:
    return next((span for span in reversed(replica.spans) if span.state is ReplicaState.FAILED), None)


def _meaning(span: Span) -> str:
    if span.reason == "OOMKilled":
        peak = f" (peak {format_bytes(span.memory_bytes)})" if span.memory_bytes else ""
        return f"killed for using more than its memory limit{peak}"
    if span.reason in _TAKEN:
        return f"its pod was taken away ({span.reason})"
    code = span.exit_code
    if code is None:
        return "its exit code is not known"
    return _MEANINGS.get(code, f"ended by signal {code - 128}" if code > 128 else "the program ended with an error")


def _fault(status: Status, span: Span | None) -> Literal["user", "platform"]:
    reasons = {status.reason, span.reason if span else ""}
    killed = span is not None and span.exit_code in (137, 143) and span.reason != "OOMKilled"
    lost = status.state is State.LOST
    return "platform" if lost or killed or reasons & _PLATFORM else "user"


def taken_away(status: Status) -> bool:
    """Tell whether the platform took away the replica that a failed job's digest blames: by eviction, say."""
    replica = next((r for r in status.replicas if status.digest and r.name == status.digest.replica), None)
    span = _failed_span(replica) if replica else None
    return span is not None and span.reason in _TAKEN

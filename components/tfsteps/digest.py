"""Why a job failed, from its status and the last lines of its replicas."""

import re
from collections.abc import Mapping, Sequence

from tfsteps.records import Digest, ReplicaStatus, Span, Status
from tfsteps.spec import format_bytes
from tfsteps.systems.base import ReplicaState

_TAIL = 20
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
    "EvictionByEvictionAPI",
    "NodeLost",
    "PodDeleted",
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "DeletionByPodGC",
    "TerminationByKubelet",
}
_INFRASTRUCTURE = {"PeerLost", "PortTaken", "StartFailed", *_TAKEN}
_FRAME = re.compile(r'^\s+File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>.+)$')
_LIBRARY = ("site-packages", "dist-packages", "/lib/python", "<frozen")


def digest(status: Status, tails: Mapping[str, Sequence[str]], blamed: str = "") -> Digest:
    """Return why the job of `status` failed.

    Args:
        status: Of the ended job.
        tails: The last lines of each replica, by name.
        blamed: Name of the replica that the job system blames; empty = the one that failed first.
    """
    found = next((r for r in status.replicas if r.name == blamed), None) or _first_failed(status.replicas)
    span = _failed_span(found) if found else None
    if found is None or span is None:
        return Digest(
            summary=status.message or f"The job is {status.state}.", replica=blamed, retryable=_blame(status, None)
        )
    tail = list(tails.get(found.name, []))
    exception, frame = _traceback(tail)
    meaning = _meaning(span)
    detail = exception or meaning
    where = f" at {frame}" if frame else ""
    again = f" after {found.restarts} restart{'s' * (found.restarts != 1)}" if found.restarts else ""
    code = f" with exit code {span.exit_code}" if span.exit_code is not None else ""
    failure = f"{found.name} failed{code}{again}: {detail}{where}."
    return Digest(
        summary=f"{status.message} Before that, {failure}" if status.reason == "DeadlineExceeded" else failure,
        replica=found.name,
        exit_code=span.exit_code,
        meaning=meaning,
        exception=exception,
        frame=frame,
        tail=tail[-_TAIL:],
        retryable=_blame(status, span),
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


def _traceback(lines: Sequence[str]) -> tuple[str, str]:
    """Return the last exception among `lines`, and the innermost frame of the user's own code."""
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if not starts:
        return "", ""
    block = lines[starts[-1] + 1 :]
    exception = next((line for line in block if line and not line[0].isspace()), "")
    frames = [match for line in block if (match := _FRAME.match(line))]
    own = [frame for frame in frames if not any(part in frame["file"] for part in _LIBRARY)]
    where = ""
    if frames:
        frame = (own or frames)[-1]
        where = f"{frame['file'].rpartition('/')[2]}:{frame['line']} in {frame['name']}"
    return exception[:300].rstrip("."), where


def _blame(status: Status, span: Span | None) -> str:
    reasons = {status.reason, span.reason if span else ""}
    killed = span is not None and span.exit_code in (137, 143) and span.reason != "OOMKilled"
    return "infrastructure" if killed or reasons & _INFRASTRUCTURE else "user"

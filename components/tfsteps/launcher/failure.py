"""Why a job failed, from its status and the last lines of its replicas, and whether it fails in the same way again."""

import contextlib
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

import msgspec

from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.code import images_differ, short_images
from tfsteps.runs.events import ReplicaName, ReplicaState, State
from tfsteps.runs.status import FailureSummary, Incarnation, ReplicaStatus, Status
from tfsteps.spec import format_bytes
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.text.failure_patterns import failure_pattern, hint, repeatable, signal_name
from tfsteps.text.tracebacks import raised

LastLines = Callable[[str, int], Sequence[str]]

_WIDTH = 300  # characters of an exception
_MEANINGS = {
    1: "the program raised an error",
    2: "wrong usage of the program, or its file is missing",
    126: "the command cannot be executed",
    127: "the command was not found",
    134: "aborted (SIGABRT)",
    135: "bus error (SIGBUS): often /dev/shm or the disk is full",
    137: "killed (SIGKILL): by whom is not known; the kernel does so if memory is short",
    139: "crashed (SIGSEGV)",
    143: "ended (SIGTERM): by whom is not known",
}
_NOT_STARTED = {"StartError", "ContainerCannotRun"}
"""Reasons of a container runtime that could not start a container's program; its exit code means nothing."""

_WRONG_PROGRAM = re.compile(
    r"executable file not found|permission denied|argument list too long|exec format error|no such file or directory"
    r"|not a directory",
    re.IGNORECASE,
)
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

_SIGNALS = 128  # exit codes from here on are those of programs that a signal ended
_KILLED = (137, 143)
_EARLY_HINT = (
    "Let every worker run the same number of steps, for example by `repeat()` and `steps_per_epoch`: see "
    "docs/get-started/mirrored.md"
)
_TRAINERS = ("chief", "worker")
_SAME_CAUSE_SECONDS = 60.0  # TensorFlow takes up to 20 s to end a program that has failed
_NOT_EXPLAINED = {"InitFailed", "Watchdog"}  # what ended the pods, or made a rank hang, is not known
_PLATFORM = {"PeerLost", "PortTaken", "StartFailed", *_NOT_EXPLAINED, *_TAKEN}

_SETTLE_SECONDS = 2.0  # for the last lines, which come by another way than the end of the replica

_NAMED = 5


def failure_summary(status: Status, last_lines: LastLines, blamed: str = "") -> FailureSummary:
    """Return why the job of `status` failed: the replica that failed first, unless it only lost a peer that ended.

    Args:
        status: Of the ended job.
        last_lines: Returns the last lines of a replica, or of its other container (`worker-1/init-data`), by that name
            and the number of the incarnation, from 0.
        blamed: Name of the replica that the job system blames; empty = the one that failed first.
    """
    failed = _in_cause(status, _failed_replica(status, blamed), last_lines)
    incarnation = _failed_incarnation(failed, status) if failed else None
    if failed is None or incarnation is None:
        replica = "" if status.reason == "DeadlineExceeded" else blamed
        summary = status.message or f"The job is {status.state}."
        return FailureSummary(summary=summary, replica=replica, fault=_fault(status, None))
    error = raised(_lines(failed, incarnation, last_lines))
    meaning = _meaning(incarnation)
    exception, half = error.exception, _WIDTH // 2
    if len(exception) > _WIDTH:  # its type, and what is said behind a long value in its middle
        exception = f"{exception[:half]} … {exception[-half:]}"
    detail = exception or meaning
    lost_peer = _lost_peer(failed, incarnation, last_lines)
    early = _ended_before(status, incarnation) if lost_peer else None
    where = f" at {error.frame}" if error.frame else ""
    restarts = failed.restarts - sum(later.number > incarnation.number for later in failed.incarnations)
    again = f" after {restarts} restart{'s' * (restarts != 1)}" if restarts > 0 else ""
    code = f" with exit code {incarnation.exit_code}" if incarnation.exit_code is not None else ""
    whose = f"{failed.name}'s container {incarnation.container}" if incarnation.container else failed.name
    failure = f"{whose} failed{code}{again}: {detail}{where}."
    if status.reason == "SameFailure":
        failure += " It failed twice in succession in the same way, so the job was ended."
    if early:
        seconds = max((incarnation.ended or 0.0) - (early[1].ended or 0.0), 0.0)
        failure = (
            f"{early[0].name} ended with exit code 0 {seconds:.0f} s before {failed.name} failed: "
            f"the others cannot continue without it. {failure}"
        )
    lost = status.state is State.LOST and incarnation.reason not in _TAKEN
    before = status.message and (lost or status.reason in _NOT_BY_A_REPLICA)
    return FailureSummary(
        summary=f"{status.message.rstrip('.')}. Before that, {failure}" if before else failure,
        replica=early[0].name if early else failed.name,
        exit_code=0 if early else incarnation.exit_code,
        meaning="it ended while its peers still trained" if early else meaning,
        exception="" if early else exception,  # that in the tail is another replica's
        frame="" if early else error.frame,
        tail=error.excerpt,
        hint=_EARLY_HINT if early else hint(error),
        fault="user" if early else "platform" if lost_peer else _fault(status, incarnation),
    )


def _failed_replica(status: Status, blamed: str) -> ReplicaStatus | None:
    """Return the replica that is blamed, else the first that failed; None = none did, or a deadline killed them."""
    past_deadline = status.reason == "DeadlineExceeded"
    failed = [
        (incarnation.ended or 0.0, replica)
        for replica in [replica for replica in status.replicas if replica.name == blamed] or status.replicas
        if (incarnation := _failed_incarnation(replica, status)) and not (past_deadline and _killed(incarnation))
    ]
    ends = [replica.incarnations[-1] for _, replica in failed]
    if not blamed and len(ends) > 1 and all(end.started == end.ended == ends[0].ended for end in ends):
        return None  # only that they failed is known, by the job object
    return min(failed, key=lambda pair: pair[0])[1] if failed else None


def _lines(replica: ReplicaStatus, incarnation: Incarnation, last_lines: LastLines) -> Sequence[str]:
    source = f"{replica.name}/{incarnation.container}" if incarnation.container else replica.name
    return last_lines(source, incarnation.number)


def _lost_peer(replica: ReplicaStatus, incarnation: Incarnation, last_lines: LastLines) -> bool:
    if incarnation.reason or incarnation.exit_code is None:
        return incarnation.reason == "PeerLost"
    lines = _lines(replica, incarnation, last_lines)
    return failure_pattern(incarnation.exit_code, lines, has_port=False) == "PeerLost"


def _in_cause(status: Status, failed: ReplicaStatus | None, last_lines: LastLines) -> ReplicaStatus | None:
    """Return the replica whose own failure made `failed` lose a peer, else `failed`.

    A program that raises an exception may end after its peers, which TensorFlow tells of it at once.
    """
    incarnation = _failed_incarnation(failed, status) if failed else None
    if not failed or not incarnation or not _lost_peer(failed, incarnation, last_lines):
        return failed
    until = (incarnation.ended or 0.0) + _SAME_CAUSE_SECONDS
    others = [
        (other.ended or 0.0, replica)
        for replica in status.replicas
        if replica is not failed
        and (other := _failed_incarnation(replica, status))
        and incarnation.started <= (other.ended or 0.0) <= until
        and not (_killed(other) and (other.ended or 0.0) > (incarnation.ended or 0.0))  # because the job had failed
        and not _lost_peer(replica, other, last_lines)
    ]
    return min(others, key=lambda pair: pair[0])[1] if others else failed


def _ended_before(status: Status, failed: Incarnation) -> tuple[ReplicaStatus, Incarnation] | None:
    """Return the trainer that ended with 0 while a peer trained, which then `failed` for want of it; None = none.

    Only without parameter servers: with them, workers may end one after the other.
    """
    ended = [
        (last.ended, replica, last)
        for replica in status.replicas
        if replica.role in _TRAINERS and replica.incarnations and (last := replica.incarnations[-1]).ended
        if last.state is ReplicaState.SUCCEEDED and failed.started <= last.ended <= (failed.ended or 0.0)
    ]
    alone = any(replica.role == "ps" for replica in status.replicas)
    return min(ended, key=lambda entry: entry[0])[1:] if ended and not alone else None


def _failed_incarnation(replica: ReplicaStatus, status: Status) -> Incarnation | None:
    """Return the newest incarnation that failed; None = none did.

    If the job system ended the job because of an exit code below 128, one that was killed later is a result of that.
    """
    failed = [incarnation for incarnation in reversed(replica.incarnations) if incarnation.state is ReplicaState.FAILED]
    declared: Collection[str] = ()
    if status.reason:
        with contextlib.suppress(KeyError, LaunchError):  # the job system is not installed here
            declared = registry.plugin(status.system).permanent_failures
    codes = range(1, _SIGNALS) if status.reason in declared else ()
    permanent = [incarnation for incarnation in failed if incarnation.exit_code in codes]
    return next(iter([*permanent, *failed]), None)


def _meaning(incarnation: Incarnation) -> str:
    peak = f" (peak {format_bytes(incarnation.memory_bytes)})" if incarnation.memory_bytes else ""
    if incarnation.reason == "OOMKilled":
        limit = f" of {format_bytes(incarnation.memory_limit)}" if incarnation.memory_limit else ""
        return f"killed for using more than its memory limit{limit}{peak}"
    message = incarnation.message.strip().rstrip(".")
    if incarnation.reason in _TAKEN:
        return f"its pod was deleted or evicted ({': '.join(filter(None, (incarnation.reason, message)))})"
    if incarnation.reason in _NOT_STARTED:
        return f"the program could not be started ({': '.join(filter(None, (incarnation.reason, message)))})"
    code = incarnation.exit_code
    if code is None:
        return "its exit code is not known"
    if code == 137:
        return f"{_MEANINGS[code]}{peak}"
    name = signal_name(code)
    return _MEANINGS.get(code, f"ended by signal {code - 128} ({name})" if name else "the program ended with an error")


def _killed(incarnation: Incarnation) -> bool:
    """Tell whether a signal from outside of the container ended it."""
    return incarnation.exit_code in _KILLED and incarnation.reason != "OOMKilled"


def _fault(status: Status, incarnation: Incarnation | None) -> Literal["user", "platform"]:
    reasons = {status.reason, incarnation.reason if incarnation else ""}
    if incarnation and incarnation.reason in _NOT_STARTED and incarnation.message:
        return "user" if _WRONG_PROGRAM.search(incarnation.message) else "platform"
    killed = incarnation is not None and _killed(incarnation)
    lost = status.state is State.LOST
    return "platform" if lost or killed or reasons & _PLATFORM else "user"


def taken_away(status: Status) -> bool:
    """Return whether the platform removed the replica that the failure summary names, for example by eviction."""
    replica = next((r for r in status.replicas if status.failure and r.name == status.failure.replica), None)
    incarnation = _failed_incarnation(replica, status) if replica else None
    return incarnation is not None and incarnation.reason in _TAKEN


def exit_code(status: Status) -> ExitCode:
    """Return the exit code for a job that has ended.

    PLATFORM: the job is lost or has not ended, or it failed because a replica was evicted, pre-empted or lost.
    """
    match status.state:
        case State.SUCCEEDED:
            return ExitCode.SUCCEEDED
        case State.FAILED if status.reason == "DeadlineExceeded":
            return ExitCode.DEADLINE
        case State.FAILED:
            return ExitCode.PLATFORM if taken_away(status) else ExitCode.FAILED
        case State.CANCELLED:
            return ExitCode.CANCELLED
        case _:
            return ExitCode.PLATFORM


class RepeatedFailure(msgspec.Struct, frozen=True):
    """Two incarnations of a replica in succession have failed alike.

    Attributes:
        replica: The replica.
        message: What happened, in one sentence.
    """

    replica: ReplicaName
    message: str


class FailureWatch:
    """Follows one job whose operator restarts replicas.

    Only what two successive incarnations certainly did counts: each ended with an exit code other than 0, for no reason
    of the platform's, after it had printed a whole traceback of an exception that does not pass by itself, or the error
    of argparse for wrong arguments.
    """

    def __init__(self, status: Status, last_lines: LastLines) -> None:
        """Follow.

        Args:
            status: Of the job, as it is kept up to date.
            last_lines: Returns the last lines of a replica, as `failure_summary` needs them.
        """
        self._status, self._last_lines = status, last_lines
        self._seen: dict[tuple[str, int], float] = {}  # when an end was seen first, by the monotonic clock
        self._failures: dict[tuple[str, int], str] = {}  # the exception and its place; empty = not known, or it passes

    def look(self) -> RepeatedFailure | None:
        """Return the first repeated failure; None = there is none so far."""
        for replica in self._status.replicas:
            if not replica.restarts:
                continue
            for before, last in zip(replica.incarnations[-3:], replica.incarnations[-2:], strict=False):
                if last.number == before.number + 1 and self._repeats(replica, before, last):
                    message = (
                        f"{replica.name} ended with exit code {last.exit_code}, twice by the same exception at the "
                        "same place."
                    )
                    return RepeatedFailure(ReplicaName(replica.role, replica.index), message)
        return None

    def _repeats(self, replica: ReplicaStatus, before: Incarnation, last: Incarnation) -> bool:
        failures = [self._failure(replica.name, incarnation) for incarnation in (before, last)]
        return failures[0] == failures[1] != ""

    def _failure(self, name: str, incarnation: Incarnation) -> str:
        """Return the exception of an incarnation and its place; empty = not known yet, or no failure of that kind."""
        failed = incarnation.state is ReplicaState.FAILED and incarnation.exit_code and not incarnation.container
        if not failed or incarnation.reason:
            return ""
        key = name, incarnation.number
        if key not in self._failures:
            if time.monotonic() - self._seen.setdefault(key, time.monotonic()) < _SETTLE_SECONDS:
                return ""
            tail = self._last_lines(*key)
            self._failures[key] = repeatable(raised(tail), tail)
        return self._failures[key]


def remarks(status: Status, last_lines: Callable[[str, int], Sequence[str]]) -> Iterator[str]:
    """Yield a sentence for each: a traceback of the replica that decided the job, and replicas that failed.

    Args:
        status: Of the ended job.
        last_lines: Returns the last lines of a replica, by its name and the number of the incarnation, from 0.
    """
    ends = [(replica, replica.incarnations[-1]) for replica in status.replicas if replica.incarnations]
    for replica, last in ends:
        if replica.name == status.decisive_replica and last.state is ReplicaState.SUCCEEDED:
            error = raised(last_lines(replica.name, last.number))
            if error.exception:
                where = f" at {error.frame}" if error.frame else ""
                yield (
                    f"{replica.name} ended with exit code 0 after it had printed a traceback: {error.exception}"
                    f"{where}. If its command runs several programs, `set -e` ends it at the first that fails."
                )
    failed = [f"{replica.name}{_code(last)}" for replica, last in ends if replica.state is ReplicaState.FAILED]
    if failed:
        more = f" and {len(failed) - _NAMED} more" if failed[_NAMED:] else ""
        who = f"{', '.join(failed[:_NAMED])}{more}"
        yield f"{who} failed. {status.decisive_replica} decides the outcome: the job has succeeded without."


def mixed_images(status: Status) -> Iterator[str]:
    """Yield a sentence for each role whose replicas certainly ran different images."""
    for role, images in status.images.items():
        if images_differ(images):
            yield (
                f"The replicas of {role} ran different images: {short_images(images)}. The tag was moved, or a node "
                "had an older copy; name the image by its digest."
            )


def _code(last: Incarnation) -> str:
    return "" if last.exit_code is None else f" (exit code {last.exit_code})"

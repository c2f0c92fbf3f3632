"""Replicas of this machine that outlived their launcher: it was killed, and its guard, which ends them, was too."""

import contextlib
import functools
import operator
import os
import pathlib
import signal
import time

import msgspec

from tfsteps.answer import NO, Answer, known, unknown
from tfsteps.runs import lock, store
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import ABANDONED, Status
from tfsteps.runs.store import AttemptFolder

_GRACE_SECONDS = 10.0  # as the default of `local.grace`
_KILL_SECONDS = 5.0  # in which a killed process ends
_PAUSE_SECONDS = 0.1


class Survivors(msgspec.Struct, frozen=True):
    """What is known of the processes of an attempt whose launcher was killed.

    Attributes:
        left: Whether some are left: of another machine, or of other users, that is not known.
        sessions: The leaders of their sessions, by the names of their replicas.
    """

    left: Answer
    sessions: dict[str, int] = {}

    def __str__(self) -> str:
        """`worker-0 (pid 4711)`."""
        return ", ".join(f"{name} (pid {leader})" for name, leader in self.sessions.items())


def session_members(leader: int) -> list[int]:
    """Return the processes of a session."""
    pids = []
    for name in os.listdir("/proc"):  # noqa: PTH208  four times as fast as pathlib, and called several times a second
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if name.isdigit() and os.getsid(int(name)) == leader:
                pids.append(int(name))
    return pids


def survivors(attempt: AttemptFolder, status: Status) -> Survivors:
    """Return what is left of an attempt, whose status was just read. Nothing of one that its launcher ended."""
    if status.reason != ABANDONED or not status.on_this_machine or attempt.replicas_ended.exists():
        return Survivors(NO)
    places = {
        replica.name: replica.incarnations[-1].place.split()
        for replica in status.replicas
        if replica.state is ReplicaState.UNKNOWN and replica.incarnations
    }
    leaders = {
        name: int(words[1])
        for name, words in places.items()
        if words[:1] == ["pid"] and len(words) > 1 and words[1].isascii() and words[1].isdecimal()
    }
    launcher = attempt.launcher
    if leaders and launcher is None:
        if lock.released(attempt.folder):  # which a launcher does after the end of its replicas
            return Survivors(NO)
        return Survivors(unknown("where it ran is not recorded"))
    if leaders and launcher and launcher.elsewhere:
        if launcher.of_earlier_boot:  # and only a machine that mounts its disk takes the attempt for abandoned
            return Survivors(NO)
        return Survivors(unknown(f"it ran {launcher.elsewhere}"))
    answers = {name: _in_session(leader, status.identity) for name, leader in leaders.items()}
    left = functools.reduce(operator.or_, answers.values(), NO)
    return Survivors(left, {name: leaders[name] for name, answer in answers.items() if answer.yes})


def end(attempt: AttemptFolder, status: Status, *, now: bool) -> Survivors:
    """End what is left of an attempt, and return what that was.

    Its sessions get SIGTERM, and SIGKILL after a grace period, with `now` at once. What may not be killed is left.
    """
    first = current = survivors(attempt, status)
    give_up = time.monotonic() + (0.0 if now else _GRACE_SECONDS)
    asked = set[int]()
    while current.left.yes and time.monotonic() < give_up + _KILL_SECONDS:
        number = signal.SIGTERM if time.monotonic() < give_up else signal.SIGKILL
        for pid in [pid for leader in current.sessions.values() for pid in session_members(leader)]:
            if pid not in asked or number is signal.SIGKILL:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            asked.add(pid)
        time.sleep(_PAUSE_SECONDS)
        current = survivors(attempt, status)
    if first.left.yes and current.left.no:
        with contextlib.suppress(OSError):  # a full disk
            attempt.replicas_ended.touch()
    return Survivors(current.left, first.sessions)


def _in_session(leader: int, identity: Identity) -> Answer:
    """Return whether processes of an attempt are in a session; its number may be another session's by now."""
    texts = {"TFSTEPS_RUN_ID": identity.run, "TFSTEPS_TASK": identity.task, "TFSTEPS_ATTEMPT": str(identity.attempt)}
    marks = [_encoded(f"{name}={text}") for name, text in texts.items()]
    answer = NO
    for pid in session_members(leader):
        try:
            entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError as error:
            answer |= unknown(error)
        else:
            answer |= known(not any(mark.isdisjoint(entries) for mark in marks))
    return answer


def _encoded(text: str) -> set[bytes]:
    """Return how an entry of an environment may be encoded: as UTF-8, or by the locale if that has its characters."""
    encoded = {text.encode(errors="surrogateescape")}
    with contextlib.suppress(UnicodeEncodeError):
        encoded.add(os.fsencode(text))
    return encoded


def left_by_earlier(run: str, task: str) -> tuple[str, Answer]:
    """Return what earlier attempts at a task left on this machine, for messages, and whether they did.

    Raises:
        OSError: The records cannot be read.
    """
    texts, left = list[str](), NO
    for attempt in store.attempts(run, task):
        with contextlib.suppress(FileNotFoundError, store.UnreadableError):
            rest = survivors(attempt, attempt.status())
            left |= rest.left
            if rest.left.yes:
                texts.append(f"the launcher of attempt {attempt.folder.name} was killed, and left {rest}")
    return "; ".join(texts), left

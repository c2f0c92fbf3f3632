"""Ends the local jobs of a run: each through its launcher, and those that outlast their step with its pipeline.

The pipeline holds a file lock while it runs. A process that waits for the lock gets it when the pipeline ends, even if
it was killed.
"""

import fcntl
import os
import pathlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Self

import msgspec

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs import store
from tfsteps.runs.identity import Identity
from tfsteps.runs.lock import ProcessRef
from tfsteps.runs.store import AttemptFolder
from tfsteps.systems.base import LaunchError, Scope

_VARIABLE = "TFSTEPS_PIPELINE"
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 60.0
_HURRY_SECONDS = 30.0  # a second SIGTERM makes a launcher kill its job


class _Holder(msgspec.Struct, frozen=True):
    """The process of a pipeline, and its file descriptor of the locked file."""

    process: ProcessRef
    file: int


class PipelineLock:
    """A lock that is held during the `with` block, at most until this process ends."""

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile()
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return self

    @property
    def env(self) -> Mapping[str, str]:
        """The environment variables of the pipeline's steps."""
        holder = _Holder(ProcessRef.current(), self._file.fileno())
        return {_VARIABLE: msgspec.json.encode(holder).decode()}

    def __exit__(self, *_: object) -> None:
        self._file.close()


def at_end(act: Callable[[], None]) -> None:
    """Call `act` after the pipeline of this process has ended, usually in a thread.

    Never without a pipeline, or if its process cannot be seen from here: whether it has ended is not known then.
    """
    try:
        holder = typed_json.decode(os.environ.get(_VARIABLE, ""), _Holder)
    except NOT_READABLE:
        return
    if holder.process.elsewhere:
        return
    try:  # a description of its own: a lock is not shared with the pipeline's
        file = open(f"/proc/{holder.process.pid}/fd/{holder.file}", "rb")  # noqa: SIM115, PTH123
    except (FileNotFoundError, ProcessLookupError):  # it has released the lock, or has ended
        act()
        return
    except OSError:
        if holder.process.alive().no:  # its id is another process now
            act()
        return
    threading.Thread(target=_wait, args=(file, act), name="pipeline", daemon=True).start()


def _wait(file: IO[bytes], act: Callable[[], None]) -> None:
    with file:
        fcntl.flock(file, fcntl.LOCK_SH)
    act()


def stop_jobs(identity: Identity, scope: Scope) -> list[str]:
    """Stop the unfinished jobs of a run, wait until they have ended, and return their names.

    Args:
        identity: Identity of the finalizer's task.
        scope: siblings = jobs of tasks with the same parent folder as the finalizer's task; run = all jobs.

    Raises:
        LaunchError: A launcher does not end, or cannot be signalled from here, or its job is not known; the other jobs
            are stopped.
    """
    parent = _parent(identity.task)
    jobs: dict[AttemptFolder, str] = {}
    left: list[str] = []
    for attempt in store.attempts(identity.run):
        try:
            if attempt.alive().no:
                continue
            status = attempt.status()
        except OSError as error:
            left.append(f"the job of {attempt.folder} was not stopped: {error}")
            continue
        if scope == "run" or _parent(status.identity.task) == parent:
            jobs[attempt] = status.job
    answers = {attempt: attempt.terminate() for attempt in jobs}
    until_ended(attempt for attempt, answer in answers.items() if not answer.unknown)
    left += [f"{jobs[attempt]} was not stopped: {answer.why}" for attempt, answer in answers.items() if answer.unknown]
    if left:
        raise LaunchError(f"{'; '.join(left)}; stop it where it runs", retryable=False)
    return list(jobs.values())


def until_ended(attempts: Iterable[AttemptFolder]) -> None:
    """Wait until the launchers of `attempts`, on this machine, have ended; signal them again after 30 s.

    Raises:
        LaunchError: A launcher does not end.
    """
    left, began, repeated = list(attempts), time.monotonic(), False
    while left := [attempt for attempt in left if not attempt.alive().no]:
        waited = time.monotonic() - began
        if waited > _PATIENCE_SECONDS:
            raise LaunchError(f"{left[0].status().job} does not end; `tfsteps stop --now` kills it", retryable=True)
        if not repeated and waited > _HURRY_SECONDS:
            repeated = True
            for attempt in left:
                attempt.terminate()
        time.sleep(_POLL_SECONDS)


def _parent(task: str) -> str:
    return str(pathlib.PurePath(task).parent)

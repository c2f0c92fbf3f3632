"""Ends the local jobs of a run, each through its launcher."""

import contextlib
import os
import pathlib
import signal
import time
from collections.abc import Iterable

from tfsteps.runs import store
from tfsteps.runs.identity import Identity
from tfsteps.runs.store import Attempt
from tfsteps.systems.base import LaunchError, Scope

_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 60.0
_HURRY_SECONDS = 30.0  # a second SIGTERM makes a launcher kill its job


def stop(identity: Identity, scope: Scope) -> list[str]:
    """Stop the unfinished jobs of a run, wait until they have ended, and return their names.

    Args:
        identity: Identity of the finalizer's task.
        scope: siblings = jobs of tasks with the same parent folder as the finalizer's task; run = all jobs.

    Raises:
        LaunchError: A launcher does not end, or belongs to another user.
    """
    parent = _parent(identity.task)
    alive = [attempt for attempt in store.attempts(identity.run) if attempt.alive()]
    attempts = [attempt for attempt in alive if scope == "run" or _parent(attempt.status().identity.task) == parent]
    names = [attempt.status().job for attempt in attempts]
    for attempt in attempts:
        _ask(attempt)
    until_ended(attempts)
    return names


def until_ended(attempts: Iterable[Attempt]) -> None:
    """Wait until the launchers of `attempts` have stopped their jobs and ended; signal them again after 30 s.

    Raises:
        LaunchError: A launcher does not end, or belongs to another user.
    """
    left, began, hurried = list(attempts), time.monotonic(), False
    while left := [attempt for attempt in left if attempt.alive()]:
        waited = time.monotonic() - began
        if waited > _PATIENCE_SECONDS:
            raise LaunchError(f"{left[0].status().job} does not end; `tfsteps stop --now` kills it", retryable=True)
        if not hurried and waited > _HURRY_SECONDS:
            hurried = True
            for attempt in left:
                _ask(attempt)
        time.sleep(_POLL_SECONDS)


def _ask(attempt: Attempt) -> None:
    """Send SIGTERM to the launcher. Its process id is valid while it holds the lock of the attempt."""
    status = attempt.status()
    if status.state.terminal or not attempt.alive():
        return  # it is writing its report
    try:
        with contextlib.suppress(ProcessLookupError):
            os.kill(status.launcher, signal.SIGTERM)
    except PermissionError as error:
        wrong = f"{status.job}: its launcher, pid {status.launcher}, belongs to another user"
        raise LaunchError(f"{wrong}; stop it as that user", retryable=False) from error


def _parent(task: str) -> str:
    return str(pathlib.PurePath(task).parent)

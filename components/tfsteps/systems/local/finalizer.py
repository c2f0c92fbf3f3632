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
        identity: The finalizer's.
        scope: siblings = those whose tasks have the finalizer's parent folder; run = all.

    Raises:
        LaunchError: A launcher does not end, or is another user's.
    """
    here = _parent(identity.task)
    every = [attempt for attempt in store.attempts(identity.run) if attempt.alive()]
    attempts = [attempt for attempt in every if scope == "run" or _parent(attempt.status().identity.task) == here]
    names = [attempt.status().job for attempt in attempts]
    for attempt in attempts:
        _ask(attempt)
    until_ended(attempts)
    return names


def until_ended(attempts: Iterable[Attempt]) -> None:
    """Wait until the launchers of `attempts` have stopped their jobs and ended; signal them again after 30 s.

    Raises:
        LaunchError: One does not end, or is another user's.
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
    """Signal the launcher. Its process id is valid while it holds the attempt."""
    status = attempt.status()
    if status.state.terminal or not attempt.alive():
        return  # it is writing its report
    try:
        with contextlib.suppress(ProcessLookupError):
            os.kill(status.launcher, signal.SIGTERM)
    except PermissionError as error:
        who = f"{status.job}: its launcher, pid {status.launcher}, is another user's"
        raise LaunchError(f"{who}; stop it as that user", retryable=False) from error


def _parent(task: str) -> str:
    return str(pathlib.PurePath(task).parent)

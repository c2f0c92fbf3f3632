"""Ends the local jobs of a run, each through its launcher."""

import pathlib
import time
from collections.abc import Iterable

from tfsteps.runs import store
from tfsteps.runs.identity import Identity
from tfsteps.runs.store import AttemptFolder
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
        LaunchError: A launcher does not end, or cannot be signalled from here.
    """
    parent = _parent(identity.task)
    jobs: dict[AttemptFolder, str] = {}
    for attempt in store.attempts(identity.run):
        alive, status = attempt.alive(), attempt.status()
        if not alive.no and (scope == "run" or _parent(status.identity.task) == parent):
            jobs[attempt] = status.job
    answers = {attempt: attempt.terminate() for attempt in jobs}
    until_ended(attempt for attempt, answer in answers.items() if not answer.unknown)
    if left := [
        f"{jobs[attempt]} was not stopped: {answer.why}" for attempt, answer in answers.items() if answer.unknown
    ]:
        raise LaunchError(f"{'; '.join(left)}; stop it where it runs", retryable=False)
    return list(jobs.values())


def until_ended(attempts: Iterable[AttemptFolder]) -> None:
    """Wait until the launchers of `attempts`, on this machine, have ended; signal them again after 30 s.

    Raises:
        LaunchError: A launcher does not end.
    """
    left, began, hurried = list(attempts), time.monotonic(), False
    while left := [attempt for attempt in left if not attempt.alive().no]:
        waited = time.monotonic() - began
        if waited > _PATIENCE_SECONDS:
            raise LaunchError(f"{left[0].status().job} does not end; `tfsteps stop --now` kills it", retryable=True)
        if not hurried and waited > _HURRY_SECONDS:
            hurried = True
            for attempt in left:
                attempt.terminate()
        time.sleep(_POLL_SECONDS)


def _parent(task: str) -> str:
    return str(pathlib.PurePath(task).parent)

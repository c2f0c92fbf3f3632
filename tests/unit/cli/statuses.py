"""Statuses as launchers write them, for tests that look at how they are shown."""

import time

from tests.support.locations import location_of
from tests.support.log_lines import log_line
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import FailureSummary, Incarnation, ReplicaStatus, Status
from tfsteps.runs.store import AttemptFolder


def status(run="r1", task="mnist", attempt=0, workers=2, state=State.RUNNING, **more):
    """Return the status of a job whose workers run, or ended as `state` says."""
    now = time.time()
    over = state.terminal
    ends = {State.SUCCEEDED: (ReplicaState.SUCCEEDED, 0), State.FAILED: (ReplicaState.FAILED, 1)}
    replica_state, code = ends.get(state, (ReplicaState.STOPPED, 143)) if over else (ReplicaState.RUNNING, None)
    replicas = [
        ReplicaStatus(
            role="worker",
            index=i,
            state=replica_state,
            incarnations=[
                Incarnation(
                    started=now - 60,
                    ended=now - 1 if over else None,
                    state=replica_state,
                    exit_code=code,
                    place=f"pid {i + 1} port {5000 + i}",
                )
            ],
        )
        for i in range(workers)
    ]
    base = {
        "identity": Identity(run=run, task=task, attempt=attempt),
        "job": f"{task[:20]}-abc",
        "system": "elsewhere",
        "decisive_replica": "worker-0",
        "state": state,
        "created": now - 62,
        "started": now - 60,
        "ended": now - 1 if over else None,
        "replicas": replicas,
    }
    return Status(**{**base, **location_of(more.get("system", base["system"])), **more})


def saved(*lines, hold=False, **more):
    """Write a status and log lines `(replica, text)`; return the attempt, and its lock if it is to be held."""
    attempt_status = status(**more)
    attempt = AttemptFolder.of(attempt_status.identity)
    lock = attempt.claim()
    attempt.write(attempt_status)
    append(attempt, *lines)
    if hold:
        return attempt, lock
    lock.close()
    return attempt


def append(attempt, *lines):
    with attempt.log.open("ab") as file:
        for replica, text in lines:
            file.write(log_line(1_795_000_000.5, replica, text))


FAILURE = FailureSummary(
    summary="worker-1 failed with exit code 1: ValueError: no data at train.py:7 in main.",
    replica="worker-1",
    exit_code=1,
    meaning="the program raised an error",
    exception="ValueError: no data",
    frame="train.py:7 in main",
    tail=["one", "\x1b[31mtwo\x1b[0m"],
)

"""Cases that need nothing but a job: what it does, and what must be said and left of it."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.case import Case
from tests.conformance.world import World, until
from tfsteps.systems.base import ReplicaState, State

SHARED = [{"host_path": "/tmp", "mount": "/shared"}]  # the node's: it outlives pods that are made anew
_SCRATCH = {"output_dir": "/out", "volumes": [{"empty_dir": "1Mi", "mount": "/out"}]}  # outlives containers
_WORKER = {"worker": {}}
_WORKERS = {"worker": {"replicas": 2}}
_WSUM = "done wsum 6.147475360"  # what two replicas of the stand-in arrive at


def sh(script: str) -> dict[str, Any]:
    """Return fields of a job that runs a shell script in every replica."""
    return {"command": ["sh", "-c", script]}


def standin(**env: object) -> dict[str, Any]:
    """Return fields of a job that runs the stand-in trainer."""
    return {"command": ["python", "standin.py"], "env": env}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A job and its outcome.

    Attributes:
        job: Fields of the job file.
        ends: Exit code, state and reason; a reason of None may be any.
        says: What the digest's summary says, a pattern.
        blames: The digest's replica and its exit code.
        retryable: The digest's.
        prints: What replicas must have printed, patterns.
        restarts: Of all replicas together.
        stopped: Replicas that the job ended without.
        left: Of job objects and pods when the launcher has ended.
    """

    job: Mapping[str, Any]
    ends: tuple[int, State, str | None] = (0, State.SUCCEEDED, None)
    says: str = ""
    blames: tuple[str, int | None] | None = None
    retryable: str = ""
    prints: list[str] = field(default_factory=list)
    restarts: int = 0
    stopped: list[str] = field(default_factory=list)
    left: tuple[int, int] | None = None


_ROWS = {
    "two workers train": Row(
        job={"roles": _WORKERS, **standin()},
        prints=[rf"worker-0 .*{_WSUM}", r"worker-1 .*replicas 2 from step 0"],
        left=(1, 0),
    ),
    "the chief decides": Row(
        job={"roles": {"chief": {}, **_WORKERS}, **sh('[ $TFSTEPS_ROLE = chief ] || exec sleep 600; echo "chief"')},
        prints=["chief-0 chief"],
        stopped=["worker-0", "worker-1"],
        left=(1, 0),
    ),
    "worker 0 decides": Row(
        job={"roles": _WORKERS, **sh("[ $TFSTEPS_INDEX = 0 ] || exec sleep 600")},
        stopped=["worker-1"],
        left=(1, 0),
    ),
    "all workers must succeed, and do": Row(
        job={"roles": _WORKERS, "success": "all_workers", **sh("sleep $((TFSTEPS_INDEX * 3)); echo end")},
        prints=["worker-0 end", "worker-1 end"],
        left=(1, 0),
    ),
    "all workers must succeed, and one does not": Row(
        job={"roles": _WORKERS, "success": "all_workers", **sh("sleep $((TFSTEPS_INDEX * 3)); exit $TFSTEPS_INDEX")},
        ends=(10, State.FAILED, None),
        blames=("worker-1", 1),
        left=(1, 2),
    ),
    "a program fails": Row(
        job={"roles": _WORKER, "command": ["python", "-c", "def step():\n  raise ValueError('no data')\nstep()"]},
        ends=(10, State.FAILED, None),
        blames=("worker-0", 1),
        says="worker-0 failed with exit code 1: ValueError: no data",
        retryable="user",
        prints=["worker-0 Traceback"],
        left=(1, 1),
    ),
    "a command is not there": Row(
        job={"roles": _WORKER, "command": ["sh", "-c", "no-such-program"]},
        ends=(10, State.FAILED, None),
        blames=("worker-0", 127),
        says="the command was not found",
    ),
    "a container is restarted": Row(
        job={
            "roles": _WORKER,
            "restart": "on_failure",
            **_SCRATCH,
            **standin(FAIL_AT=20, FAIL_TASK="worker-0", FAIL_CODE=7, RESUME=1),
        },
        prints=["injected failure", "replicas 1 from step 20", "done wsum"],
        restarts=1,
        left=(1, 0),
    ),
    "a retryable exit code is retried": Row(
        job={
            "roles": _WORKER,
            "restart": "exit_code",
            "volumes": SHARED,
            "output_dir": "/shared/tfsteps-conformance/{run_id}",
            **standin(FAIL_AT=20, FAIL_TASK="worker-0", FAIL_CODE=130, RESUME=1),
        },
        prints=["injected failure", "replicas 1 from step 20", "done wsum"],
        restarts=1,
        left=(1, 0),
    ),
    "a permanent exit code is not": Row(
        job={"roles": _WORKER, "restart": "exit_code", **sh("exit 9")},
        ends=(10, State.FAILED, None),
        blames=("worker-0", 9),
    ),
    "the backoff limit is used up": Row(
        job={"roles": _WORKER, "restart": "on_failure", "backoff_limit": 1, **sh("echo try; exit 7")},
        ends=(10, State.FAILED, "BackoffLimitExceeded"),
        blames=("worker-0", 7),
        prints=["worker-0 try"],
        restarts=2,
    ),
    "an image cannot be pulled": Row(
        job={"roles": _WORKER, "image": "registry.invalid/none:1", "deadlines": {"pending": "8s"}, **sh("true")},
        ends=(11, State.FAILED, "DeadlineExceeded"),
        says=r"(ErrImagePull|ImagePullBackOff).*registry.invalid/none:1",
        left=(0, 0),
    ),
    "no node has room": Row(
        job={"roles": _WORKER, "resources": {"cpu": 900}, "deadlines": {"pending": "5s"}, **sh("true")},
        ends=(11, State.FAILED, "DeadlineExceeded"),
        says=r"worker-0.*Insufficient cpu",
        left=(0, 0),
    ),
    "too much memory is used": Row(
        job={"roles": _WORKER, "resources": {"memory": "64Mi"}, **standin(MEMORY=500)},
        ends=(10, State.FAILED, None),
        blames=("worker-0", 137),
        says="more than its memory limit",
        retryable="user",
    ),
    "the running deadline passes": Row(
        job={"roles": _WORKER, "deadlines": {"running": "3s"}, **standin(HANG=1, IGNORE_SIGTERM=1)},
        ends=(11, State.FAILED, "DeadlineExceeded"),
        says="running",
        left=(0, 0),
    ),
    "nothing is to be left": Row(
        job={"roles": _WORKER, "on_end": "delete", **sh("echo gone")},
        prints=["worker-0 gone"],
        left=(0, 0),
    ),
    "everything is to be left": Row(
        job={"roles": _WORKER, "on_end": "keep", **sh("echo kept")},
        prints=["worker-0 kept"],
        left=(1, 1),
    ),
}


def _check(row: Row, world: World) -> None:
    launcher = world.launch(row.job, run=world.namespace)
    launcher.ends(*row.ends)
    printed = "\n".join(f"{who} {line}" for who, line in launcher.lines())
    for pattern in row.prints:
        assert re.search(pattern, printed), printed
    if row.ends[1] is State.FAILED:
        assert re.search(row.says, launcher.digest.summary), launcher.digest
        assert row.retryable in launcher.digest.retryable, launcher.digest
        assert row.blames in (None, (launcher.digest.replica, launcher.digest.exit_code)), launcher.digest
    else:
        stopped = [replica.name for replica in launcher.status.replicas if replica.state is ReplicaState.STOPPED]
        assert stopped == row.stopped, launcher.status
        assert sum(replica.restarts for replica in launcher.status.replicas) == row.restarts, launcher.status
    if row.left:
        until(lambda: (len(world.jobs()), len(world.pods())) == row.left, 15)


CASES = [Case(name, functools.partial(_check, row)) for name, row in _ROWS.items()]

"""What tasks say, as a table: chain_status before worker_status, stop codes only for why."""

import pytest

from tfsteps.platforms.hai.schema import PAUSED, PAUSED_TASK
from tfsteps.platforms.hai.verdict import verdict
from tfsteps.runs.events import State

_RUN = {"chain_status": "running"}
_END = {"chain_status": "finished"}


def _ran(length):
    """Return fields of a task with a timeout of an hour that ended after `length`; times name no zone."""
    schema = {"resource": {"image": "registry/project/image"}, "options": {"timeout": 3600}}
    times = {"begin_at": "2026-01-01T00:00:00", "end_at": f"2026-01-01 {length}"}
    return {"config_json": {"schema": schema}, **times}


@pytest.mark.parametrize(
    ("task", "state", "reason"),
    [
        ({"chain_status": "waiting_init", "worker_status": "queued"}, State.QUEUED, ""),
        ({**_RUN, "worker_status": "created"}, State.PENDING, ""),
        ({**_RUN, "worker_status": "building", "_pods_": [{"status": "building"}]}, State.PENDING, ""),
        (
            {**_RUN, "worker_status": "building", "_pods_": [{"status": "unschedulable"}]},
            State.PENDING,
            "Unschedulable",
        ),
        ({**_RUN, "worker_status": "running"}, State.RUNNING, ""),
        # its pods end, or one of them has: the chain ends later
        ({**_RUN, "worker_status": "succeeded_terminating"}, State.RUNNING, ""),
        ({**_RUN, "worker_status": "failed", "_pods_": [{"status": "failed"}]}, State.RUNNING, ""),
        ({**_RUN, "worker_status": "stopped_terminating"}, State.RUNNING, ""),
        ({**_RUN, "worker_status": "unknown"}, State.UNKNOWN, "UnknownStatus"),
        # the newest task decides, not one that was interrupted and is finished
        (
            {**_RUN, "worker_status": "running", "stop_code_list": [16, 0], "queue_status": "finished"},
            State.RUNNING,
            "",
        ),
        ({"chain_status": "suspended", "stop_code_list": [17, 0]}, State.QUEUED, "Interrupted"),
        ({"chain_status": "suspended", "stop_code_list": [144, 0]}, State.QUEUED, "Interrupted"),
        ({"chain_status": "suspended", "stop_code_list": [32, 0]}, State.QUEUED, "Unschedulable"),
        ({"chain_status": "suspended", "stop_code_list": [2048, 0]}, State.QUEUED, "HookRestart"),
        ({"chain_status": "suspended", "stop_code_list": [1024, 0]}, State.QUEUED, "Resumed"),
        ({**_END, "worker_status": "succeeded", "stop_code": 1}, State.SUCCEEDED, ""),
        ({**_END, "worker_status": "succeeded", "stop_code": 4096}, State.SUCCEEDED, "MarkedSucceeded"),
        ({**_END, "worker_status": "failed", "stop_code": 129}, State.FAILED, "ReplicaFailed"),
        ({**_END, "worker_status": "failed", "stop_code": 8192}, State.FAILED, "MarkedFailed"),
        ({**_END, "worker_status": "failed", "stop_code": 512}, State.FAILED, "Watchdog"),
        ({**_END, "worker_status": "failed", "stop_code": 256}, State.FAILED, "InitFailed"),
        ({**_END, "worker_status": "stopped", "stop_code": 1024}, State.CANCELLED, "Stopped"),
        ({**_END, "worker_status": "stopped", "stop_code": 1040}, State.CANCELLED, "Stopped"),
        # a rank failed, and only a stop kept HAI from queueing the task again
        ({**_END, "worker_status": "failed", "stop_code": 144}, State.CANCELLED, "Stopped"),
        ({**_END, "worker_status": "failed", "stop_code": 32}, State.CANCELLED, "Stopped"),
        ({**_END, "worker_status": "failed", "stop_code": 2048 + 128}, State.CANCELLED, "Stopped"),
        ({**_END, "worker_status": "failed", "stop_code": 1}, State.FAILED, "ReplicaFailed"),
        ({**_END, "worker_status": "failed", "stop_code": 1024 + 128}, State.FAILED, "ReplicaFailed"),
        ({**_END, "worker_status": "failed", "stop_code": 512 + 128}, State.FAILED, "Watchdog"),
        ({**_END, "worker_status": "failed", "stop_code": 8192 + 128}, State.FAILED, "MarkedFailed"),
        ({**_END, "worker_status": "stopped", "stop_code": 1041}, State.CANCELLED, "Stopped"),
        ({**_END, "worker_status": "stopped", "stop_code": 16}, State.CANCELLED, "Stopped"),
        ({**_END, "worker_status": "stopped", "stop_code": 1}, State.LOST, "PodDeleted"),
        ({**_END, "worker_status": "stopped", "stop_code": 0}, State.LOST, "StartFailed"),
        ({**_END, **_ran("00:59:59.5"), "worker_status": "stopped", "stop_code": 1}, State.FAILED, "DeadlineExceeded"),
        ({**_END, **_ran("00:59:50"), "worker_status": "stopped", "stop_code": 1}, State.LOST, "PodDeleted"),
        (
            {**_END, **_ran("01:00:09"), "worker_status": "stopped", "stop_code": 1024 + 1},
            State.CANCELLED,
            "Stopped",
        ),
        ({**_END, "worker_status": "canceled", "stop_code": 0}, State.CANCELLED, "Stopped"),
        ({**_END, "worker_status": "canceled", "tags": [PAUSED]}, State.SUSPENDED, "Paused"),
        ({**_END, "worker_status": "stopped", "stop_code": 1024, "tags": [PAUSED]}, State.SUSPENDED, "Paused"),
        ({**_END, "worker_status": "succeeded", "stop_code": 1, "tags": [PAUSED]}, State.SUCCEEDED, ""),
        ({**_END, "worker_status": "unknown", "stop_code": 0}, State.LOST, "UnknownEnd"),
        ({"chain_status": "", "worker_status": "queued"}, State.UNKNOWN, "UnknownStatus"),
    ],
)
def test_the_verdict_of_a_task(task, state, reason):
    outcome = verdict(task)
    assert (outcome.state, outcome.reason) == (state, reason)


def _chain(*ends, paused=0):
    """Return a chain of tasks 1, 2, ... that ended so (worker_status, stop_code), which was paused at task `paused`."""
    states, codes = zip(*ends, strict=True)
    tags = [PAUSED, *([f"{PAUSED_TASK}={paused}"] if paused else [])]
    lists = {"id_list": list(range(1, len(ends) + 1)), "stop_code_list": codes, "worker_status_list": states}
    return {**_END, **lists, "worker_status": states[-1], "stop_code": codes[-1], "tags": tags}


_BY_USER, _BEFORE_START, _INTERRUPTED, _LOST = ("stopped", 1024), ("canceled", 0), ("stopped", 17), ("stopped", 1)


@pytest.mark.parametrize(
    ("chain", "state"),
    [
        (_chain(_BY_USER, _LOST, paused=1), State.LOST),
        (_chain(_BEFORE_START, _LOST), State.LOST),  # created suspended
        (_chain(_BY_USER, _INTERRUPTED, _LOST, paused=1), State.LOST),
        (_chain(_BY_USER, _BY_USER, paused=1), State.CANCELLED),
        (_chain(_BY_USER, _BY_USER, paused=2), State.SUSPENDED),
        (_chain(_BY_USER, _LOST, paused=2), State.SUSPENDED),  # `tfsteps resume` continues it
        (_chain(_INTERRUPTED, _BEFORE_START, paused=1), State.SUSPENDED),
        (_chain(_INTERRUPTED, _INTERRUPTED, _BY_USER, paused=2), State.SUSPENDED),
    ],
)
def test_a_pause_ends_when_somebody_resumes_the_chain(chain, state):
    assert verdict(chain).state is state


def test_the_newest_pause_counts():
    chain = _chain(_BY_USER, _BY_USER, paused=1)
    assert verdict({**chain, "tags": [f"{PAUSED_TASK}=2", *chain["tags"]]}).state is State.SUSPENDED
    assert verdict({**chain, "tags": [*chain["tags"], f"{PAUSED_TASK}=x"]}).state is State.CANCELLED


def test_pods_that_do_not_start_again_and_again_point_at_the_image():
    task = {"chain_status": "suspended", **_ran("00:00:00")}
    once, three = (verdict({**task, "stop_code_list": [128, *codes, 0]}).message for codes in ([32], [32, 33, 32]))
    assert "image" not in once
    assert "3 times in a row" in three
    assert "registry/project/image" in three

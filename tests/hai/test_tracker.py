"""From looks at a task and reports of its ranks' agents to events, without a platform: what depends on their order."""

import pytest

from tfsteps.platforms.hai.tracker import ChainTracker
from tfsteps.runs.events import JobChanged, ReplicaChanged, ReplicaName, ReplicaState, State
from tfsteps.runs.status import Incarnations, ReplicaStatus

_WORKERS = [ReplicaName("worker", 0), ReplicaName("worker", 1)]
_FAILED = {"event": "failed", "replica": "worker-1", "reason": "BackoffLimitExceeded", "message": "worker-1 ended."}


def look(*codes, status="running", worker="running", **fields):
    """Return a chain of as many tasks as there are stop codes."""
    ids = list(range(1, len(codes) + 1))
    task = {"id": ids[-1], "id_list": ids, "stop_code": codes[-1], "stop_code_list": list(codes)}
    return {**task, "chain_status": status, "worker_status": worker, **fields}


class Following:
    """A tracker, and what it has said of the job and of worker 0."""

    def __init__(self):
        self.tracker = ChainTracker(_WORKERS)
        self.job, self.replica = [], []

    def see(self, events):
        for event in events:
            if isinstance(event, JobChanged):
                self.job.append((event.state, event.reason))
            elif isinstance(event, ReplicaChanged) and event.replica == _WORKERS[0]:
                self.replica.append(event.state)

    def task(self, *codes, **fields):
        self.see(self.tracker.task(look(*codes, **fields), 0.0))

    def report(self, rank, **what):
        self.see(self.tracker.report(_WORKERS[rank], what, 0.0))

    def started(self, task):
        for rank in (0, 1):
            self.report(rank, event="begun", id=str(task))
            self.report(rank, event="started")


def test_it_runs_when_all_programs_have_started_again_and_not_before():
    following = Following()
    following.task(0)
    following.started(1)
    following.task(17, 0, status="suspended")
    following.task(17, 0)
    following.started(2)
    assert following.job == [
        (State.PENDING, ""),
        (State.RUNNING, ""),
        (State.QUEUED, "Interrupted"),
        (State.RESTARTING, "Interrupted"),
        (State.RUNNING, ""),
    ]
    up = [ReplicaState.PENDING, ReplicaState.RUNNING]
    assert following.replica == [*up, ReplicaState.STOPPED, *up]


@pytest.mark.parametrize("end", [{}, {"status": "finished", "worker": "succeeded"}], ids=["runs again", "has ended"])
def test_an_interruption_between_two_polls_is_reported(end):
    following = Following()
    following.task(0)
    following.started(1)
    following.task(2048, 0, **end)
    assert following.job[2] == (State.RESTARTING, "HookRestart")
    assert following.replica[-1] is ReplicaState.PENDING


def test_the_rest_of_an_interrupted_task_s_log_changes_nothing():
    following = Following()
    following.task(0)
    following.started(1)
    following.task(17, 0)
    counts = len(following.replica), len(following.job)
    following.report(0, event="stopped", code=143)
    following.report(1, event="ended", code=143)
    following.report(0, event="again", why="worker-1 ended with exit code 143")
    assert (len(following.replica), len(following.job)) == counts


def test_an_agent_that_is_read_before_the_task_is_not_withdrawn():
    following = Following()
    following.task(0)
    following.started(1)
    following.report(0, event="begun", id="2")
    following.report(0, event="started")
    following.task(17, 0)
    assert following.job[-1] == (State.RESTARTING, "Interrupted")
    assert following.replica[-1] is ReplicaState.RUNNING


def test_what_failed_before_the_chain_went_on_is_not_blamed():
    following = Following()
    following.task(0)
    following.started(1)
    following.report(0, event="ended", code=3)
    following.report(0, **_FAILED)
    following.task(144, 0)
    assert following.replica[-2:] == [ReplicaState.STOPPED, ReplicaState.PENDING]
    following.started(2)
    following.task(144, 129, status="finished", worker="failed")
    assert following.tracker.last().reason == "ReplicaFailed"


@pytest.mark.parametrize(
    ("code", "reason"),
    [(129, "BackoffLimitExceeded"), (256, "BackoffLimitExceeded"), (640, "Watchdog"), (8320, "MarkedFailed")],
)
def test_the_agents_explain_a_failure_but_not_what_the_platform_did(code, reason):
    following = Following()
    following.task(0)
    following.started(1)
    following.report(0, **_FAILED)
    pods = [{"job_id": rank, "status": "failed", "exit_code": ""} for rank in (0, 1)]
    following.task(code, status="finished", worker="failed", _pods_=pods)
    last = following.tracker.last()
    assert (last.state, last.reason) == (State.FAILED, reason)
    by_a_rank = reason == "BackoffLimitExceeded"
    assert (last.replica == _WORKERS[1]) is by_a_rank
    following.see(following.tracker.ended(look(code, _pods_=pods), 0.0))
    assert following.replica[-1] is (ReplicaState.FAILED if code == 129 else ReplicaState.STOPPED)


@pytest.mark.parametrize(
    ("code", "status", "exit_code", "state"),
    [
        (1, "succeeded", "0", ReplicaState.SUCCEEDED),
        (4096, "succeeded", "nan", ReplicaState.STOPPED),
        (1024, "stopped", "nan", ReplicaState.STOPPED),
    ],
)
def test_a_rank_without_a_report_has_no_other_end_than_the_platform_knows(code, status, exit_code, state):
    following = Following()
    pods = [{"job_id": rank, "status": status, "exit_code": exit_code} for rank in (0, 1)]
    task = look(code, status="finished", worker=status, _pods_=pods)
    following.see(following.tracker.task(task, 0.0))
    following.see(following.tracker.ended(task, 0.0))
    assert following.replica == [state]


def test_a_ranks_exit_code_explains_a_failure_before_the_manager_if_rank_0_reported_none():
    following = Following()
    following.task(0)
    following.started(1)
    following.report(1, event="ended", code=7)
    following.task(256, status="finished", worker="failed")
    last = following.tracker.last()
    assert (last.reason, last.replica, last.message) == (
        "ReplicaFailed",
        _WORKERS[1],
        "worker-1 ended with exit code 7.",
    )


@pytest.mark.parametrize(
    ("codes", "first"),
    [(("", ""), None), (("7", "9"), None), (("", "9"), _WORKERS[1]), (("7", ""), _WORKERS[0])],
)
@pytest.mark.parametrize("code", [128, 256])
def test_of_several_failed_pods_none_is_the_first_unless_one_alone_has_an_exit_code(code, codes, first):
    following = Following()
    following.task(0)
    pods = [{"job_id": rank, "status": "failed", "exit_code": text} for rank, text in enumerate(codes)]
    following.task(code, status="finished", worker="failed", _pods_=pods)
    assert following.tracker.last().replica == first


def test_the_time_in_the_queue_after_a_suspension_is_not_part_of_a_run():
    tracker, replica = ChainTracker(_WORKERS[:1]), ReplicaStatus(role="worker", index=0)
    incarnations = Incarnations([replica])
    reports = [
        *tracker.task(look(0), 0.0),
        *tracker.report(_WORKERS[0], {"event": "begun", "id": "1"}, 1.0),
        *tracker.report(_WORKERS[0], {"event": "started"}, 5.0),
        *tracker.task(look(17, 0, status="suspended"), 10.0),
        *tracker.report(_WORKERS[0], {"event": "begun", "id": "2"}, 120.0),
        *tracker.report(_WORKERS[0], {"event": "started"}, 125.0),
        *tracker.report(_WORKERS[0], {"event": "ended", "code": 0}, 152.0),
    ]
    for event in reports:
        if isinstance(event, ReplicaChanged):
            incarnations.apply(event)
    assert [(item.started, item.ended) for item in replica.incarnations] == [(5.0, 10.0), (125.0, 152.0)]


def test_a_task_that_cannot_be_followed_is_reported_and_so_is_its_state_then():
    following = Following()
    following.see([following.tracker.unanswered("refused", 0.0)])
    following.task(0)
    following.started(1)
    following.see([following.tracker.unanswered("refused", 0.0)])
    following.task(0)
    following.task(0)
    assert following.job == [
        (State.UNKNOWN, "NotFollowed"),
        (State.PENDING, ""),
        (State.RUNNING, ""),
        (State.RUNNING, "NotFollowed"),
        (State.RUNNING, ""),
    ]

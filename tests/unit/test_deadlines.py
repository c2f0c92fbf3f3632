"""Each deadline from its own beginning."""

import pytest

from tfsteps.deadlines import Clock, Exceeded
from tfsteps.spec import Deadlines
from tfsteps.systems.base import JobChanged, LogLine, Replica, State, Tick

W0 = Replica("worker", 0)


def job(at, state):
    return JobChanged(at=at, state=state)


def line(at):
    return LogLine(at, W0, b"x")


@pytest.mark.parametrize(
    ("limits", "events", "now", "expected"),
    [
        ({}, [], 6 * 86400, None),
        ({}, [], 8 * 86400, "total"),
        ({"total": 5}, [job(1, State.RUNNING), line(4)], 6, "total"),
        ({"queue": 5}, [job(0, State.QUEUED)], 6, "queue"),
        ({"queue": 5}, [job(0, State.QUEUED), job(4, State.PENDING)], 60, None),
        ({"pending": 5}, [job(0, State.QUEUED)], 60, None),
        ({"pending": 5}, [job(0, State.QUEUED), job(50, State.PENDING)], 54, None),
        ({"pending": 5}, [job(0, State.QUEUED), job(50, State.PENDING)], 56, "pending"),
        ({"pending": 5}, [job(0, State.PENDING), job(4, State.RUNNING)], 60, None),
        ({"running": 5}, [job(0, State.PENDING)], 60, None),
        ({"running": 5}, [job(10, State.RUNNING)], 14, None),
        ({"running": 5}, [job(10, State.RUNNING), job(12, State.RESTARTING), job(14, State.RUNNING)], 16, "running"),
        ({"no_progress": 5}, [job(10, State.RUNNING), line(12)], 16, None),
        ({"no_progress": 5}, [job(10, State.RUNNING), line(12), Tick(16)], 18, "no_progress"),
        ({"running": 5, "total": 5}, [job(0, State.RUNNING)], 6, "running"),
    ],
)
def test_deadlines(limits, events, now, expected):
    clock = Clock(Deadlines(**limits), created=0, now=0)
    for event in events:
        clock.see(event)
    found = clock.exceeded(now)
    assert (found and found.name) == expected
    if found and expected in limits:
        assert found == Exceeded(expected, limits[expected])


def test_what_was_said_last_is_told():
    clock = Clock(Deadlines(pending=5), created=0, now=0)
    clock.see(JobChanged(at=0, state=State.PENDING))
    clock.see(JobChanged(at=1, state=State.PENDING, reason="Unschedulable", message="worker-0: no room"))
    assert clock.exceeded(7) == Exceeded("pending", 5, "Unschedulable: worker-0: no room")


def test_a_job_that_is_older_than_its_follower():
    clock = Clock(Deadlines(queue=5, pending=5, running=5, no_progress=5, total=200), created=0, now=100)
    assert clock.exceeded(104) is None, "nobody knows yet that it has left the queue long ago"
    clock.see(JobChanged(at=104, state=State.RUNNING))
    assert clock.exceeded(108) is None
    assert clock.exceeded(110).name == "running"
    assert clock.exceeded(201).name == "running"
    late = Clock(Deadlines(queue=5, total=200), created=0, now=100)
    assert late.exceeded(201).name == "total", "counted from its creation"
    late.see(JobChanged(at=101, state=State.QUEUED))
    assert late.exceeded(102).name == "queue"

"""Each deadline starts at its own event, and counts only time in which the job was visible."""

import random

import pytest

from tfsteps.launcher.deadlines import Clock, Exceeded
from tfsteps.runs.events import (
    JobChanged,
    LogLines,
    PartialLine,
    ReplicaChanged,
    ReplicaName,
    ReplicaState,
    State,
    Tick,
    UsageSampled,
)
from tfsteps.spec import Deadlines

W0 = ReplicaName("worker", 0)
HOURS = 3600.0
HELD = {State.QUEUED, State.SUSPENDED}


def job(state, **fields):
    return JobChanged(at=0, state=state, **fields)


def replica(state):
    return ReplicaChanged(at=0, replica=W0, state=ReplicaState(state))


def line(at=0, *, sidecar=False):
    return LogLines(at, W0, [b"x"], sidecar=sidecar)


class Follower:
    """A clock that is told of events, and ticks twice a second from 1000 on."""

    def __init__(self, age=0.0, **limits):
        self.clock = Clock(Deadlines(**limits), 1000.0)
        self.now, self.age = 1000.0, age
        self.tick()

    def tick(self, after=0.0, *, visible=True):
        self.now += after
        return self.clock.tick(self.now, visible=visible, age=self.age)

    def see(self, *events):
        for event in events:
            self.clock.apply(event)

    def passed(self, seconds, *, visible=True):
        """Return what passes within so many seconds, and after how many of them."""
        start = self.now
        while self.now < start + seconds:
            if exceeded := self.tick(0.5, visible=visible):
                return exceeded.name, self.now - start
        return None


@pytest.mark.parametrize(
    ("limits", "events", "expected"),
    [
        ({}, [], None),
        ({"total": 5}, [job(State.RUNNING)], ("total", 5.5)),
        ({"queue": 5}, [job(State.QUEUED)], ("queue", 6)),
        ({"queue": 5}, [], None),  # nobody knows yet whether it is queued
        ({"queue": 5}, [job(State.QUEUED), 4, job(State.PENDING)], None),
        ({"pending": 5}, [job(State.QUEUED)], None),
        ({"pending": 5}, [job(State.QUEUED), 4, job(State.PENDING)], ("pending", 6)),
        ({"pending": 5}, [job(State.PENDING), 4, job(State.RUNNING)], None),
        ({"pending": 5}, [job(State.RUNNING), job(State.PENDING)], None),
        ({"pending": 5}, [replica("pending"), job(State.RUNNING)], ("pending", 6)),
        ({"pending": 5}, [job(State.PENDING), replica("pending"), job(State.RUNNING), 4], ("pending", 2)),
        ({"pending": 5}, [job(State.RUNNING), 4, replica("restarting"), replica("pending")], None),
        ({"running": 5}, [replica("pending"), job(State.RUNNING)], ("running", 6)),
        ({"running": 5}, [job(State.PENDING)], None),
        ({"running": 5}, [job(State.RUNNING), 2, job(State.RESTARTING), 2, job(State.RUNNING)], ("running", 2)),
        ({"no_progress": 5}, [job(State.RUNNING), 3, line()], ("no_progress", 6)),
        ({"no_progress": 5}, [job(State.RUNNING), 3, line(sidecar=True)], ("no_progress", 3)),
        ({"no_progress": 5}, [job(State.RUNNING), 3, PartialLine(0, W0, b" 45%")], ("no_progress", 6)),
        ({"no_progress": 5}, [job(State.RUNNING), 3, UsageSampled()], ("no_progress", 3)),
        ({"no_progress": 5}, [job(State.RUNNING), 3, Tick(0)], ("no_progress", 3)),
        ({"no_progress": 5}, [job(State.QUEUED), 20, job(State.PENDING)], ("no_progress", 6)),
        ({"no_progress": 5}, [job(State.RUNNING), 3, job(State.QUEUED), 20], None),
        ({"running": 5, "total": 5.5}, [job(State.RUNNING)], ("running", 6)),
        # paused, or suspended by its queue
        ({"running": 5}, [job(State.RUNNING), 3, job(State.SUSPENDED), 20, job(State.PENDING)], ("running", 3.5)),
        ({"running": 5}, [job(State.RUNNING), 3, job(State.QUEUED), 20, job(State.RUNNING)], ("running", 3.5)),
        ({"running": 5}, [job(State.RUNNING), 3, job(State.SUSPENDED), job(State.UNKNOWN), 20], None),
        ({"running": 5}, [job(State.RUNNING), 3, job(State.UNKNOWN)], ("running", 3)),
        ({"no_progress": 5}, [job(State.RUNNING), 3, job(State.SUSPENDED), 20, job(State.PENDING)], ("no_progress", 6)),
        ({"pending": 5}, [job(State.SUSPENDED), 20, job(State.PENDING)], ("pending", 6)),
        ({"pending": 5}, [job(State.PENDING), 3, job(State.SUSPENDED), 20, job(State.PENDING)], ("pending", 3.5)),
        ({"pending": 5}, [job(State.PENDING), 3, job(State.QUEUED), 20, job(State.PENDING)], ("pending", 3.5)),
        (
            {"pending": 5},
            [job(State.RUNNING), 1, job(State.SUSPENDED), 1, replica("pending"), job(State.PENDING)],
            None,
        ),
        ({"pending": 5}, [job(State.UNKNOWN)], ("pending", 6)),
        ({"queue": 5}, [job(State.QUEUED), 3, job(State.SUSPENDED), 20, job(State.QUEUED)], ("queue", 3.5)),
        ({"queue": 5}, [job(State.SUSPENDED)], None),
        ({"queue": 5}, [job(State.QUEUED), 3, job(State.RUNNING), 1, job(State.QUEUED)], None),
        ({"total": 5}, [job(State.SUSPENDED)], ("total", 5.5)),
        ({"total": 5}, [job(State.QUEUED)], ("total", 5.5)),
    ],
)
def test_deadlines(limits, events, expected):
    follower = Follower(**limits)
    for event in events:
        if isinstance(event, int):
            assert follower.passed(event) is None
        else:
            follower.see(event)
    assert follower.passed(30) == expected


def test_the_last_message_is_in_the_deadline_message():
    follower = Follower(pending=5)
    follower.see(job(State.PENDING), job(State.PENDING, reason="Unschedulable", message="worker-0: no room"))
    assert follower.tick(0.5) is None
    for _ in range(10):
        follower.tick(0.5)
    assert follower.tick(0.5) == Exceeded("pending", 5, "Unschedulable: worker-0: no room")


def test_a_job_that_is_older_than_its_follower():
    limits = {"queue": 5, "pending": 5, "running": 5, "no_progress": 5}
    follower = Follower(age=2 * HOURS, **limits, total=3 * HOURS)
    follower.see(job(State.RUNNING), line(1.0))
    assert follower.passed(5) is None, "what came before is not known, and must not end the job"
    assert Follower(age=2 * HOURS, total=2 * HOURS + 5).passed(60) == ("total", 5.5)
    assert Follower(age=2 * HOURS, total=HOURS).tick(0.5).name == "total"


@pytest.mark.parametrize("at", [0.0, 1.0, -2 * HOURS, 1e18, float("nan")])
def test_the_stamp_of_an_event_means_nothing(at):
    follower = Follower(no_progress=5, running=5)
    change = ReplicaChanged(at=at, replica=W0, state=ReplicaState.RUNNING)
    for event in (JobChanged(at=at, state=State.RUNNING), line(at), change):
        follower.see(event)
    assert follower.passed(5) is None
    assert follower.passed(5) == ("running", 1)


def test_time_in_which_nothing_can_be_seen_does_not_count():
    follower = Follower(running=5, no_progress=4)
    follower.see(job(State.RUNNING))
    assert follower.passed(3) is None
    assert follower.passed(HOURS, visible=False) is None
    assert follower.passed(2) is None, "what was printed meanwhile is not known, so its silence starts again"
    assert follower.passed(2) == ("running", 1.5)


@pytest.mark.parametrize("gap", [15, 12 * HOURS])
def test_time_in_which_the_launcher_stood_still_does_not_count(gap):
    follower = Follower(running=20, no_progress=5)
    follower.see(job(State.RUNNING))
    for _ in range(8):
        assert follower.passed(2) is None
        assert follower.tick(gap) is None


def test_a_launcher_that_stands_still_again_and_again_gets_there():
    follower = Follower(running=5)
    follower.see(job(State.RUNNING))
    assert any(follower.tick(60) for _ in range(20))


def random_scenario(chance):
    """Yield steps of a job's life: ticks, some of them late or blind, and events with any stamp."""
    wild = [0.0, -1e9, 1e12, float("inf"), float("nan"), 1e9]
    for _ in range(chance.randrange(20, 400)):
        match chance.randrange(8):
            case 0:
                yield job(chance.choice([state for state in State if not state.terminal]))
            case 1:
                yield line(chance.choice(wild))
            case 2:
                yield ReplicaChanged(at=chance.choice(wild), replica=W0, state=chance.choice(list(ReplicaState)))
            case 3:
                yield chance.choice([6.0, 60.0, 1e6]), chance.random() < 0.5  # stood still
            case _:
                yield chance.choice([0.0, 0.5, 0.5, 0.625, 3.0]), chance.random() < 0.9


def test_no_deadline_passes_before_its_time():
    """Whatever happens: each deadline needs its seconds between ticks at which the job was visible, without a stall.

    Of those, `total` alone counts the seconds in which the job is queued or suspended, and `queue` no others.
    """
    passed = {name for seed in range(1000) for name in passed_in_scenario(random.Random(seed))}
    assert passed == {"queue", "pending", "running", "no_progress", "total"}


def passed_in_scenario(chance):
    limits = {name: chance.choice([None, 1.0, 5.0, 30.0]) for name in ("queue", "pending", "running", "no_progress")}
    age, total = chance.choice([0.0, 0.0, 20.0]), chance.choice([30.0, 100.0])
    follower = Follower(age=age, **limits, total=total)
    seconds = dict.fromkeys(("free", "queued", "silent", "visible"), 0.0)
    was_visible, was_held, states, passed = True, False, [], set()
    for step in random_scenario(chance):
        if not isinstance(step, tuple):
            follower.see(step)
            states += [step.state] if isinstance(step, JobChanged) else []
            seconds["silent"] = 0.0
            continue
        after, sees = step
        counted = (0.5 if after > 5 else after) if sees and was_visible else 0.0
        held = bool(known := [state for state in states if state is not State.UNKNOWN]) and known[-1] in HELD
        counting = {"visible", *(() if held or was_held else ("free", "silent")), *(("queued",) if held else ())}
        seconds = {name: value + (counted if name in counting else 0.0) for name, value in seconds.items()}
        was_visible, was_held = sees, held
        exceeded = follower.tick(after, visible=sees)
        assert exceeded or seconds["visible"] + age <= total
        if exceeded:
            passed.add(exceeded.name)
            needed = {"no_progress": "silent", "total": "visible", "queue": "queued"}.get(exceeded.name, "free")
            assert seconds[needed] + (age if exceeded.name == "total" else 0.0) > exceeded.limit
            assert held == (exceeded.name == "queue") or exceeded.name == "total"
            assert exceeded.name != "running" or State.RUNNING in states
            assert exceeded.name != "queue" or set(states) <= {*HELD, State.UNKNOWN}
    return passed


# --- a job that is pending for long


def notices(follower, seconds):
    """Return the notices of so many seconds, each with the time of the clock at which it came."""
    exceeded = []
    for _ in range(int(2 * seconds)):
        assert follower.tick(0.5) is None
        if text := follower.clock.notice():
            exceeded.append((round(follower.now - 1000), text))
    return exceeded


def test_a_pending_job_without_a_deadline_is_reported_with_the_reason_ever_more_seldom():
    follower = Follower()
    follower.see(job(State.PENDING, reason="FailedCreate", message="a policy forbids it."))
    (first, text), *more = notices(follower, 5000)
    assert first == 600
    assert text == (
        "Still pending after 10m (FailedCreate: a policy forbids it). No deadline `pending` is set: "
        "the job waits until `total`, 7d, has passed."
    )
    assert [round(at, -2) for at, _ in more] == [1200, 2400, 4800]


@pytest.mark.parametrize(
    ("limits", "events"),
    [
        ({"pending": 9000}, [job(State.PENDING)]),
        ({}, []),
        ({}, [job(State.QUEUED)]),
        ({}, [job(State.PENDING), job(State.RUNNING)]),
        ({}, [job(State.PENDING), job(State.QUEUED)]),
        ({}, [job(State.SUSPENDED)]),
    ],
)
def test_a_job_that_is_queued_or_suspended_or_runs_or_has_a_deadline_is_not_reported(limits, events):
    follower = Follower(**limits)
    follower.see(*events)
    assert notices(follower, 2000) == []

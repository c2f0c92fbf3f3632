"""What every launcher prints of its job, apart from log lines."""

import io

import pytest

from tfsteps.launcher.printer import Printer
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.location import Location
from tfsteps.runs.status import Status


def printed(location, *states):
    """Return what is printed of a job that has these states one after another, each with a message or without."""
    status = Status(identity=Identity(run="r", task="t"), job="j", system="s", location=location, created=0.0)
    out = io.StringIO()
    printer = Printer(out, title="mnist")
    for status.state, status.message in states:
        printer.changed(status)
    return out.getvalue().splitlines()


def test_each_state_is_printed_once_with_its_message():
    waiting = (State.PENDING, "no node fits")
    lines = printed(Location.KUBERNETES, waiting, waiting, (State.RUNNING, ""), (State.RUNNING, ""))
    assert lines == ["mnist: pending: no node fits", "mnist: running"]


@pytest.mark.parametrize("location", [Location.KUBERNETES, "hai"])
def test_the_end_is_printed_at_once_without_the_reason_which_follows(location):
    assert printed(location, (State.RUNNING, ""), (State.FAILED, "worker-0 failed")) == [
        "mnist: running",
        "mnist: failed",
    ]


def test_the_end_of_a_job_on_this_machine_is_not_printed_twice():
    assert printed(Location.LOCAL, (State.RUNNING, ""), (State.SUCCEEDED, "")) == ["mnist: running"]


def test_a_job_that_has_ended_before_is_not_announced():
    assert printed(Location.KUBERNETES, (State.SUCCEEDED, "")) == []

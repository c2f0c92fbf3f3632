"""What a job is told of the signals that ask its launcher to stop."""

import pathlib
import signal

import pytest

from tfsteps.launcher.stop_requests import StopRequests
from tfsteps.runs.store import AttemptFolder
from tfsteps.systems.base import Cause


class Job:
    def __init__(self):
        self.causes = []

    def stop(self, cause):
        self.causes.append(cause)

    def give_up(self):
        """Do nothing."""


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (signal.SIGINT, Cause.INTERRUPTED),
        (signal.SIGTERM, Cause.CANCELLED),
        (signal.SIGHUP, Cause.CANCELLED),  # Jupyter sends it to its terminals when its pod ends
    ],
)
@pytest.mark.parametrize("before", [True, False], ids=["before the job", "while it runs"])
def test_ctrl_c_alone_certainly_comes_from_a_person(number, cause, before):
    job = Job()
    stop = StopRequests(job, AttemptFolder(pathlib.Path("none")))
    if not before:
        stop.attach(job)
    stop.signals.append(number)
    stop.request()
    if before:
        stop.attach(job)
    assert job.causes == [cause]

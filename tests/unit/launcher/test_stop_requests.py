"""What a job is told of the signals that ask its launcher to stop."""

import pathlib
import signal

import pytest

from tfsteps.launcher.signals import StopRequests
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
def test_without_a_command_ctrl_c_alone_certainly_comes_from_a_person(number, cause, before):
    assert causes_of(AttemptFolder(pathlib.Path("none")), number, before=before) == [cause]


@pytest.mark.parametrize("before", [True, False], ids=["before the job", "while it runs"])
def test_a_stop_by_command_comes_from_a_person_also_in_a_pod(tmp_path, before):
    (tmp_path / "stop-requested").touch()
    assert causes_of(AttemptFolder(tmp_path), signal.SIGTERM, before=before) == [Cause.INTERRUPTED]


def test_a_folder_that_cannot_be_read_does_not_fail_the_signal_handler():
    assert causes_of(AttemptFolder(pathlib.Path("x" * 5000)), signal.SIGTERM, before=True) == [Cause.CANCELLED]


def causes_of(attempt, number, *, before):
    """Return what a job is told of a signal that comes before it exists, or while it runs."""
    job = Job()
    stop = StopRequests(job, attempt)
    if not before:
        stop.attach(job)
    stop.signals.append(number)
    stop.request()
    if before:
        stop.attach(job)
    return job.causes

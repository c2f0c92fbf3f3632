"""What a launcher says of a job whose stop the platform has not accepted: no more than it knows."""

import pytest

from tfsteps.kube.errors import ApiError
from tfsteps.systems.base import Cause, LaunchError
from tfsteps.systems.stop_controller import Clients, StopController

NOBODY = Clients(None, None)


class Job:
    """A job whose stop ends with an error."""

    what, refused, ended = "TFJob ml/mnist", "it could not be deleted", False

    def __init__(self, error):
        self.error = error

    def begin_stop(self, sentence):
        pass

    def send_stop(self, client):
        raise self.error


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (403, "TFJob ml/mnist was not stopped: it could not be deleted: "),
        (503, "whether TFJob ml/mnist was stopped is not known: it could not be deleted: "),
    ],
)
def test_a_stop_without_an_answer_may_have_ended_the_job(status, expected):
    error = ApiError("refused", status=status)
    stop = StopController(Job(error), dict.fromkeys(Cause, -1.0), -1.0)
    stop.begin(Cause.CANCELLED, NOBODY)
    with pytest.raises(LaunchError) as caught:
        stop.continue_stop(NOBODY, None)
    assert str(caught.value).startswith(expected)
    assert "continues" not in str(caught.value)

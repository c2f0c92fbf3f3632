import signal
from types import SimpleNamespace

import pytest

from tfsteps.launcher.signals import StopRequests
from tfsteps.runs.store import AttemptFolder


@pytest.mark.parametrize(
    ("signals", "on_cluster", "seconds"),
    [
        ([], True, 10.0),
        ([signal.SIGTERM], True, 0.1),  # Kubeflow Pipelines ends a step's process within a second
        ([signal.SIGINT, signal.SIGTERM], True, 0.1),
        ([signal.SIGINT], True, 2.0),
        ([signal.SIGTERM], False, 2.0),  # `tfsteps stop` of a local run
    ],
)
def test_the_longest_wait_for_notifications_at_the_end_of_a_step(signals, on_cluster, seconds, tmp_path):
    stop = StopRequests(SimpleNamespace(outlives_launcher=on_cluster), AttemptFolder(tmp_path))
    stop.signals += signals
    assert stop.notify_seconds() == seconds

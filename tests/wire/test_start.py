"""A start that is asked to end."""

import pathlib
import time

import pytest

from tests.wire.scripted import refusal, serve
from tfsteps import spec
from tfsteps.cluster import access
from tfsteps.identity import Identity
from tfsteps.systems import kubeflow
from tfsteps.systems.base import StoppedError

JOB = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {}}})
WHO = Identity(run="r", task="t")


def test_a_signal_that_comes_just_before_it(monkeypatch):
    with serve([refusal(503)]) as server:
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        system = kubeflow.system()
        places = system.places(JOB, WHO, pathlib.Path())
        system.give_up()
        begun = time.monotonic()
        with pytest.raises(StoppedError, match="not known"):
            system.start(JOB, WHO, places)
        assert time.monotonic() - begun < 60, "a server that does not answer is asked for minutes"
        assert [asked.method for asked in server.asked] == ["GET", "GET"], "the last is to see whether there is a job"

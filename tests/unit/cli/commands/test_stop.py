"""`tfsteps stop` of runs whose launcher, on this machine, was killed."""

import os
import re

import pytest

from tests.unit.cli.command import output_lines, tfsteps
from tests.unit.cli.statuses import saved
from tfsteps.runs.events import State


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("status", "where"),
    [
        ({"system": "kubeflow", "namespace": "ml"}, "--on kubernetes --namespace ml"),
        ({"system": "jobset"}, "--on kubernetes"),
    ],
)
def test_a_job_that_may_continue_elsewhere_is_an_error_that_names_the_place(status, where):
    saved(run="r1", **status)
    code, out, err = tfsteps("stop", "r1")
    assert code == 2
    assert out.startswith("already ended: mnist lost")
    assert err == f"error: run r1: mnist may go on, its launcher was killed; `tfsteps stop r1 {where}` stops it\n"


@pytest.mark.parametrize("seen", [True, False])
def test_local_replicas_ended_with_their_launcher_if_that_was_seen(seen):
    attempt, lock = saved(run="r1", system="local", hold=True)
    os.close(lock._file)  # as the kernel does with that of a killed launcher
    if seen:
        attempt.replicas_ended.touch()
    (line,) = output_lines("stop", "r1")
    rest = "its replicas were stopped too" if seen else "it is not known whether its replicas were stopped too"
    assert re.match(rf"already ended: mnist lost .*The launcher was killed; {rest}\.", line)


@pytest.mark.parametrize("text", ["mnist", "latest", "2026", "20261129-r"])
def test_it_prints_the_id_of_the_run_that_it_chose(text):
    saved(run="20261129-r", system="local", state=State.SUCCEEDED)
    code, _, err = tfsteps("stop", text)
    assert (code, err) == (0, "" if text == "20261129-r" else f"{text} is run 20261129-r\n")

"""`tfsteps report`: reports written again, and opened."""

import os
import subprocess

import msgspec
import pytest

from tests.support import finished
from tests.unit.cli.command import COMMAND, output_lines, refused
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.store import AttemptFolder


def test_report_is_written_again_for_the_newest_attempt():
    attempt = finished.failed()
    assert not attempt.report.exists()
    assert output_lines("report", "latest") == [str(attempt.report)]
    assert "</html>" in attempt.report.read_text()


def test_report_names_the_path_that_it_cannot_write():
    attempt = finished.succeeded()
    attempt.report.mkdir()
    assert f"{attempt.report} cannot be written: " in refused("report", "latest")


def again(attempt):
    """Copy an attempt as the next one of its task, and return it."""
    status = attempt.status()
    status.identity = msgspec.structs.replace(status.identity, attempt=status.identity.attempt + 1)
    following = AttemptFolder.of(status.identity)
    following.folder.mkdir()
    following.write(status)
    return following


def test_a_run_with_several_attempts_has_a_report_which_comes_first():
    first = finished.failed()
    second = again(first)
    page = store.run_report("k7c2m9x4qp")
    assert output_lines("report", "latest") == [str(page), str(second.report), str(first.report)], (
        "no report is missing"
    )
    assert output_lines("report", "latest") == [str(page), str(second.report)]
    assert output_lines("report", "latest", "--attempt", "0") == [str(first.report)]
    assert output_lines("report", "latest", "--task", "mnist") == [str(second.report)]
    assert "mnist/1/report.html" in page.read_text()


def test_a_report_does_not_make_its_run_the_latest():
    again(finished.failed())
    os.utime(store.run_folder("k7c2m9x4qp"), (1, 1))
    store.run_folder("newer").mkdir()
    output_lines("report", "k7c2m9x4qp")
    assert store.runs() == ["k7c2m9x4qp", "newer"]


def test_a_pipeline_that_ended_without_a_job_has_a_report():
    PipelineRecord(run="r1", pipeline="p", state=State.FAILED, message="no image", created=1, ended=2).write()
    assert output_lines("report", "p") == [str(store.run_report("r1"))]
    assert "no image" in store.run_report("r1").read_text()


def test_the_report_of_a_run_names_the_path_that_it_cannot_write():
    again(finished.failed())
    store.run_report("k7c2m9x4qp").mkdir()
    err = refused("report", "latest")
    assert f"{store.run_report('k7c2m9x4qp')} cannot be written: " in err
    assert "free some space" not in err, "the disk is not full"


def test_unknown_runs_and_tasks():
    finished.failed()
    assert "run 'nothing' is unknown" in refused("report", "nothing")
    assert "fit" in refused("report", "latest", "--task", "fit")


@pytest.fixture
def browser(tmp_path):
    """The environment of a user whose browser writes down the address that it opens, and the path of that file."""
    program, address = tmp_path / "browser", tmp_path / "address"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {address}\n')
    program.chmod(0o755)
    return {**os.environ, "BROWSER": f"{program} %s"}, address


def test_open_shows_the_first_report(browser):
    attempt = finished.succeeded()
    env, address = browser
    done = subprocess.run([COMMAND, "report", "latest", "--open"], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{attempt.report}\n", "")
    assert address.read_text() == attempt.report.as_uri()


def test_open_shows_the_page_of_runs(browser, home):
    finished.succeeded()
    env, address = browser
    done = subprocess.run([COMMAND, "runs", "--open"], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{home / 'runs.html'}\n", "")
    assert address.read_text() == (home / "runs.html").as_uri()


def test_open_without_a_browser_names_the_path(tmp_path):
    attempt = finished.succeeded()
    hidden = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"}
    env = {name: value for name, value in os.environ.items() if name not in hidden} | {"PATH": str(tmp_path)}
    done = subprocess.run([COMMAND, "report", "latest", "--open"], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{attempt.report}\n"
    assert f"warning: no browser could be started: open {attempt.report} yourself" in done.stderr

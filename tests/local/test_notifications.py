"""Notifications of real jobs to a real HTTP server: the job's outcome never depends on it, and the URL is nowhere."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest

from tests.support.processes import started
from tests.support.waiting import read_until
from tests.support.webhook_receiver import PATH, receiver
from tests.unit.cli.command import COMMAND
from tfsteps.launcher.exit_codes import ExitCode

PIPELINES = pathlib.Path(__file__).parents[2] / "pipelines"
SECRET = PATH.rpartition("/")[2]
ALL = "[succeeded, failed, deadline, cancelled, restarting]"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of the job file and of the records; no file in it contains the URL at the end."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))
    yield here
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert [file for file in files if SECRET in file.read_text(errors="replace")] == []


@pytest.fixture
def server(monkeypatch):
    with receiver() as server:
        monkeypatch.setenv("TFSTEPS_WEBHOOK_URL", server.url)
        yield server


def job(code, more="", notify=f"[{{events: {ALL}}}]"):
    text = json.dumps(["sh", "-c", code])
    pathlib.Path("job.yaml").write_text(
        f"name: mnist\nroles: {{worker: {{}}}}\ncommand: {text}\nnotify: {notify}\n{more}\n"
    )
    return "job.yaml"


def tfsteps(*args):
    done = subprocess.run([COMMAND, *args], capture_output=True, text=True, check=False, timeout=150)
    assert SECRET not in done.stdout + done.stderr
    return done


@pytest.mark.parametrize(
    ("code", "more", "exit_code", "event"),
    [
        ("exit 0", "", ExitCode.SUCCEEDED, "succeeded"),
        ("exit 3", "", ExitCode.FAILED, "failed"),
        ("sleep 600", "deadlines: {running: 1s}", ExitCode.DEADLINE, "deadline"),
    ],
)
def test_the_end_of_a_job(server, code, more, exit_code, event):
    done = tfsteps("run", job(code, more), "--run-id", "r1")
    assert done.returncode == exit_code
    (request,) = server.requests
    body = request.body
    assert request.path == PATH
    assert (body["event"], body["run"], body["task"], body["attempt"]) == (event, "r1", "mnist", 0)
    assert (body["schema"], body["system"], body["scope"]) == ("tfsteps.dev/notification/v1", "local", "job")
    assert body["id"] == request.headers["Idempotency-Key"]
    (status,) = json.loads(tfsteps("show", "r1", "--output", "json").stdout)["attempts"]
    assert (body["failure"] or {}).get("summary") == (status.get("failure") or {}).get("summary")


def test_a_restart_and_the_success_after_it(server):
    code = "test -e done && exit 0; touch done; exit 7"
    assert tfsteps("run", job(code, "restart: on_failure")).returncode == 0
    assert server.events() == ["restarting", "succeeded"]


def test_ctrl_c_and_the_notification_of_it(server):
    command = [COMMAND, "run", job("echo asleep; exec sleep 600")]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        read_until(process, "asleep")
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == ExitCode.CANCELLED
    assert server.events() == ["cancelled"]


def test_the_replicas_do_not_get_the_url(server):
    done = tfsteps("run", job("env; exit 0"))
    assert done.returncode == 0
    assert "TFSTEPS_RUN_ID=" in done.stdout
    assert "WEBHOOK" not in done.stdout


def test_a_receiver_that_answers_500_gets_the_same_notification_again(server):
    server.answers = [(500, {}), (503, {})]
    assert tfsteps("run", job("exit 3")).returncode == ExitCode.FAILED
    assert len({request.body["id"] for request in server.requests}) == 1
    assert server.events() == ["failed"] * 3


@pytest.mark.parametrize(
    ("answer", "warning"),
    [
        ((404, {}), "it refuses them with status 404; check the URL and the format"),
        ((302, {"Location": "http://127.0.0.1:1/other"}), "it answers with status 302, a redirect"),
    ],
)
def test_a_receiver_that_refuses_is_one_warning(server, answer, warning):
    server.answers = [answer] * 2
    done = tfsteps("run", job("test -e done && exit 0; touch done; exit 7", "restart: on_failure"))
    assert done.returncode == 0
    assert server.events() == ["restarting", "succeeded"]
    assert (done.stdout + done.stderr).count(warning) == 1


def test_a_receiver_that_hangs_holds_no_job_back(server):
    """The job can only go on after a restart whose notification is not answered before the job's end."""
    server.hold()
    done = tfsteps("run", job("test -e done && exit 3; touch done; exit 7", "restart: on_failure\nbackoff_limit: 1"))
    assert done.returncode == ExitCode.FAILED
    assert "were not accepted before the end of the step" in done.stdout + done.stderr
    assert server.events() in (["restarting"], ["restarting", "failed"]), "the last is tried once if there is time"


def test_a_receiver_that_is_down(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        monkeypatch.setenv("TFSTEPS_WEBHOOK_URL", f"http://127.0.0.1:{unused.getsockname()[1]}{PATH}")
    done = tfsteps("run", job("exit 0"))
    assert done.returncode == 0
    assert "the end of the step: it cannot be reached: Connection refused" in done.stdout + done.stderr


def test_slacks_form(server):
    assert tfsteps("run", job("exit 3", notify="[{format: slack}]"), "--run-id", "r1").returncode == ExitCode.FAILED
    (request,) = server.requests
    assert request.body["text"].startswith("mnist failed after ")
    assert "run `r1`" in request.body["blocks"][1]["elements"][0]["text"]


def test_a_wrong_url_is_an_error_before_anything_is_created(monkeypatch):
    monkeypatch.setenv("TFSTEPS_WEBHOOK_URL", f"file://{PATH}")
    done = tfsteps("run", job("exit 0"), "--run-id", "r1")
    assert done.returncode == ExitCode.USAGE
    assert "notify[0].url.env: the URL in TFSTEPS_WEBHOOK_URL does not begin with https:// or http://" in done.stderr
    assert not (pathlib.Path(os.environ["TFSTEPS_HOME"]) / "runs" / "r1").exists()


def test_without_the_variable_the_job_runs_with_a_warning():
    done = tfsteps("run", job("exit 0"))
    assert done.returncode == 0
    assert (
        "A webhook is not called: the launcher's variable TFSTEPS_WEBHOOK_URL is not set" in done.stdout + done.stderr
    )


def test_a_plan_does_not_show_the_url(server):
    planned = tfsteps("run", job("exit 0"), "--dry-run")
    assert planned.returncode == 0
    assert "TFSTEPS_WEBHOOK" not in planned.stdout
    assert server.requests == []


def test_a_url_in_the_job_file_is_an_error_that_does_not_show_it():
    done = tfsteps("run", job("exit 0", notify=f"[{{url: 'https://hooks.example{PATH}'}}]"))
    pathlib.Path("job.yaml").unlink()
    pathlib.Path("empty").touch()
    assert done.returncode == ExitCode.USAGE
    assert "notify[0].url: expected a mapping, got a text" in done.stderr
    assert "hooks.example" not in done.stderr


def test_a_pipeline_whose_step_fails_is_notified_by_the_launcher_and_by_the_exit_task(server):
    program = [sys.executable, PIPELINES / "notifications.py"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == ExitCode.FAILED, done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    of_job, of_run = (request.body for request in server.requests)
    assert (of_job["scope"], of_job["event"], of_job["failure"]["replica"]) == ("job", "failed", "worker-1")
    assert (of_run["scope"], of_run["event"], of_run["state"]) == ("run", "failed", "FAILED")
    assert of_run["run"] == of_job["run"]
    assert of_run["pipeline"] == of_job["pipeline"] == "notifications"


def test_a_pipeline_that_succeeds_is_not_notified(server):
    program = [sys.executable, PIPELINES / "notifications.py", "--settings", "{}"]
    assert subprocess.run(program, capture_output=True, check=False, timeout=150).returncode == 0
    assert server.requests == []

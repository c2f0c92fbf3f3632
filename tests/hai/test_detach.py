"""Tasks on HAI without a launcher: `run --detach`, `attach`, `rerun` and `clear` at a terminal."""

import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from tests.hai.environment import HaiEnvironment
from tests.support.waiting import read_until, until
from tests.unit.cli.command import COMMAND
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.store import AttemptFolder

WAITS = "echo up; while [ ! -e go ]; do sleep 0.1; done; echo end"
PLACE = ("--on", "hai")


@pytest.fixture
def platform(tmp_path, monkeypatch):
    with HaiEnvironment(tmp_path / "hai") as environment:
        for name, value in environment.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        quick = {"finish": "1s", "grace": "2s", "sigterm_delay": "1s", "workspace": str(tmp_path)}
        job = {"name": "quick", "command": ["sh", "-c", WAITS], "roles": {"worker": {}}, "systems": {"hai": quick}}
        pathlib.Path("job.json").write_text(json.dumps(job))
        yield environment


def tfsteps(*args):
    return subprocess.run([COMMAND, *args], capture_output=True, text=True, check=False, timeout=150)


def attached(*args):
    command = [COMMAND, "attach", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


@pytest.mark.usefixtures("platform")
def test_a_detached_task_is_followed_left_again_and_finished():
    done = tfsteps("run", "job.json", *PLACE, "--detach", "--run-id", "r1")
    assert done.returncode == 0, done.stderr
    assert "follow it:  tfsteps attach r1 --on hai" in done.stdout.splitlines()
    assert "hai and the janitor enforce `total` (7d) while no launcher follows the job" in done.stdout
    attempt = AttemptFolder.of(Identity(run="r1", task="quick"))
    assert (attempt.status().state, attempt.status().reason) == (State.UNKNOWN, "Detached")
    with attached("r1") as process:  # its record says where it is
        read_until(process, r"\] up")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, "run r1 was not stopped; `tfsteps attach r1 --on hai` follows it again" in err) == (
        130,
        True,
    )
    with attached("r1", *PLACE) as process:
        read_until(process, r"\] up")
        pathlib.Path("go").touch()
        out, _ = process.communicate(timeout=120)
    assert process.returncode == ExitCode.SUCCEEDED
    assert re.match(r"quick succeeded after ", out.splitlines()[-1])
    assert attempt.status().state is State.SUCCEEDED
    again = tfsteps("rerun", "r1", "--run-id", "r2")
    assert (again.returncode, again.stdout.splitlines()[0]) == (0, "again: run r1, without changes")


@pytest.mark.usefixtures("platform")
def test_clear_stops_the_tasks_of_one_run():
    for run in ("r1", "r2"):
        assert tfsteps("run", "job.json", *PLACE, "--detach", "--run-id", run).returncode == 0
    done = tfsteps("clear", "r1", "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "run r1 cleared")
    assert re.search(r"^  job quick-\w+ on HAI$", done.stdout, re.MULTILINE)
    states = {item["run"]: item["state"] for item in json.loads(tfsteps("runs", *PLACE, "--output", "json").stdout)}
    assert (states["r1"], states["r2"] in ("running", "pending", "queued")) == ("cancelled", True)
    pathlib.Path("go").touch()
    until(lambda: tfsteps("attach", "r2", *PLACE).returncode == 0)

"""`tfsteps logs` and `tfsteps shell` on a real cluster: restarted containers, and commands in running ones."""

import os
import re
import subprocess

import pytest

from tests.cluster.build import build
from tests.support.shell import printing
from tests.support.waiting import read_until, until
from tests.unit.cli.command import COMMAND
from tfsteps.launcher.exit_codes import ExitCode

pytestmark = pytest.mark.cluster
AGAIN = "restart: on_failure\nbackoff_limit: 3\nvolumes: [{empty_dir: 1Mi, mount: /once}]"
FIRST = printing("echo begun; touch /once/x; echo oops; exit 7")
TWICE = f"test -e /once/x || {{ {FIRST}; }}; echo begun; echo loss 2; trap 'exit 0' TERM; sleep 600 & wait"


@pytest.fixture
def kubectl(monkeypatch, tmp_path):
    """Have the kubectl of the test cluster in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kubectl").symlink_to(build()["kubectl"])
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def shell(terminal, run, *args, typed=""):
    command = [COMMAND, "shell", run, *terminal.place, *args]
    return subprocess.run(command, input=typed, capture_output=True, text=True, check=False, timeout=90)


def test_the_log_of_a_restarted_container_is_marked_searched_and_cut_by_time(terminal):
    """While it runs: once it has ended, its node drops the log from before the restart."""
    mark = "--- worker-0, restart 1 ---"
    lines = ["[worker-0] begun", "[worker-0] oops", mark, "[worker-0] begun", "[worker-0] loss 2"]
    with terminal.started("run", terminal.job(TWICE, AGAIN), "--run-id", "twice") as launcher:
        read_until(launcher, "loss 2")
        until(lambda: mark in terminal.tfsteps("logs", "twice").stdout)  # a kubelet may tell late
        assert terminal.tfsteps("logs", "twice").stdout.splitlines() == lines
        unknown = terminal.tfsteps("logs", "twice", "worker-1")
        assert (unknown.returncode, unknown.stdout) == (ExitCode.USAGE, "")
        assert unknown.stderr == "error: run twice: replica 'worker-1' is unknown; it has worker-0\n"
        searched = terminal.tfsteps("logs", "twice", "worker", "--grep", r"^LOSS \d$", "-i", "--tail", "1")
        assert searched.stdout.splitlines() == [mark, lines[-1]]

        stamped = terminal.tfsteps("logs", "twice", "--timestamps").stdout.splitlines()
        restart = stamped[2].split()[0]
        assert stamped[2] == f"{restart} {mark}"
        assert terminal.tfsteps("logs", "twice", "--since", restart).stdout.splitlines() == lines[2:]
        with terminal.started("logs", "twice", "--follow", "--grep", "begun") as logs:
            assert [logs.stdout.readline().strip() for _ in range(3)] == [lines[0], mark, lines[3]]
            assert terminal.tfsteps("stop", "twice", "--now").returncode == 0
            assert logs.communicate(timeout=60)[0] == ""
        launcher.wait(100)


@pytest.mark.usefixtures("kubectl")
def test_a_command_runs_in_the_container_of_a_running_replica(terminal):
    job = terminal.job(
        "echo ready; trap 'exit 0' TERM; sleep 600 & wait", "env: {LR: '0.1'}", "{chief: {}, worker: {}}"
    )
    with terminal.started("run", job, "--run-id", "open") as launcher:
        read_until(launcher, r"chief-0. ready")
        until(
            lambda: re.search(r"chief-0 +running", terminal.tfsteps("show", "open").stdout)
        )  # a kubelet may tell late
        script = "echo $TFSTEPS_ROLE $LR; cat; echo wrong >&2; exit 41"
        done = shell(terminal, "open", "--", "sh", "-c", script, typed="typed\n")
        assert (done.returncode, done.stdout) == (41, "chief 0.1\ntyped\n")
        assert done.stderr.startswith("wrong\n")
        interactive = shell(terminal, "open", "chief", typed="hostname; exit 3\n")
        assert interactive.returncode == 3
        assert interactive.stdout.strip().endswith("-chief-0")
        terminal.tfsteps("stop", "open", "--now")
        launcher.wait(100)

"""`tfsteps logs` and `tfsteps shell` beside real jobs of this machine."""

import json
import os
import signal

import pytest

from tests.local.test_cli import folder, script, started, tfsteps  # noqa: F401  a fixture
from tests.support.waiting import read_until
from tfsteps.launcher.exit_codes import ExitCode

TWICE = "echo begun; test -e again || { touch again; echo oops; exit 7; }; echo loss $((1 + 1)); sleep 0.3"
ENVIRONMENT = 'echo "$TF_CONFIG"; echo "$TFSTEPS_RUN_ID $LR"; pwd'


def restarting(code):
    """Write a job of one worker that is started again after a failure."""
    return script(code, "restart: on_failure\nbackoff_limit: 3\nenv: {LR: '0.1'}", "{worker: {}}")


@pytest.mark.parametrize("while_it_runs", [True, False])
def test_the_second_incarnation_of_a_replica_is_marked(while_it_runs):
    lines = ["begun", "oops", "--- worker-0, restart 1 ---", "begun", "loss 2"]
    shown = [line if line.startswith("---") else f"[worker-0] {line}" for line in lines]
    with started("run", restarting(TWICE), "--run-id", "r1") as process:
        read_until(process, "begun")
        followed = tfsteps("logs", "r1", "--follow") if while_it_runs else None
        assert process.wait(100) == ExitCode.SUCCEEDED
    if followed:
        assert followed.stdout.splitlines() == shown
        return
    assert tfsteps("logs", "r1").stdout.splitlines() == shown
    assert tfsteps("logs", "r1", "worker", "--grep", r"^loss \d$").stdout.splitlines() == [shown[2], shown[4]]
    assert tfsteps("logs", "r1", "--since", "1h", "--tail", "1").stdout.splitlines() == [shown[2], shown[4]]


def test_follow_prints_only_lines_that_grep_finds():
    job = script("for i in 1 2 3 4 5; do echo step $i; echo loss $i; sleep 0.2; done", roles="{worker: {}}")
    with started("run", job, "--run-id", "r1") as process:
        read_until(process, "loss 1")
        with started("logs", "r1", "--follow", "--grep", "LOSS [135]", "-i") as logs:
            assert logs.stdout.read() == "".join(f"[worker-0] loss {i}\n" for i in (1, 3, 5))
        assert process.wait(100) == ExitCode.SUCCEEDED


def test_a_shell_has_what_the_replica_has_while_it_runs_and_after_its_end(tmp_path, monkeypatch):
    """From another folder, and with another environment than that of the launcher."""
    monkeypatch.setenv("OF_THE_LAUNCHER", "1")
    here = os.getcwd()  # noqa: PTH109  as `pwd` prints it
    job = script(f"{ENVIRONMENT}; echo ready; exec sleep 600", "env: {LR: '0.1'}", "{chief: {}, worker: {}}")
    with started("run", job, "--run-id", "r1") as process:
        printed = read_until(process, "chief-0. ready")
        monkeypatch.chdir(tmp_path)
        beside = tfsteps("shell", "r1", "--", "sh", "-c", f"{ENVIRONMENT}; echo $OF_THE_LAUNCHER")
        assert tfsteps("shell", "r1", "worker-0", "--", "sh", "-c", "exit 41").returncode == 41
        program = [line.removeprefix("[chief-0] ") for line in printed.splitlines() if line.startswith("[chief-0]")]
        assert beside.stdout.splitlines() == [*program[:3], "1"]
        assert program[1:3] == ["r1 0.1", here]
        process.send_signal(signal.SIGTERM)
        assert process.wait(100) == ExitCode.CANCELLED
    after = tfsteps("shell", "r1", "--", "sh", "-c", ENVIRONMENT)
    assert after.stdout.splitlines()[1:] == program[1:3]
    assert json.loads(after.stdout.splitlines()[0]) == json.loads(program[0])
    assert after.stderr == f"chief-0 is stopped; this is the environment it would start with, in {here}\n"

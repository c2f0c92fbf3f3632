"""Jobs that are run from Python: real processes of this machine."""

import signal
import subprocess
import sys

import pytest

from tests.support.waiting import read_until, until
from tfsteps.api import RunFailed, logs, run, runs
from tfsteps.runs.events import State
from tfsteps.systems.local.job_system import LocalSystem

WAITING = """
from tfsteps.api import RunStopped, run
try:
    command = ["sh", "-c", "echo ready; sleep 100"]
    run(command=command, workers=2, check=False, on_change=lambda attempt: print(attempt, flush=True))
except RunStopped as error:
    print("stopped:", error, error.attempt.state, int(error.code), flush=True)
print("the program goes on", flush=True)
"""


def test_a_job_of_a_command(tmp_path, capfd):
    (tmp_path / "hello.txt").write_text("shipped")
    seen = []
    attempt = run(command=["cat", "hello.txt"], workers=2, code=tmp_path, name="cat", on_change=seen.append)
    assert attempt.succeeded
    assert [replica.exit_code for replica in attempt.replicas] == [0, 0]
    assert [line.text for line in logs(attempt.run)] == ["shipped", "shipped"]
    assert seen[-1].state is State.SUCCEEDED
    assert any("1 file" in note for note in attempt.notes), "what was packed is told, not printed"
    assert capfd.readouterr() == ("", "")


def test_a_job_that_fails_is_an_exception_unless_the_caller_checks():
    job = {"name": "fails", "command": ["sh", "-c", "exit 3"], "roles": {"worker": {}}}
    with pytest.raises(RunFailed, match="worker-0 failed with exit code 3") as failed:
        run(job)
    assert failed.value.attempt.failure.exit_code == 3
    assert failed.value.code == 10
    assert not run(job, check=False).succeeded


def test_warnings_are_computed_once_and_recorded(monkeypatch):
    computed = iter([["`queue` has no effect."]])
    monkeypatch.setattr(LocalSystem, "warnings", lambda *_: next(computed))
    assert run(command=["true"]).warnings == ("`queue` has no effect.",)


def test_a_function_that_fails_does_not_harm_the_job():
    attempt = run(command=["true"], on_change=lambda _: 1 / 0)
    assert attempt.succeeded
    assert "on_change is not called any more: ZeroDivisionError: division by zero" in attempt.notes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_the_job_and_is_an_exception(number):
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True) as process:
        read_until(process, "worker-1 +running")
        until(lambda: len(logs("latest")) == 2)
        process.send_signal(number)
        rest = process.stdout.read()
    assert process.returncode == 0
    assert "stopped: sh cancelled" in rest
    assert "the program goes on" in rest
    (entry,) = runs()
    assert entry.state is State.CANCELLED
    assert {replica.state.value for replica in entry.replicas} == {"stopped"}

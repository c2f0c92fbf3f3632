"""Jobs that outlive the terminal that started them: `run --detach`, `attach`, and launchers that are killed."""

import os
import pathlib
import pty
import re
import signal
import subprocess

import pytest
import yaml

from tests.support.jobs import alive, pid_of
from tests.support.processes import started
from tests.support.waiting import read_until, until
from tests.unit.cli.command import COMMAND
from tests.unit.cli.statuses import saved
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs import store
from tfsteps.runs.events import State

WAITS = "echo started; while [ ! -e go ]; do sleep 0.05; done; echo went on; exit $CODE"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An own folder to type the commands in; at the end no launcher is left."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    yield here
    for run in store.runs():
        for attempt in store.attempts(run):
            if attempt.alive().yes:
                os.kill(attempt.status().launcher, signal.SIGKILL)


def tfsteps(*args):
    return subprocess.run([COMMAND, *args], capture_output=True, text=True, check=False, timeout=150)


def attached(*args):
    return subprocess.Popen([COMMAND, "attach", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def detached(run, code=0, program=WAITS, *more):
    """Start a job that ends when the file `go` exists; return its attempt."""
    job = {"name": "waits", "command": ["sh", "-c", program], "env": {"CODE": str(code)}, "roles": {"worker": {}}}
    pathlib.Path("job.yaml").write_text(yaml.safe_dump(job))
    done = tfsteps("run", "job.yaml", "--detach", "--run-id", run, *more)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"waits runs as waits-\w+ on local", lines[1])
    assert [lines[0], *lines[2:]] == [
        f"run {run}",
        f"follow it:  tfsteps attach {run}",
        f"stop it:    tfsteps stop {run}",
    ]
    return store.attempts(run)[0]


def test_a_detached_job_survives_the_end_of_its_terminal():
    job = {"name": "waits", "command": ["sh", "-c", WAITS], "env": {"CODE": "0"}, "roles": {"worker": {}}}
    pathlib.Path("job.yaml").write_text(yaml.safe_dump(job))
    pid, terminal = pty.fork()
    if not pid:
        os.execv("/bin/sh", ["sh", "-c", f"{COMMAND} run job.yaml --detach --run-id r1; sleep 600"])
    until(lambda: store.attempts("r1"))
    (attempt,) = store.attempts("r1")
    until(lambda: attempt.log.exists() and b"started" in attempt.log.read_bytes())
    shell = os.tcgetpgrp(terminal)
    os.close(terminal)  # the terminal is gone: the kernel sends SIGHUP
    os.waitpid(pid, 0)
    until(lambda: not alive(shell))
    assert attempt.alive().yes
    pathlib.Path("go").touch()
    done = tfsteps("attach", "r1")
    assert done.returncode == ExitCode.SUCCEEDED
    assert "[worker-0] went on" in done.stdout.splitlines()


@pytest.mark.parametrize(("code", "exit_code"), [(0, ExitCode.SUCCEEDED), (3, ExitCode.FAILED)])
def test_attach_prints_the_whole_log_the_results_and_returns_the_exit_code_of_run(code, exit_code):
    attempt = detached("r1", code)
    with attached("r1") as process:
        early = read_until(process, "started")
        pathlib.Path("go").touch()
        out, _ = process.communicate(timeout=100)
    lines = (early + out).splitlines()
    assert process.returncode == exit_code
    assert [line for line in lines if line.startswith("[")] == ["[worker-0] started", "[worker-0] went on"]
    assert f"log          {attempt.log}" in lines
    assert re.match(r"waits (succeeded|failed) after ", lines[-1])
    again = tfsteps("attach", "r1")  # after the end
    assert (again.returncode, again.stdout.splitlines()[-1]) == (exit_code, lines[-1])


def test_ctrl_c_in_attach_leaves_the_job_and_a_second_attach_changes_nothing():
    attempt = detached("r1")
    with attached("r1") as first, attached("r1") as second:
        for process in (first, second):
            read_until(process, "started")
        first.send_signal(signal.SIGINT)
        _, err = first.communicate(timeout=100)
        assert first.returncode == 130
        assert err == ("run r1 was not stopped; `tfsteps attach r1` follows it again, `tfsteps stop r1` stops it\n")
        assert attempt.alive().yes
        pathlib.Path("go").touch()
        assert second.wait(100) == ExitCode.SUCCEEDED


def test_attach_ends_when_nobody_reads_it_and_the_job_goes_on():
    attempt = detached("r1", program="while [ ! -e go ]; do echo line; sleep 0.05; done")
    with attached("r1") as process:
        read_until(process, "line")
        process.stdout.close()
        assert process.wait(100) == 141
        assert process.stderr.read() == ""
    assert attempt.alive().yes
    pathlib.Path("go").touch()
    assert tfsteps("attach", "r1").returncode == ExitCode.SUCCEEDED


def test_a_detached_job_is_stopped_like_any_other():
    attempt = detached("r1")
    with attached("r1") as process:
        read_until(process, "started")
        assert tfsteps("stop", "r1").returncode == 0
        assert process.wait(100) == ExitCode.CANCELLED
    assert attempt.alive().no


def test_attach_to_a_job_whose_launcher_was_killed_reports_it_lost():
    attempt = detached("r1")
    until(lambda: attempt.log.exists() and b"started" in attempt.log.read_bytes())
    status = attempt.status()
    os.kill(status.launcher, signal.SIGKILL)
    until(lambda: attempt.alive().no and not alive(pid_of(status, "worker-0")))
    done = tfsteps("attach", "r1")
    assert done.returncode == ExitCode.PLATFORM
    last = done.stdout.splitlines()[-1]
    assert re.match(r"waits lost after \S+: The launcher was killed; its replicas were stopped too", last)
    assert done.stderr == "`tfsteps rerun r1` runs it again\n"


def test_a_start_that_fails_is_the_error_of_run():
    pathlib.Path("job.yaml").write_text("{name: bad, command: [/no/such/program], roles: {worker: {}}}")
    pathlib.Path("home").touch()
    done = subprocess.run(
        [COMMAND, "run", "job.yaml", "--detach"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TFSTEPS_HOME": "home"},
    )
    assert done.returncode == ExitCode.PLATFORM
    assert re.search(
        r"error: bad could not be launched: the run folder cannot be used: .*; set TFSTEPS_HOME\n", done.stderr
    )


def test_rerun_runs_the_recorded_job_in_its_folder_and_names_what_differs(folder, tmp_path, monkeypatch):
    pathlib.Path("go").touch()
    detached("r1")
    tfsteps("attach", "r1")
    pathlib.Path("job.yaml").unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = tfsteps("rerun", "r1", "--set", "env.CODE=3", "--set", "env.HUB_TOKEN=hunter2", "--run-id", "r2")
    assert done.returncode == ExitCode.FAILED
    assert done.stdout.splitlines()[:2] == ["again: run r1, env.CODE 0 -> 3, env.HUB_TOKEN default -> ***", "run r2"]
    assert "hunter2" not in done.stdout + done.stderr
    assert store.attempts("r2")[0].status().base_dir == str(folder)


def test_clear_stops_what_runs_and_removes_the_records():
    attempt = detached("r1")
    detached("r2")
    until(lambda: attempt.log.exists() and b"started" in attempt.log.read_bytes())
    replica = pid_of(attempt.status(), "worker-0")
    refused = tfsteps("clear", "r1")
    assert refused.returncode == ExitCode.USAGE
    assert refused.stderr.endswith("without a terminal, add --yes: `tfsteps clear r1 --yes`\n")
    assert attempt.alive().yes
    done = tfsteps("clear", "r1", "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "run r1 cleared")
    assert not alive(replica)
    assert store.runs() == ["r2"]
    again = tfsteps("clear", "r1", "--yes")
    assert (again.returncode, again.stdout) == (0, f"run r1: nothing to clear in {store.home()}\n")
    pathlib.Path("go").touch()
    assert tfsteps("attach", "r2").returncode == ExitCode.SUCCEEDED


@pytest.mark.parametrize(("answer", "left"), [(b"n\n", ["r1"]), (b"y\n", [])])
def test_clear_asks_on_a_terminal(answer, left):
    saved(run="r1", state=State.SUCCEEDED, system="local")
    terminal, theirs = pty.openpty()
    with started([COMMAND, "clear", "r1"], stdin=theirs, stdout=subprocess.PIPE, text=True) as process:
        read_until(process, "records on this machine: 1 attempt")
        os.write(terminal, answer)
        assert process.wait(60) == 0
    os.close(theirs)
    os.close(terminal)
    assert store.runs() == left

"""What is left of a replica or a step when its launcher, or it itself, is killed: no process of its session."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from tests.support.jobs import alive
from tests.support.processes import started
from tests.support.waiting import until
from tests.unit.cli.command import COMMAND
from tfsteps.engines.local.step import StepProcess
from tfsteps.runs import store
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.store import AttemptFolder
from tfsteps.runs.survivors import end, survivors
from tfsteps.systems.base import LaunchError
from tfsteps.systems.local.guard import Guard
from tfsteps.systems.local.job_system import LocalSystem

# `timeout` puts itself, and so the program, in a process group of its own.
GROUPS = "timeout 600 sh -c 'echo $$ > pid.new; mv pid.new pid; sleep 600; :'"


def pid_in(file):
    """Wait for the process id that the program writes, and return it."""
    until(file.exists)
    return int(file.read_text())


@pytest.fixture
def launched(tmp_path, monkeypatch):
    """Start `tfsteps run` of a job with a child in another process group; return the launcher and the child's id."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(
        f'name: groups\ncommand: [sh, -c, "{GROUPS.replace("$", "$$")}; echo done"]\nroles: {{worker: {{}}}}\n'
    )
    with started([COMMAND, "run", "job.yaml", "--run-id", "r"], stdout=subprocess.DEVNULL) as launcher:
        yield launcher, pid_in(tmp_path / "pid")
        launcher.kill()


def test_a_killed_launcher_leaves_no_process_group_and_the_record_says_what_was_seen(launched):
    launcher, child = launched
    launcher.kill()
    (attempt,) = store.attempts("r")
    until(attempt.replicas_ended.exists)
    assert not alive(child)
    status = attempt.status()
    assert (status.state, status.message) == (
        State.LOST,
        "The launcher was killed; its replicas were stopped too.",
    )
    assert [replica.state for replica in status.replicas] == [ReplicaState.STOPPED]


def guard_of(launcher):
    """Return the process of the guard; None = it has just ended."""
    command = ["pgrep", "-P", str(launcher.pid), "-f", "proof="]
    guards = subprocess.run(command, check=False, capture_output=True, text=True)
    return next(map(int, guards.stdout.split()), None)


def killed_with_its_guard(launcher):
    """Kill a launcher and what ends its replicas, as a machine that lacks memory may, and return the attempt."""
    os.kill(launcher.pid, signal.SIGSTOP)  # else it replaces the guard
    os.kill(guard_of(launcher), signal.SIGKILL)
    launcher.kill()
    launcher.wait()
    (attempt,) = store.attempts("r")
    until(lambda: attempt.alive().no)
    return attempt


def tfsteps(*arguments):
    """Run a command, and return its exit code and what it prints."""
    done = subprocess.run([COMMAND, *arguments], check=False, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_a_killed_guard_is_replaced(launched):
    launcher, child = launched
    guard = guard_of(launcher)
    os.kill(guard, signal.SIGKILL)
    until(lambda: guard_of(launcher) not in (None, guard))
    time.sleep(1)  # two ticks: there is one guard, not one more each time
    (attempt,) = store.attempts("r")
    launcher.kill()
    until(attempt.replicas_ended.exists)
    assert not alive(child)


def test_a_guard_that_was_killed_too_has_seen_nothing_and_stop_ends_what_is_left(launched):
    launcher, child = launched
    attempt = killed_with_its_guard(launcher)
    status = attempt.status()
    assert alive(child)
    assert status.message == "The launcher was killed; it is not known whether its replicas were stopped too."
    assert [replica.state for replica in status.replicas] == [ReplicaState.UNKNOWN]
    left = f"worker-0 (pid {os.getsid(child)})"
    for command in (["rm", "r"], ["run", "job.yaml", "--run-id", "r"]):
        code, text = tfsteps(*command)
        assert (code, f"was killed, and left {left}; `tfsteps stop r` ends that" in text) == (2, True), text
    assert tfsteps("prune", "--keep", "0")[1].startswith("r kept: its launcher was killed, and left worker-0")
    assert tfsteps("stop", "r") == (0, f"ended {left} of groups, which its killed launcher had left\n")
    assert not alive(child)
    assert attempt.status().message == "The launcher was killed; its replicas were stopped too."
    assert tfsteps("rm", "r")[0] == 0


def changed_lock(attempt, **fields):
    """Let another process have taken the lock of an attempt."""
    lock = attempt.folder / "lock"
    lock.write_text(json.dumps({**json.loads(lock.read_bytes()), **fields}))


def test_what_a_killed_launcher_of_another_container_left_is_not_known(launched):
    launcher, child = launched
    attempt = killed_with_its_guard(launcher)
    changed_lock(attempt, pid_namespace=1)
    code, text = tfsteps("stop", "r")
    assert code == 2
    assert "whether replicas of groups, attempt 0, still run is not known: their launcher was killed, it ran in" in text
    assert "another container of this machine" in text
    for command in (["rm", "r"], ["prune", "--keep", "0"], ["clear", "r", "--yes"]):
        assert "still run is not known" in tfsteps(*command)[1]
        assert store.runs() == ["r"]
    (attempt.folder / "lock").write_bytes(b"")  # as older versions did
    assert "where it ran is not recorded" in tfsteps("stop", "r")[1]
    assert alive(child)
    os.killpg(os.getsid(child), signal.SIGKILL)
    os.kill(child, signal.SIGKILL)


def test_no_replica_survives_a_boot(launched):
    launcher, child = launched
    attempt = killed_with_its_guard(launcher)
    changed_lock(attempt, boot="00000000-0000-0000-0000-000000000000")
    assert tfsteps("stop", "r")[1].startswith("already ended: groups lost")
    assert tfsteps("rm", "r")[0] == 0
    os.killpg(os.getsid(child), signal.SIGKILL)
    os.kill(child, signal.SIGKILL)


def test_stop_ends_what_earlier_attempts_left(launched):
    launcher, child = launched
    attempt = killed_with_its_guard(launcher)
    later = AttemptFolder(attempt.folder.with_name("1"))
    shutil.copytree(attempt.folder, later.folder)
    status = attempt.status()
    identity = msgspec.structs.replace(status.identity, attempt=1)
    later.write(msgspec.structs.replace(status, identity=identity, state=State.SUCCEEDED, reason=""))
    with pytest.raises(LaunchError, match="the launcher of attempt 0 was killed, and left worker-0"):
        LocalSystem().attempt("r", "groups")  # as a launcher of a step asks
    assert f"ended worker-0 (pid {os.getsid(child)}) of groups" in tfsteps("stop", "r")[1]
    assert not alive(child)
    assert LocalSystem().attempt("r", "groups") == 2


def test_a_job_whose_status_is_damaged_is_stopped_by_the_process_that_messages_name(launched):
    launcher, child = launched
    (attempt,) = store.attempts("r")
    (attempt.folder / "status.json").write_text("{}")
    kill = f"`kill {attempt.launcher.pid}`"
    for command in ("stop", "rm"):
        code, text = tfsteps(command, "r")
        assert code, text
        assert kill in text
    os.kill(attempt.launcher.pid, signal.SIGTERM)
    until(lambda: not alive(child))
    assert launcher.wait(10) == 12


def test_a_session_with_the_number_of_a_replica_is_no_survivor_without_its_variables(launched):
    launcher, child = launched
    attempt = killed_with_its_guard(launcher)
    status = attempt.status()
    other = msgspec.structs.replace(status, identity=msgspec.structs.replace(status.identity, attempt=1))
    assert survivors(attempt, other).left.no
    assert end(attempt, other, now=True).sessions == {}
    assert alive(child)
    assert end(attempt, status, now=True).left.no
    assert not alive(child)


def test_a_pipeline_replaces_its_killed_guard(tmp_path):
    with Guard() as guard:
        first = guard._process
        step = StepProcess(["sh", "-c", "sleep 600"], {}, tmp_path, guard)
        lines = step.lines()
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        next(lines)
        assert guard._process.pid != first.pid
        assert guard._sessions == {step._child.pid}
        step.kill()
        step.wait()
        assert guard._sessions == set()


NAMED = (
    "import ctypes, os, time; ctypes.CDLL(None).prctl(15, b'a\\nb', 0, 0, 0)\n"
    "open('pid.new', 'w').write(str(os.getpid())); os.rename('pid.new', 'pid'); time.sleep(600)"
)
"""A program with a line end in its name."""

LAUNCHER = (
    "import pathlib, subprocess, sys; from tfsteps.systems.local.guard import WRAPPER, Guard\n"
    "with Guard(pathlib.Path.cwd() / 'proof') as guard:\n"
    "    subprocess.Popen([*WRAPPER, *sys.argv[1:]], stdin=guard.pipe, start_new_session=True).wait()"
)


def test_a_program_with_a_line_end_in_its_name_is_ended_with_its_session(tmp_path):
    replica = ["timeout", "600", sys.executable, "-c", NAMED]
    with started([sys.executable, "-c", LAUNCHER, *replica], cwd=tmp_path) as launcher:
        child = pid_in(tmp_path / "pid")
        launcher.kill()
        until((tmp_path / "proof").exists)
        assert not alive(child)


def test_a_program_with_a_line_end_in_its_name_is_not_ended_with_another_session(tmp_path):
    replica = ["sh", "-c", "touch up; sleep 600"]
    with (
        started([sys.executable, "-c", NAMED], cwd=tmp_path, start_new_session=True) as innocent,
        started([sys.executable, "-c", LAUNCHER, *replica], cwd=tmp_path) as launcher,
    ):
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "up").exists())
        launcher.kill()
        until((tmp_path / "proof").exists)
        assert innocent.poll() is None
        innocent.kill()


@pytest.mark.parametrize("end", ["kill", "exit"])
def test_a_step_leaves_no_process_group(tmp_path, end):
    program = f"{GROUPS} & while [ ! -e pid ]; do sleep 0.05; done; [ {end} = exit ] || sleep 600"
    with Guard() as guard:
        step = StepProcess(["sh", "-c", program], {}, tmp_path, guard)
        child = pid_in(tmp_path / "pid")
        if end == "kill":
            step.kill()
        step.wait()
    until(lambda: not alive(child))


def test_a_session_of_a_process_that_forks_meanwhile_is_ended(tmp_path):
    forks = "    if not os.fork():\n        os.setpgid(0, 0); time.sleep(600)\n    time.sleep(0.002)"
    program = f"import os, time\nwhile True:\n{forks}"
    with Guard() as guard:
        step = StepProcess(
            [sys.executable, "-c", f"import os\nprint(os.getpid(), flush=True)\n{program}"], {}, tmp_path, guard
        )
        leader = int(next(lines for lines in step.lines() if lines)[0])
        step.kill()
        step.wait()
    assert not [
        pid for pid in pathlib.Path("/proc").glob("[0-9]*") if alive(int(pid.name)) and session_of(pid) == leader
    ]


def session_of(process):
    try:
        return os.getsid(int(process.name))
    except ProcessLookupError:
        return 0


@pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace takes root")
def test_a_launcher_in_another_container_is_not_signalled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text("name: inside\ncommand: [sh, -c, 'touch up; sleep 600']\nroles: {worker: {}}\n")
    container = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with started([*container, COMMAND, "run", "job.yaml", "--run-id", "r"], stdout=subprocess.DEVNULL) as outside:
        until((tmp_path / "up").exists)
        (attempt,) = store.attempts("r")
        answer = attempt.terminate()
        assert (attempt.alive().yes, attempt.launcher.pid, attempt.lives_here) == (True, 1, False)
        assert answer.why.startswith("pid 1 in another container of this machine, ")
        outside.kill()
    until(lambda: attempt.alive().no)

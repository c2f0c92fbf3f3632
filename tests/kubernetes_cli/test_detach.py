"""Jobs on a cluster without a launcher: `run --detach`, `attach` from this and another machine, `rerun`, `clear`."""

import re
import signal

import pytest

from tests.preflight.conftest import HELD
from tests.support.waiting import read_until, until
from tfsteps.kube.resource import Resource
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.store import AttemptFolder, attempts

pytestmark = pytest.mark.cluster
PODS = Resource("v1", "pods", "Pod")


def detached(terminal, run, code=HELD, more="on_end: delete_pods"):
    done = terminal.tfsteps("run", terminal.job(code, more), "--detach", "--run-id", run, "--system", "kubeflow")
    assert done.returncode == 0, done.stderr
    place = f"--on kubernetes --namespace {terminal.namespace}"
    assert done.stdout.splitlines()[2:4] == [
        f"follow it:  tfsteps attach {run} {place}",
        f"stop it:    tfsteps stop {run} {place}",
    ]
    assert re.search(r"kubeflow and the janitor enforce `total` \(7d\) while no launcher", done.stdout)


def pods(terminal, run):
    return terminal.api.list(PODS, terminal.namespace, labelSelector=f"tfsteps.dev/run-id={run}")["items"] or []


def another_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "elsewhere"))


def test_attach_to_a_detached_job_finishes_it(terminal):
    detached(terminal, "here")
    status = AttemptFolder.of(Identity(run="here", task="quick")).status()
    assert (status.state, status.reason) == (State.UNKNOWN, "Detached")
    with terminal.started("attach", "here") as process:
        read_until(process, "] up")
        terminal.release("here")
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err.count("warning")) == (ExitCode.SUCCEEDED, 1)
    assert re.match(r"quick succeeded after ", out.splitlines()[-1])
    status = AttemptFolder.of(Identity(run="here", task="quick")).status()
    assert (status.state, status.detached) == (State.SUCCEEDED, False)
    until(lambda: not pods(terminal, "here"))  # its `on_end`
    again = terminal.tfsteps("attach", "here")
    assert (again.returncode, "[worker-0] up" in again.stdout.splitlines()) == (0, True)


def test_attach_from_another_machine_goes_on_after_ctrl_c_and_after_a_kill(terminal, tmp_path, monkeypatch):
    detached(terminal, "there")
    another_machine(monkeypatch, tmp_path)
    with terminal.started("attach", "there") as process:
        read_until(process, "] up")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "run there was not stopped; `tfsteps attach there --on kubernetes" in err
    (attempt,) = attempts("there")
    assert (attempt.status().state, attempt.status().detached) == (State.UNKNOWN, True)
    with terminal.started("attach", "there") as process:
        read_until(process, "] up")
        with monkeypatch.context() as third:
            third.setenv("TFSTEPS_HOME", str(tmp_path / "third"))
            with terminal.started("attach", "there") as watcher:
                read_until(watcher, "] up")
                watcher.kill()
            assert not attempts("there"), "two machines would clean up"
        process.kill()
    until(lambda: attempt.status().reason == "LauncherDied")
    with terminal.started("attach", "there") as process:
        read_until(process, "] up")
        terminal.release("there")
        assert process.wait(120) == ExitCode.SUCCEEDED


def test_attach_does_not_disturb_a_launcher_elsewhere(terminal, tmp_path, monkeypatch):
    job = terminal.job(HELD, "on_end: keep")
    with terminal.started("run", job, "--run-id", "theirs", "--system", "kubeflow") as launcher:
        read_until(launcher, "] up")
        another_machine(monkeypatch, tmp_path)
        with terminal.started("attach", "theirs") as process:
            read_until(process, "] up")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        with terminal.started("attach", "theirs") as process:
            read_until(process, "] up")
            terminal.release("theirs")
            out, err = process.communicate(timeout=120)
        assert process.returncode == ExitCode.SUCCEEDED
        assert re.match(r"quick succeeded after ", out.splitlines()[-1])
        assert "was launched elsewhere" in err
        assert launcher.wait(120) == ExitCode.SUCCEEDED
    assert not attempts("theirs")


def test_rerun_takes_the_job_from_the_cluster(terminal, tmp_path, monkeypatch):
    detached(terminal, "first", "echo size $SIZE")
    another_machine(monkeypatch, tmp_path)
    done = terminal.tfsteps("rerun", "first", "--set", "env.SIZE=3", "--run-id", "second")
    assert done.returncode == ExitCode.SUCCEEDED
    assert done.stdout.splitlines()[:2] == ["again: run first, env.SIZE default -> 3", "run second"]
    assert "[worker-0] size 3" in done.stdout.splitlines()


def test_clear_removes_everything_of_one_run_and_nothing_of_another(terminal, home):
    for run in ("gone", "kept"):
        detached(terminal, run)
        until(lambda run=run: pods(terminal, run))
    dry = terminal.tfsteps("clear", "gone", "--dry-run")
    (job,) = terminal.jobs("gone")
    assert f"  TFJob {terminal.namespace}/{job['metadata']['name']}" in dry.stdout.splitlines()
    assert dry.stdout.startswith("run gone: would be removed\n")
    assert terminal.jobs("gone")
    done = terminal.tfsteps("clear", "gone", "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "run gone cleared")
    assert not terminal.jobs("gone")
    assert not pods(terminal, "gone")
    assert not (home / "runs/gone").exists()
    assert terminal.jobs("kept")
    assert pods(terminal, "kept")
    assert (home / "runs/kept").exists()
    assert terminal.tfsteps("clear", "kept", "--yes").returncode == 0
    again = terminal.tfsteps("clear", "kept", "--yes")
    assert (again.returncode, again.stdout.startswith("run kept: nothing to clear")) == (0, True)

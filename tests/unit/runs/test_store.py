"""Run folders: read by others while they are written."""

import contextlib
import io
import os
import pwd
import subprocess
import sys

import msgspec
import pytest

from tests.support.log_lines import log_line
from tests.support.processes import started
from tests.support.waiting import until
from tfsteps import report, spec
from tfsteps.kube import kubeconfig
from tfsteps.kube.credentials import AccessError
from tfsteps.launcher.lifecycle import launch
from tfsteps.launcher.log_writer import LogWriter
from tfsteps.launcher.recorder import Recorder
from tfsteps.platforms.hai import access as hai_access
from tfsteps.runs import log_file, store
from tfsteps.runs.events import JobChanged, LogLines, ReplicaChanged, ReplicaName, ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Incarnation, ReplicaStatus, Status, may_continue
from tfsteps.runs.store import AttemptFolder
from tfsteps.systems import registry

ME = Identity(run="r", task="t")


def new(identity=ME, state=State.RUNNING):
    attempt = AttemptFolder.of(identity)
    lock = attempt.claim()
    attempt.write(Status(identity=identity, job="j", system="local", state=state))
    return attempt, lock


def test_a_status_comes_back_as_it_was_written():
    attempt, lock = new()
    with lock:
        assert attempt.status() == Status(identity=ME, job="j", system="local", state=State.RUNNING)


def test_a_launcher_that_died_is_lost_and_an_ended_one_is_not():
    attempt, lock = new()
    lock.close()
    assert (attempt.status().state, attempt.status().reason) == (State.LOST, "LauncherDied")
    attempt, lock = new(Identity(run="r", task="done"), State.SUCCEEDED)
    lock.close()
    assert attempt.status().state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("system", "seen", "state"),
    [
        ("local", True, ReplicaState.STOPPED),
        ("local", False, ReplicaState.UNKNOWN),
        ("kubeflow", False, ReplicaState.UNKNOWN),
    ],
)
def test_a_launcher_that_died_leaves_no_replica_that_seems_to_run(system, seen, state):
    attempt, lock = new()
    last = attempt.replicas_ended if seen else attempt.usage if system == "local" else attempt.log
    failed = Incarnation(started=100.0, ended=160.0, state=ReplicaState.FAILED, exit_code=1)
    replicas = [
        ReplicaStatus(
            role="worker", index=0, state=ReplicaState.RUNNING, incarnations=[failed, Incarnation(started=200.0)]
        ),
        ReplicaStatus(
            role="worker", index=1, state=ReplicaState.SUCCEEDED, incarnations=[Incarnation(started=100.0, ended=150.0)]
        ),
        ReplicaStatus(role="worker", index=2),
    ]
    attempt.write(Status(identity=ME, job="j", system=system, state=State.RUNNING, created=90.0, replicas=replicas))
    os.utime(attempt.folder / "status.json", (210, 210))
    for file, at in ((attempt.log, 220), (last, 300)):
        file.write_bytes(b"")
        os.utime(file, (at, at))
    lock.close()
    status = attempt.status()
    assert (status.state, status.ended) == (State.LOST, 300.0)
    assert (status.transitions[-1].state, status.transitions[-1].at) == (State.LOST, 300.0)
    assert [replica.state for replica in status.replicas] == [state, ReplicaState.SUCCEEDED, state]
    assert [(incarnation.state, incarnation.ended) for incarnation in status.replicas[0].incarnations] == [
        (failed.state, 160.0),
        (state, 300.0),
    ]
    report.write(attempt)
    assert "still running" not in attempt.report.read_text()


def test_two_launchers_cannot_hold_one_attempt():
    attempt, lock = new()
    with lock, pytest.raises(BlockingIOError):
        attempt.claim()
    attempt.claim().close()


def test_without_a_home_folder_an_error_says_what_to_set(monkeypatch):
    def unknown(_uid):
        raise KeyError

    for name in ("HOME", "TFSTEPS_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(OSError, match="neither TFSTEPS_HOME nor HOME is set"):
        store.home()
    with pytest.raises(AccessError, match="there is no kubeconfig"):
        kubeconfig.find()
    with pytest.raises(AccessError, match=r"~/\.hfai"):
        hai_access.find()


def test_the_lock_ends_with_its_process():
    code = (
        "from tfsteps.runs.store import *; from tfsteps.runs.identity import Identity; import time\n"
        "lock = AttemptFolder.of(Identity(run='r', task='t')).claim(); print('held', flush=True); time.sleep(600)"
    )
    with started([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        assert AttemptFolder.of(ME).alive().yes
        other.kill()
        other.wait()
    until(lambda: AttemptFolder.of(ME).alive().no)


@pytest.mark.parametrize("name", ["a", "a b", "a/b", "..", ".", ".hidden", "ä" * 30, "x" * 150, "a\nb", "%2F"])
def test_any_run_and_task_name_is_one_folder(name):
    identity = Identity(run=name, task=name)
    attempt, lock = new(identity)
    lock.close()
    assert attempt.folder.relative_to(store.home() / "runs").parts[2] == "0"
    assert store.runs() == [name]
    assert [item.folder for item in store.attempts(name)] == [attempt.folder]


def test_attempts_are_numbered_and_sorted_by_number():
    for number in (0, 9, 10):
        new(Identity(run="r", task="t", attempt=number))[1].close()
    assert [attempt.folder.name for attempt in store.attempts("r")] == ["0", "9", "10"]
    assert store.next_attempt("r", "t") == 11
    assert store.next_attempt("r", "other") == 0


def test_log_lines_come_back_and_an_unfinished_one_waits():
    data = log_line(0.25, "worker-1", b"\xff one  two ") + log_line(1, "chief-0", b"")
    file = io.BytesIO(data + b"1970-01-01T00:00:02.000000Z worker-1 hal")
    assert list(log_file.read_log(file)) == [
        ("1970-01-01T00:00:00.250000Z", "worker-1", b"\xff one  two "),
        ("1970-01-01T00:00:01.000000Z", "chief-0", b""),
    ]
    file.seek(0, 2)
    file.write(b"f\n")
    file.seek(len(data))
    assert [text for _, _, text in log_file.read_log(file)] == [b"half"]


def test_a_block_of_lines_is_the_same_as_its_lines():
    worker, texts = ReplicaName("worker", 1), [b"\xff one", b"", b"two"]
    log_lines = [log_line(0.25 + i, "worker-1", text) for i, text in enumerate(texts)]
    stamps = [line.split()[0] for line in log_lines]
    lines = LogLines(2.25, worker, texts, stamps)
    assert log_file.log_block(lines) == b"".join(log_lines)
    assert list(log_file.times(lines)) == [(0.25, texts[0]), (1.25, b""), (2.25, b"two")]
    at_once = LogLines(0.25, worker, texts)
    assert log_file.log_block(at_once) == b"".join(log_line(0.25, "worker-1", text) for text in texts)
    assert list(log_file.times(at_once)) == [(0.25, text) for text in texts]
    assert log_file.log_block(LogLines(0.25, worker, [])) == b""


def test_names_longer_than_a_file_name_may_be():
    identity = Identity(run="r" * 300, task="t" * 300)
    new(identity)[1].close()
    assert [attempt.folder for attempt in store.attempts("r" * 300)] == [AttemptFolder.of(identity).folder]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
def test_the_end_of_a_wide_job_fits_on_a_disk_that_is_full(tmp_path, monkeypatch):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True)
    try:
        monkeypatch.setenv("TFSTEPS_HOME", str(disk / "home"))
        replicas = [ReplicaStatus(role="worker", index=number) for number in range(700)]
        attempt = AttemptFolder.of(ME)
        with attempt.claim(), contextlib.closing(LogWriter(attempt.log)) as logbook:
            recorder = Recorder(Status(identity=ME, job="j", system="local", replicas=replicas), attempt, logbook, [])
            with contextlib.suppress(OSError), (disk / "fill").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            for number in range(700):
                change = ReplicaChanged(
                    at=1.75e9 + number / 7,
                    replica=ReplicaName("worker", number),
                    state=ReplicaState.RUNNING,
                    place=f"pid {number + 10**6} port 40123",
                )
                recorder.apply(change)
                end = {"exit_code": 0, "cpu_seconds": 12.345678, "memory_bytes": 512 << 20}
                recorder.apply(msgspec.structs.replace(change, state=ReplicaState.SUCCEEDED, **end))
            recorder.end(JobChanged(at=1.75e9, state=State.SUCCEEDED))
            assert attempt.status().state is State.SUCCEEDED
            assert len(attempt.status().replicas[-1].incarnations) == 1
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_nobody_else_can_read_what_may_hold_secrets(home):
    before = os.umask(0)
    try:
        job = spec.parse("{name: j, command: [sh, -c, 'echo x'], env: {TOKEN: hunter2}, roles: {worker: {}}}")
        launch(job, ME, registry.get("local"), base_dir=home.parent)
    finally:
        os.umask(before)
    attempt = AttemptFolder.of(ME)
    folders = [home, home / "runs", attempt.folder.parent.parent, attempt.folder.parent, attempt.folder]
    modes = {path: path.stat().st_mode & 0o777 for path in [*folders, *attempt.folder.iterdir()]}
    assert {"job.json", "status.json", "log", "report.html"} <= {path.name for path in modes}
    assert modes == {path: 0o700 if path.is_dir() else 0o600 for path in modes}


def test_a_job_that_was_left_running_is_not_lost():
    attempt = AttemptFolder.of(Identity(run="r", task="t"))
    left = Status(
        identity=Identity(run="r", task="t"), job="t-abc", system="kubeflow", namespace="ml", detached=True, created=1.0
    )
    attempt.record(left, b"{}")
    status = attempt.status()
    assert (status.state, status.reason, status.ended) == (State.UNKNOWN, "Detached", None)
    assert status.message == "The job was left running in namespace ml; `tfsteps attach r` follows it."
    assert may_continue(status)
    assert (attempt.folder / "job.json").stat().st_mode & 0o777 == 0o600

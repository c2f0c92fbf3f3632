"""Who holds a run folder, and which process a record names: also where other machines share the folder."""

import os
import signal
import subprocess
import sys

import msgspec
import pytest

from tests.support.processes import started
from tests.support.waiting import until
from tests.unit.cli.statuses import saved
from tfsteps.runs import lock, removal
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.lock import Lock, ProcessRef

ELSEWHERE = {"boot": "another", "host": "gpu-2"}
IN_CONTAINER = {"pid_namespace": 1}


@pytest.fixture
def file_server(monkeypatch):
    """A file system of which it is not known whether other machines see the locks of this one."""
    monkeypatch.setattr(lock, "DISKS", set())


def left_by(attempt, **change):
    """Make the lock file that of a launcher which was killed; `change` says what differs from this process."""
    (attempt.folder / "lock").write_bytes(msgspec.json.encode(msgspec.structs.replace(ProcessRef.current(), **change)))
    return attempt


@pytest.fixture
def child():
    """A process, and what names it."""
    code = (
        "import time, sys, msgspec; from tfsteps.runs.lock import ProcessRef\n"
        "print(msgspec.json.encode(ProcessRef.current()).decode(), flush=True); time.sleep(600)"
    )
    with started([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        yield process, msgspec.json.decode(process.stdout.readline(), type=ProcessRef)
        process.kill()


def test_a_signal_reaches_the_process_that_is_named(child):
    process, ref = child
    assert ref.alive().yes
    assert ref.send(signal.SIGTERM).yes
    assert process.wait(60) == -signal.SIGTERM
    assert (ref.alive().no, ref.send(signal.SIGTERM).no) == (True, True)


@pytest.mark.parametrize(
    ("change", "answer", "why"),
    [
        (ELSEWHERE, "unknown", "on machine gpu-2 cannot be signalled from here"),
        ({"boot": "another"}, "unknown", "or on this one before its last boot"),
        ({"boot": ""}, "unknown", "on machine"),
        (IN_CONTAINER, "unknown", "in another container of this machine"),
        ({"started": 1}, "no", ""),
    ],
    ids=["machine", "boot", "not recorded", "container", "another process with its id"],
)
def test_a_signal_reaches_no_other_process(child, change, answer, why):
    process, ref = child
    sent = msgspec.structs.replace(ref, **change).send(signal.SIGKILL)
    assert sent.value == answer
    assert why in sent.why
    assert process.poll() is None


@pytest.mark.parametrize("error", [None, PermissionError(1, "seccomp"), OSError(38, "ENOSYS")], ids=str)
def test_without_descriptors_of_processes_a_signal_is_sent_too(child, error, monkeypatch):
    def refused(_pid):
        raise error

    if error:
        monkeypatch.setattr(os, "pidfd_open", refused)
    else:
        monkeypatch.delattr(os, "pidfd_open")
    process, ref = child
    assert msgspec.structs.replace(ref, started=1).send(signal.SIGKILL).no
    assert ref.send(signal.SIGTERM).yes
    assert process.wait(60) == -signal.SIGTERM


@pytest.mark.parametrize("pid", [-1, 0, 1 << 31])
def test_a_damaged_record_names_no_process(tmp_path, pid):
    ref = msgspec.to_builtins(ProcessRef.current()) | {"pid": pid}
    (tmp_path / "lock").write_bytes(msgspec.json.encode(ref))
    assert lock.holder(tmp_path) is None


def test_a_lock_names_its_process_until_it_is_released(tmp_path):
    with Lock(tmp_path):
        assert lock.holder(tmp_path) == ProcessRef.current()
        assert lock.held(tmp_path).yes
    assert lock.holder(tmp_path) is None
    assert lock.held(tmp_path).no


@pytest.mark.parametrize(
    ("change", "answer"),
    [({}, "no"), (IN_CONTAINER, "no"), (ELSEWHERE, "unknown"), ({"boot": ""}, "unknown")],
    ids=["this process", "container", "machine", "not recorded"],
)
@pytest.mark.usefixtures("file_server")
def test_a_lock_that_seems_free_is_known_to_be_free_only_among_processes_of_this_machine(change, answer):
    attempt = left_by(saved(system="local"), **change)
    assert attempt.alive().value == answer
    status = attempt.status()
    assert status.state is (State.LOST if answer == "no" else State.UNKNOWN)
    if answer == "unknown":
        assert status.message.startswith("Last recorded: running. Pid ")
        assert {replica.state for replica in status.replicas} == {ReplicaState.UNKNOWN}


def test_on_a_disk_of_this_machine_every_lock_is_known():
    assert left_by(saved(system="local"), **ELSEWHERE).alive().no


@pytest.mark.parametrize("state", [State.RUNNING, State.SUCCEEDED])
def test_without_its_lock_only_an_attempt_whose_end_is_recorded_is_known_to_have_ended(state):
    attempt, held = saved(run="r1", hold=True, state=state)
    with held:
        (attempt.folder / "lock").unlink()
        assert (attempt.alive().value, attempt.status().state) == (
            ("no", state) if state.terminal else ("unknown", State.UNKNOWN)
        )
        if not state.terminal:
            with pytest.raises(removal.InUseError, match="lock is missing, and without it no launcher can be seen"):
                removal.remove("r1")
            (attempt.folder / "lock").touch()
    removal.remove("r1")
    assert not attempt.folder.exists()


@pytest.mark.usefixtures("file_server")
def test_a_lock_of_an_older_version_says_nothing():
    attempt = saved(system="local")
    (attempt.folder / "lock").write_bytes(b"")
    assert "does not say on which machine" in attempt.alive().why


@pytest.mark.usefixtures("file_server")
def test_a_run_that_another_machine_may_follow_is_not_removed_unless_it_has_ended():
    attempt = left_by(saved(run="r1"), **ELSEWHERE)
    with pytest.raises(removal.InUseError, match=r"pid \d+ on machine gpu-2 may still run"):
        removal.remove("r1")
    assert attempt.folder.exists()
    removal.remove(left_by(saved(run="r2", state=State.SUCCEEDED), **ELSEWHERE).status().identity.run)


def test_the_launcher_of_an_older_version_is_not_signalled():
    attempt, held = saved(hold=True, launcher=os.getpid())
    with held:
        (attempt.folder / "lock").write_bytes(b"")
        assert "an older version" in attempt.terminate().why


def test_a_killed_process_keeps_its_name_in_the_lock_file(tmp_path):
    code = (
        "import os, pathlib; from tfsteps.runs.lock import Lock; held = Lock(pathlib.Path()); os.kill(os.getpid(), 9)"
    )
    with started([sys.executable, "-c", code], cwd=tmp_path) as holder:
        holder.wait()
    assert lock.holder(tmp_path).pid == holder.pid
    until(lambda: lock.held(tmp_path).no)

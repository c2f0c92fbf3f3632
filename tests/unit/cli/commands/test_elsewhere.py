"""Commands about runs whose launcher lives on another machine, in another container, or in a job system of others."""

import msgspec
import pytest

from tests.unit.cli.command import output_lines, refused, tfsteps
from tests.unit.cli.statuses import saved
from tfsteps.runs import lock, store
from tfsteps.runs.location import Location
from tfsteps.runs.lock import ProcessRef

GPU_2 = {"boot": "another", "host": "gpu-2", "pid": 7}
MAY_RUN = "pid 7 on machine gpu-2 may still run, and this machine cannot know"


def claimed(attempt, **change):
    """Make the lock file that of another process; it need not be locked."""
    ref = msgspec.structs.replace(ProcessRef.current(), **change)
    (attempt.folder / "lock").write_bytes(msgspec.json.encode(ref))


@pytest.fixture
def held():
    """A run whose launcher holds its lock, which this machine sees through a file server."""
    attempt, held = saved(run="r1", system="local", launcher=7, hold=True)
    with held:
        claimed(attempt, **GPU_2)
        yield attempt


@pytest.fixture
def hidden(monkeypatch):
    """A run whose launcher may hold a lock that this machine does not see."""
    monkeypatch.setattr(lock, "DISKS", set())
    attempt = saved(run="r1", system="local", launcher=7)
    claimed(attempt, **GPU_2)
    return attempt


@pytest.mark.usefixtures("held")
def test_what_runs_on_another_machine_is_shown_and_neither_signalled_nor_entered():
    assert any("pid 7 on machine gpu-2" in line for line in output_lines("show", "r1"))
    assert "task mnist was not stopped: pid 7 on machine gpu-2 cannot be signalled from here; " in refused("stop", "r1")
    assert "run `tfsteps stop r1` where it lives" in refused("stop", "r1")
    assert "its launcher is pid 7 on machine gpu-2; use `tfsteps shell r1` there" in refused("shell", "r1", "worker-0")
    assert not any("/proc/" in line for line in output_lines("debug", "r1"))
    assert "its launcher is running" in refused("rm", "r1")


def test_what_may_run_on_another_machine_is_left_as_it_is(hidden):
    assert any(f"Last recorded: running. P{MAY_RUN[1:]}." in line for line in output_lines("show", "r1"))
    assert [line.split()[3] for line in output_lines("runs")[1:]] == ["unknown"]
    for command in (("stop", "r1"), ("attach", "r1"), ("rm", "r1")):
        assert MAY_RUN in refused(*command), command
    code, _, err = tfsteps("clear", "r1", "--yes")
    assert (code, MAY_RUN in err, f"or delete {hidden.folder} if that machine is gone" in err) == (2, True, True)
    assert output_lines("prune", "--keep", "0")[0].startswith(f"r1 kept: {MAY_RUN}")
    assert store.runs() == ["r1"]


def test_a_launcher_in_another_container_of_this_machine_that_has_ended_is_known_to_have_ended(monkeypatch):
    monkeypatch.setattr(lock, "DISKS", set())
    claimed(saved(run="r1", system="local"), pid_namespace=1)
    assert [line.split()[3] for line in output_lines("runs")[1:]] == ["lost"]


def test_a_job_of_a_system_that_no_command_asks_is_stopped_through_a_launcher():
    saved(run="r1", system="robots", location=Location.ELSEWHERE)
    code, out, err = tfsteps("stop", "r1")
    assert (code, out.startswith("already ended: mnist lost")) == (2, True)
    assert err == (
        "error: run r1: mnist may go on, its launcher was killed; "
        "`tfsteps attach r1` follows it on robots, and meanwhile `tfsteps stop r1` stops it\n"
    )
    assert "on robots, where tfsteps cannot start a shell" in refused("shell", "r1", "worker-0")


def test_a_job_of_another_package_on_this_machine_ends_with_its_launcher():
    saved(run="r1", system="toy", location=Location.LOCAL, outlives_launcher=False).replicas_ended.touch()
    (line,) = output_lines("stop", "r1")
    assert "its replicas were stopped too" in line

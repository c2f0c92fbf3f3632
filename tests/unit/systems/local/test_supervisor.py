"""The loop of a local job."""

import os
import selectors
import threading

import pytest

from tfsteps import spec
from tfsteps.runs.events import JobChanged, ReplicaChanged, ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry
from tfsteps.systems.local import supervisor


def test_a_job_ends_with_its_last_replica_not_at_the_next_tick(tmp_path, monkeypatch):
    system, identity = registry.get("local"), Identity(run="r", task="t")
    job = spec.from_plain({"name": "quick", "command": ["true"], "roles": {"worker": {}}}, "a test", registry.options())
    handle = system.start(job, identity, system.output_paths(job, identity, tmp_path))
    ended, waits = threading.Event(), []
    select = selectors.DefaultSelector.select

    def watched(self, timeout=None):
        if ended.is_set() and threading.current_thread() is threading.main_thread():
            waits.append(timeout)
        return select(self, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", watched)
    for event in handle.events():
        if isinstance(event, ReplicaChanged) and event.state is ReplicaState.SUCCEEDED:
            ended.set()
    assert (isinstance(event, JobChanged), event.state, waits) == (True, State.SUCCEEDED, [])


def events_of(tmp_path, program, **fields):
    """Run a job of two workers and return its events."""
    system, identity = registry.get("local"), Identity(run="r", task="t")
    written = {"name": "two", "command": ["sh", "-c", program], "roles": {"worker": {"replicas": 2}}, **fields}
    job = spec.from_plain(written, "a test", registry.options())
    return [*system.start(job, identity, system.output_paths(job, identity, tmp_path)).events()]


@pytest.fixture
def all_end(monkeypatch):
    """Replicas that a failure or a restart is to end have ended by themselves before."""

    def after_their_end(function):
        def run(self, *args, **kwargs):
            for replica in getattr(self, "_job", self).running:
                if not replica.ended:
                    os.waitid(os.P_PID, replica.pid, os.WEXITED | os.WNOWAIT)
            function(self, *args, **kwargs)

        return run

    monkeypatch.setattr(supervisor._RunningJob, "fail", after_their_end(supervisor._RunningJob.fail))
    monkeypatch.setattr(supervisor._Active, "_restart", after_their_end(supervisor._Active._restart))


INDEX = 'case "$TF_CONFIG" in *\'"index": 0\'*) i=0;; *) i=1;; esac'


@pytest.mark.usefixtures("all_end")
@pytest.mark.parametrize("_time", range(5))
def test_a_replica_that_has_failed_before_the_job_ends_it_was_not_stopped(tmp_path, _time):
    events = events_of(tmp_path, f"{INDEX}; exit $((3 + i))", restart="never")
    ends = {str(event.replica): event for event in events if isinstance(event, ReplicaChanged)}
    assert [(name, end.state, end.exit_code) for name, end in sorted(ends.items())] == [
        ("worker-0", ReplicaState.FAILED, 3),
        ("worker-1", ReplicaState.FAILED, 4),
    ]


@pytest.mark.usefixtures("all_end")
@pytest.mark.parametrize("first", [3, 0], ids=["both fail", "one succeeds"])
def test_replicas_that_start_again_together_are_judged_once(tmp_path, first):
    ends = f"[ $i = 0 ] && exit {first}; exit 3"
    program = f"{INDEX}; f={tmp_path}/again$i; [ -e $f ] && exit 0; touch $f; [ $i = 0 ] && sleep 0.3; {ends}"
    events = events_of(tmp_path, program, restart="on_failure", backoff_limit=1)
    states = [event.state for event in events if isinstance(event, JobChanged)]
    starts = [event for event in events if isinstance(event, ReplicaChanged) and event.state is ReplicaState.PENDING]
    assert (states.count(State.RESTARTING), len(starts), states[-1]) == (1, 4, State.SUCCEEDED)


def test_a_replica_that_lost_a_peer_is_not_judged_once_it_was_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_SETTLE_SECONDS", 1.0)
    lost = 'echo "tensorflow UnavailableError: peer lost"; exit 1'
    taken = 'sleep 0.5; echo "Could not start gRPC server: Address already in use"; exit 1'
    program = (
        f"{INDEX}; f={tmp_path}/again$i; [ -e $f ] && sleep 2 && exit 0; touch $f; [ $i = 0 ] && {{ {lost}; }}; {taken}"
    )
    events = events_of(tmp_path, program, restart="on_failure", backoff_limit=0)
    states = [event.state for event in events if isinstance(event, JobChanged)]
    assert (states.count(State.RESTARTING), states[-1]) == (1, State.SUCCEEDED)

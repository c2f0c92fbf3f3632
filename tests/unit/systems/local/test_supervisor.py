"""The loop of a local job."""

import os
import selectors
import threading

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


def test_a_replica_that_has_failed_before_the_job_ends_it_was_not_stopped(tmp_path, monkeypatch):
    system, identity = registry.get("local"), Identity(run="r", task="t")
    program = 'case "$TF_CONFIG" in *\'"index": 0\'*) exit 3;; *) exit 5;; esac'
    written = {
        "name": "two",
        "command": ["sh", "-c", program],
        "roles": {"worker": {"replicas": 2}},
        "restart": "never",
    }
    job = spec.from_plain(written, "a test", registry.options())
    handle = system.start(job, identity, system.output_paths(job, identity, tmp_path))
    fail = supervisor._RunningJob.fail

    def fail_later(running, *what):
        for replica in running.running:  # they end before they are asked to
            if not replica.ended:
                os.waitid(os.P_PID, replica.pid, os.WEXITED | os.WNOWAIT)
        fail(running, *what)

    monkeypatch.setattr(supervisor._RunningJob, "fail", fail_later)
    ends = {str(event.replica): event for event in handle.events() if isinstance(event, ReplicaChanged)}
    assert [(name, end.state, end.exit_code) for name, end in sorted(ends.items())] == [
        ("worker-0", ReplicaState.FAILED, 3),
        ("worker-1", ReplicaState.FAILED, 5),
    ]

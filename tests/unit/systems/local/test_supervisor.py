"""The loop of a local job."""

import selectors
import threading

from tfsteps import spec
from tfsteps.runs.events import JobChanged, ReplicaChanged, ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry


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

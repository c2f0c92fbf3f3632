"""Real TensorFlow as local processes: each topology to its end, and what breaks on the way."""

import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from tests.support.jobs import kill, run_job
from tfsteps.runs.events import ReplicaState, State
from tfsteps.systems.local import ports

pytestmark = pytest.mark.tensorflow

WSUM_TWO_REPLICAS = "6.175067902"  # of mwms.py after 3 epochs of 20 steps, however often it was interrupted
ENV = "{TF_CPP_MIN_LOG_LEVEL: 2, RESUME: 1"
MWMS = "name: mwms\ncommand: [python, mwms.py]\n"
TWO_WORKERS = f"{MWMS}roles: {{worker: {{replicas: 2}}}}\n"
# Slow until there is a checkpoint, so that what happens after the first epoch comes before the last one.
AT_FIRST_SLOW = '[sh, -c, "[ -e $TFSTEPS_OUTPUT_DIR/ckpt/checkpoint ] || export STEP_SLEEP=0.5; exec python $0", {}]'
PS = "name: ps\ncommand: [python, ps.py]\nroles: {chief: {}, ps: {}, worker: {replicas: 2}}\n"


def succeeded(result, *names):
    assert result.status.state is State.SUCCEEDED, result.status
    for name in names:
        assert result.replica(name).state is ReplicaState.SUCCEEDED, result.status


@pytest.mark.parametrize("roles", ["{worker: {replicas: 2}}", "{chief: {}, worker: {}}"])
def test_multi_worker_mirrored(roles):
    result = run_job(f"{MWMS}roles: {roles}\nenv: {ENV}}}\n")
    succeeded(result, *(replica.name for replica in result.status.replicas))
    assert len(result.printed(f"done wsum {WSUM_TWO_REPLICAS}")) == 2
    assert (pathlib.Path(result.status.output) / "export/1/saved_model.pb").exists()
    for replica in result.status.replicas:
        assert replica.incarnations[0].cpu_seconds > 1
        assert replica.incarnations[0].memory_bytes > 200 * 2**20


@pytest.mark.shows("chief ps success_chief", "local")
def test_chief_ps_and_workers_that_never_return():
    result = run_job(f"{PS}env: {ENV}, JOIN: 1}}\n")
    succeeded(result, "chief-0")
    assert [result.replica(name).state for name in ("ps-0", "worker-0", "worker-1")] == [ReplicaState.STOPPED] * 3


def test_killed_worker_restarts_all_and_gives_the_same_bits():
    text = f"{TWO_WORKERS}restart: on_failure\nenv: {ENV}, EPOCHS: 15, STEPS: 4}}\n"
    text = text.replace("[python, mwms.py]", AT_FIRST_SLOW.format("mwms.py"))
    result = run_job(text, (r"\[worker-0\].*epoch 1 ", kill("worker-1")))
    succeeded(result, "worker-0", "worker-1")
    assert result.ends("worker-1") == [("failed", 137), ("succeeded", 0)]
    assert len(result.replica("worker-0").incarnations) == 2
    assert result.printed(r"restored .* step")
    assert len(result.printed(f"done wsum {WSUM_TWO_REPLICAS}")) == 2
    assert State.RESTARTING in result.watcher.states


@pytest.mark.shows("restart_never", "local")
def test_killed_worker_without_restart_fails_and_names_it():
    text = f"{TWO_WORKERS}env: {ENV}, EPOCHS: 999, STEP_SLEEP: 0.05}}\n"
    result = run_job(text, (r"\[worker-0\].*epoch 1 ", kill("worker-1")))
    assert result.status.state is State.FAILED
    assert result.status.failure.replica == "worker-1"
    assert result.status.failure.exit_code == 137
    assert result.status.failure.fault == "platform"


def test_killed_ps_comes_back_with_the_chief_and_the_workers_stay():
    text = f"{PS}restart: on_failure\nbackoff_limit: 3\nenv: {ENV}, JOIN: 1, EPOCHS: 15, STEPS: 4}}\n"
    text = text.replace("[python, ps.py]", AT_FIRST_SLOW.format("ps.py"))
    result = run_job(text, (r"epoch 1 ", kill("ps-0")))
    succeeded(result, "chief-0")
    assert len(result.replica("ps-0").incarnations) == 2
    assert len(result.replica("chief-0").incarnations) in (2, 3)  # a worker may hold its failed connection once more
    assert [len(result.replica(name).incarnations) for name in ("worker-0", "worker-1")] == [1, 1]


@pytest.mark.shows("role_templates", "local")
def test_a_peer_that_never_joins_is_named_when_the_pending_deadline_passes():
    text = (
        f"{MWMS}env: {ENV}}}\ndeadlines: {{pending: 15s}}\nsystems: {{local: {{grace: 1s}}}}\n"
        "strategy: multi_worker_mirrored\nroles: {chief: {}, worker: {command: [sleep, inf]}}\n"
    )
    result = run_job(text)
    assert (result.status.state, result.status.reason) == (State.FAILED, "DeadlineExceeded")
    late = r"worker-0 runs \(pid \d+\) but does not listen on its TF_CONFIG port"
    assert re.search(rf"Still pending: .*worker-0\. NotJoined: .*{late}", result.status.message), result.status.message


def test_a_replica_that_hangs_passes_the_no_progress_deadline_and_swallows_sigterm():
    text = (
        f"{MWMS}env: {ENV}}}\nroles: {{chief: {{}}, worker: {{env: {{STEP_SLEEP: 9999}}}}}}\n"
        "deadlines: {no_progress: 50s}\nsystems: {local: {grace: 1s}}\n"
    )
    result = run_job(text)
    assert (result.status.state, result.status.reason) == (State.FAILED, "DeadlineExceeded")
    assert "`no_progress` passed after 50s" in result.status.message
    assert State.RUNNING in result.watcher.states
    ends = [result.ends(name) for name in ("chief-0", "worker-0")]
    assert ends == [[("stopped", 137)]] * 2, "TensorFlow swallows SIGTERM, so they are killed after the grace period"


def test_a_frozen_worker_is_detected_by_its_peers():
    text = f"{TWO_WORKERS}env: {ENV}, EPOCHS: 999, STEP_SLEEP: 0.05}}\nsystems: {{local: {{grace: 1s}}}}\n"
    result = run_job(text, (r"\[worker-0\].*epoch 1 ", kill("worker-1", signal.SIGSTOP)))
    assert (result.status.state, result.status.reason) == (State.FAILED, "PeerLost")
    assert result.status.failure.fault == "platform"
    assert result.ends("worker-1") == [("stopped", 137)]


def test_a_port_that_was_taken_meanwhile_costs_no_restart(monkeypatch):
    taken = socket.create_server(("", 0))
    choose, calls = ports.free_ports, []

    def sometimes_taken(count):
        calls.append(count)
        return [taken.getsockname()[1], *choose(count - 1)] if len(calls) == 1 else choose(count)

    monkeypatch.setattr(ports, "free_ports", sometimes_taken)
    with taken:
        result = run_job(f"{MWMS}roles: {{worker: {{replicas: 2}}}}\nenv: {ENV}}}\nsystems: {{local: {{grace: 1s}}}}\n")
    succeeded(result, "worker-0", "worker-1")
    assert len(calls) == 2
    assert result.replica("worker-0").incarnations[0].reason == "PortTaken"


@pytest.mark.shows("memory", "local")
def test_out_of_memory_is_distinguished_from_other_kills():
    text = "name: oom\nroles: {worker: {resources: {memory: 700Mi}}}\ncommand: [python, oom.py]\n"
    result = run_job(text)
    assert result.status.state is State.FAILED
    assert (result.status.reason, result.status.failure.exit_code) == ("OOMKilled", 137)
    assert "memory limit" in result.status.failure.summary


def test_an_error_in_the_program_is_explained_not_its_echo_in_the_peers():
    text = (
        f"{MWMS}env: {ENV}, STEP_SLEEP: 0.05}}\nrestart: exit_code\nroles:\n  chief: {{}}\n"
        "  worker:\n    env: {STEPS: many}\n"
    )
    result = run_job(text)
    assert result.status.state is State.FAILED
    digest = result.status.failure
    assert digest.replica == "worker-0"
    assert "invalid literal for int()" in digest.exception
    assert re.match(r"mwms.py:\d+ in <module>", digest.frame)
    assert digest.fault == "user"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
def test_a_full_output_disk_fails_the_job_and_is_reported(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12k", "tmpfs", str(disk)], check=True)
    try:
        text = f"{TWO_WORKERS}env: {ENV}}}\noutput_dir: {disk}/out\nsystems: {{local: {{grace: 1s}}}}\n"
        result = run_job(text)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert result.status.state is State.FAILED
    assert result.printed("No space left on device")
    assert result.status.failure.replica == "worker-0"


@pytest.mark.parametrize(
    ("how", "exception", "frame"),
    [
        ("function", "ValueError: Dimensions must be equal, but are 5 and 3", "failing.py:12 in multiply"),
        ("fit", "InvalidArgumentError: Received a label value of", "failing.py:18 in fit"),
    ],
)
def test_an_error_within_a_graph_is_explained(how, exception, frame):
    digest = run_job(f"{{name: fails, command: [python, failing.py, {how}], roles: {{worker: {{}}}}}}").status.failure
    assert digest
    assert exception in digest.summary
    assert digest.frame == frame
    assert any(exception.partition(": ")[2] in line for line in digest.tail)


EARLY = """
name: early
roles: {worker: {replicas: 2}}
command:
  - python
  - -c
  - |
    import json, os, sys
    import tensorflow as tf
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    @tf.function
    def step():
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(1.0)))
    for number in range(5):
        if index == 1 and number == 3:
            sys.exit(0)
        step()
"""


def test_a_worker_that_ends_early_is_the_failure_not_the_peer_that_waits_for_it():
    failure = run_job(EARLY).status.failure
    assert (failure.replica, failure.exit_code, failure.fault) == ("worker-1", 0, "user")
    assert "UnavailableError" in failure.summary

"""Real TensorFlow through the platform: each rank builds its TF_CONFIG from what the others told rank 0."""

import os
import pathlib
import re
import signal

import pytest

from tests.conformance.verdicts import sh
from tests.hai import pods
from tests.hai.environment import HaiEnvironment
from tests.support import startup
from tests.support.waiting import until
from tfsteps.runs.events import ReplicaState, State

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(not pods.may_isolate(), reason="ranks need namespaces, which root may make"),
]
_ENV = {"TF_CPP_MIN_LOG_LEVEL": 2, "RESUME": 1, "CUDA_VISIBLE_DEVICES": -1, "PYTHONPATH": startup.FOLDER}
# Slow until there is a checkpoint, so that what happens after the first epoch comes before the last one.
_AT_FIRST_SLOW = {
    **sh("[ -e $TFSTEPS_OUTPUT_DIR/ckpt/checkpoint ] || export STEP_SLEEP=0.5; exec python mwms.py"),
    "env": {**_ENV, "EPOCHS": 15, "STEPS": 4},  # TensorFlow swallows SIGTERM: the checkpoint of an epoch must do
}
_WSUM = "done wsum 6.175067902"  # of mwms.py after 3 epochs of 20 steps, however often it was interrupted


@pytest.fixture
def environment(tmp_path):
    with HaiEnvironment(tmp_path) as environment:
        yield environment


def printed_by(launcher, pattern):
    return [who for who, line in launcher.lines() if re.search(pattern, line)]


def test_multi_worker_mirrored(environment):
    launcher = environment.launch(
        {"command": ["python", "mwms.py"], "roles": {"worker": {"replicas": 2}}, "env": _ENV,
         "systems": {"hai": {"finish": "20s"}}}
    )  # fmt: skip
    launcher.ends(0, State.SUCCEEDED)
    assert sorted(printed_by(launcher, _WSUM)) == ["worker-0", "worker-1"]
    assert [replica.state for replica in launcher.status.replicas] == [ReplicaState.SUCCEEDED] * 2


def test_multi_worker_mirrored_is_preempted_and_gives_the_same_bits(environment):
    launcher = environment.launch({"roles": {"worker": {"replicas": 2}}, **_AT_FIRST_SLOW})
    launcher.until_said("epoch 1 ")
    environment.platform.stop(environment.newest(), "suspend")
    until(lambda: len(environment.tasks()) == 2)
    launcher.ends(0, State.SUCCEEDED)
    assert printed_by(launcher, "restored .* step")
    assert "worker-0" in printed_by(launcher, _WSUM)


def test_a_killed_worker_starts_all_again_in_place(environment):
    launcher = environment.launch({"roles": {"worker": {"replicas": 2}}, "restart": "on_failure", **_AT_FIRST_SLOW})
    launcher.until_said("epoch 1 ")
    kill(environment, 1, "mwms.py")
    launcher.ends(0, State.SUCCEEDED)
    assert len(environment.tasks()) == 1
    assert "worker-0" in printed_by(launcher, _WSUM)
    assert [replica.restarts for replica in launcher.status.replicas] == [1, 1]
    assert launcher.status.replicas[1].incarnations[0].exit_code == 137


def test_chief_and_parameter_servers_that_never_end(environment):
    roles = {"chief": {}, "ps": {}, "worker": {"replicas": 2}, "evaluator": {"command": ["python", "evaluator.py"]}}
    env = {**_ENV, "JOIN": 1, "STEP_SLEEP": 0.1}
    launcher = environment.launch(
        {"command": ["python", "ps.py"], "roles": roles, "env": env, "systems": {"hai": {"finish": "20s"}}}
    )
    launcher.ends(0, State.SUCCEEDED)
    assert printed_by(launcher, "done wsum") == ["chief-0"]
    states = {replica.name: replica.state for replica in launcher.status.replicas}
    assert states["chief-0"] is ReplicaState.SUCCEEDED, states
    assert {states[name] for name in ("ps-0", "worker-0", "worker-1")} == {ReplicaState.STOPPED}, states


def kill(environment, rank, program):
    """Kill the program of a rank, and nothing else of it."""

    top = environment.platform.manager(environment.newest()).pods[rank].process.pid
    for pid in below(top):
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if program.encode() in words:
            os.kill(pid, signal.SIGKILL)


def below(pid):
    """Return the processes that a process has started, and those that they have."""

    children = [int(item) for item in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [item for child in children for item in below(child)]

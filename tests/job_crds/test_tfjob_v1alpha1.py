"""Stories of TfJobs: their names and labels, faults of their operator, default parameter servers, TensorBoard."""

import pytest

from tests.conformance.telling import TOLD, tell
from tests.conformance.test_tensorflow import _ENV, _FILES
from tests.conformance.verdicts import SHARED, sh
from tests.controllers.board import SERVICES
from tests.controllers.tfjob_v1alpha1 import JOBS
from tests.support.waiting import until
from tfsteps.cluster.api import Resource
from tfsteps.systems.base import ReplicaState, State

pytestmark = pytest.mark.cluster

_BATCH = Resource("batch/v1", "jobs", "Job")
_CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
ROLES = {"chief": {}, "worker": {"replicas": 2}}
LONG = "trap 'exit 143' TERM; sleep 600 & wait"  # not for 30 s more: the shell that is PID 1 would not hear SIGTERM


@pytest.fixture
def world(worlds):
    return worlds("tfjob-v1alpha1")


def names(world, resource):
    return sorted(each["metadata"]["name"] for each in world.api.list(resource, world.namespace)["items"])


def stored(world):
    return until(lambda: world.api.list(JOBS, world.namespace)["items"])[0]


def test_all_names_follow_from_ours(world):
    launcher = world.launch({"roles": ROLES, **sh(LONG)})
    launcher.until(State.RUNNING)
    job = stored(world)
    name, runtime_id = job["metadata"]["name"], job["spec"]["RuntimeId"]
    wanted = [f"{name}-{task}-{runtime_id}-{i}" for task, i in (("master", 0), ("worker", 0), ("worker", 1))]
    until(lambda: names(world, _BATCH) == names(world, SERVICES) == wanted)
    labels = world.pods()[0]["metadata"]["labels"]
    assert labels["tf_job_name"] == name
    assert labels["runtime_id"] == runtime_id
    world.delete(job)
    until(lambda: not names(world, _BATCH) and not names(world, SERVICES) and not world.pods(leaving=True))


def test_a_worker_that_failed_for_good_is_named_while_the_master_goes_on(world):
    job = {"roles": {"chief": {}, "worker": {"restart": "on_failure"}}, "restart": "exit_code"}
    launcher = world.launch({**job, **sh("[ $TFSTEPS_ROLE = chief ] && exec sleep 600; exit 3")})
    until(lambda: "WORKER has failed" in world.system.kind.verdict(stored(world)).message)
    assert launcher.process.poll() is None
    assert stored(world)["status"]["state"] == "Running"


def test_a_worker_that_kubernetes_starts_again_ends_a_job_without_restarts(world):
    script = "[ $TFSTEPS_ROLE = chief ] && exec sleep 600; exit 3"
    launcher = world.launch({"roles": {"chief": {}, "worker": {}}, **sh(script)})
    launcher.ends(10, State.FAILED, "BackoffLimitExceeded")
    assert (launcher.digest.replica, launcher.digest.exit_code) == ("worker-0", 3)


@pytest.mark.disruptive
def test_an_operator_that_is_started_again_fails_ended_jobs_and_we_go_by_their_state(world):
    launcher = world.launch({"roles": ROLES, **sh("true")})
    launcher.ends(0, State.SUCCEEDED)
    until(lambda: stored(world)["status"]["phase"] == "Done")
    with world.system.away(world.api) as operator:
        operator.away()
    until(lambda: stored(world)["status"]["phase"] == "Failed")
    assert stored(world)["status"]["reason"] == "unexpected TfJob phase: Done"
    assert world.system.kind.verdict(stored(world)).state is State.SUCCEEDED


def test_what_nothing_can_be_made_of_is_said(world):
    launcher = world.launch({"roles": {"chief": {}}, **sh("true"), "pod": {"spec": {"containers": [{"name": "side"}]}}})
    launcher.ends(10, State.FAILED, "SetupFailed")
    assert "image" in launcher.status.message


def test_an_ended_job_leaves_nothing_running(world):
    script = f"[ $TFSTEPS_ROLE = chief ] && {{ {TOLD}; exit 0; }}; {LONG}"
    launcher = world.launch({"roles": {**ROLES, "ps": {}, "evaluator": {}}, **sh(script), "on_end": "keep"})
    launcher.until(State.RUNNING)
    tell(world, launcher, "chief-0")
    launcher.ends(0, State.SUCCEEDED)
    until(lambda: [pod["metadata"]["labels"]["tfsteps.dev/role"] for pod in world.pods(leaving=True)] == ["chief"])
    stopped = {each.name for each in launcher.status.replicas if each.state is ReplicaState.STOPPED}
    assert stopped == {"worker-0", "worker-1", "ps-0", "evaluator-0"}


def test_a_tensorboard_on_port_80(world):
    job = {"roles": {"chief": {}}, **sh("exec sleep 600"), "volumes": SHARED, "output_dir": "/shared/x"}
    world.launch({**job, "tensorboard": {}}).until(State.RUNNING)
    job = stored(world)
    name = f"{job['metadata']['name']}-tensorboard-{job['spec']['RuntimeId']}"
    until(lambda: name in names(world, SERVICES))  # the operator makes it after the replicas
    service = world.api.get(SERVICES, world.namespace, name)
    assert service["spec"]["ports"][0]["port"] == 80
    assert service["metadata"]["labels"]["app"] == "tensorboard"


PROGRAM = """
import tensorflow as tf
me = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if me.task_type == "worker":
    tf.distribute.Server(me.cluster_spec(), job_name="worker", task_index=me.task_id, protocol="grpc").join()
strategy = tf.distribute.ParameterServerStrategy(me)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0)
step = tf.function(lambda: total.assign_add(1.0))
for _ in range(20):
    coordinator.schedule(step)
coordinator.join()
print("total", total.numpy(), total.device, flush=True)
import os
os._exit(0)  # no orderly shutdown: the servers do not end
"""


@pytest.mark.tensorflow
def test_the_operators_own_parameter_servers(worlds, build):
    world = worlds("tfjob-v1alpha1", build("train", _FILES))
    roles = {"chief": {}, "worker": {"replicas": 2}, "ps": {}}
    options = {"systems": {"tfjob-v1alpha1": {"default_ps": True}}}
    launcher = world.launch({"roles": roles, "env": _ENV, "command": ["python", "-c", PROGRAM], **options})
    launcher.ends(0, State.SUCCEEDED)
    said = "\n".join(f"{who} {line}" for who, line in launcher.lines())
    assert "ps-0 parameter server 0 listens" in said
    assert "chief-0 total 20.0 /job:ps/replica:0/task:0" in said
    job = stored(world)
    config_map = f"cm-ps-{job['spec']['RuntimeId']}"
    assert config_map in names(world, _CONFIG_MAPS)
    world.delete(job)
    until(lambda: config_map not in names(world, _CONFIG_MAPS))

"""Scenarios of TfJobs: their names and labels, faults of their operator, default parameter servers, TensorBoard."""

import time

import pytest

from tests.conformance.control_channel import WAIT_FOR_RELEASE, release
from tests.conformance.test_tensorflow import _ENV
from tests.conformance.verdicts import SHARED, sh
from tests.controllers.board import SERVICES
from tests.controllers.tfjob_v1alpha1 import JOBS
from tests.support.waiting import until
from tfsteps.kube.resource import Resource
from tfsteps.runs.events import ReplicaState, State

pytestmark = pytest.mark.cluster

_BATCH = Resource("batch/v1", "jobs", "Job")
_CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
ROLES = {"chief": {}, "worker": {"replicas": 2}}
AGAIN_SECONDS = 20  # a Job waits for 10 s before it replaces a pod
LONG = "trap 'exit 143' TERM; sleep 600 & wait"  # not for 30 s more: the shell that is PID 1 would not get SIGTERM


@pytest.fixture
def environment(environments):
    return environments("tfjob-v1alpha1")


def names(environment, resource):
    return sorted(item["metadata"]["name"] for item in environment.api.list(resource, environment.namespace)["items"])


def stored(environment):
    return until(lambda: environment.api.list(JOBS, environment.namespace)["items"])[0]


def test_all_names_follow_from_ours(environment):
    launcher = environment.launch({"roles": ROLES, **sh(LONG)})
    launcher.until(State.RUNNING)
    job = stored(environment)
    name, runtime_id = job["metadata"]["name"], job["spec"]["RuntimeId"]
    expected = [f"{name}-{task}-{runtime_id}-{i}" for task, i in (("master", 0), ("worker", 0), ("worker", 1))]
    until(lambda: names(environment, _BATCH) == names(environment, SERVICES) == expected)
    labels = environment.pods()[0]["metadata"]["labels"]
    assert labels["tf_job_name"] == name
    assert labels["runtime_id"] == runtime_id
    environment.delete(job)
    until(
        lambda: (
            not names(environment, _BATCH) and not names(environment, SERVICES) and not environment.pods(leaving=True)
        )
    )


def test_a_worker_that_failed_for_good_is_named_while_the_master_goes_on(environment):
    job = {"roles": {"chief": {}, "worker": {"restart": "on_failure"}}, "restart": "exit_code"}
    launcher = environment.launch({**job, **sh("[ $TFSTEPS_ROLE = chief ] && exec sleep 600; exit 3")})
    until(lambda: "WORKER has failed" in environment.system.kind.verdict(stored(environment)).message)
    assert launcher.process.poll() is None
    assert stored(environment)["status"]["state"] == "Running"


def test_a_worker_that_kubernetes_starts_again_ends_a_job_without_restarts(environment):
    script = "[ $TFSTEPS_ROLE = chief ] && exec sleep 600; exit 3"
    launcher = environment.launch({"roles": {"chief": {}, "worker": {}}, **sh(script)})
    launcher.ends(10, State.FAILED, "BackoffLimitExceeded")
    assert (launcher.failure.replica, launcher.failure.exit_code) == ("worker-0", 3)


@pytest.mark.shows("restart_on_failure", "tfjob-v1alpha1")
def test_a_worker_is_restarted_and_a_master_that_kubernetes_restarts_ends_the_job(environment):
    beside = {"roles": {"chief": {}, "worker": {"restart": "on_failure"}}, "backoff_limit": 5}
    ended = "[ $TFSTEPS_ROLE = chief ] || exit 7; sleep 8"
    launcher = environment.launch({**beside, **sh(ended)}, task="worker")
    launcher.ends(0, State.SUCCEEDED)
    assert sum(replica.restarts for replica in launcher.status.replicas) >= 1, launcher.status
    job = {"roles": {"worker": {}}, "restart": "on_failure"}
    launcher = environment.launch({**job, **sh("exit 7")}, task="master")
    launcher.ends(10, State.FAILED, "MasterFailed")
    assert (launcher.failure.replica, launcher.failure.exit_code) == ("worker-0", 7)


@pytest.mark.disruptive
def test_an_operator_that_is_started_again_fails_ended_jobs_and_we_go_by_their_state(environment):
    launcher = environment.launch({"roles": {"chief": {}}, **sh("true")})
    launcher.ends(0, State.SUCCEEDED)
    until(lambda: stored(environment)["status"]["phase"] == "Done")
    with environment.system.away(environment.api) as operator:
        operator.away()
    until(lambda: stored(environment)["status"]["phase"] == "Failed")
    assert stored(environment)["status"]["reason"] == "unexpected TfJob phase: Done"
    assert environment.system.kind.verdict(stored(environment)).state is State.SUCCEEDED


def test_an_invalid_pod_template_ends_the_job(environment):
    launcher = environment.launch(
        {"roles": {"chief": {}}, **sh("true"), "pod": {"spec": {"containers": [{"name": "tensorflow", "image": ""}]}}}
    )
    launcher.ends(10, State.FAILED, "SetupFailed")
    assert "image" in launcher.status.message


def test_an_ended_job_leaves_nothing_running(environment):
    script = f"[ $TFSTEPS_ROLE = chief ] && {{ {WAIT_FOR_RELEASE}; exit 0; }}; {LONG}"
    launcher = environment.launch(
        {"roles": {"chief": {}, "worker": {}, "ps": {}, "evaluator": {}}, **sh(script), "on_end": "keep"}
    )
    launcher.until(State.RUNNING)
    release(environment, launcher, "chief-0")
    launcher.ends(0, State.SUCCEEDED)
    until(
        lambda: [pod["metadata"]["labels"]["tfsteps.dev/role"] for pod in environment.pods(leaving=True)] == ["chief"]
    )
    stopped = {replica.name for replica in launcher.status.replicas if replica.state is ReplicaState.STOPPED}
    assert stopped == {"worker-0", "ps-0", "evaluator-0"}


def test_a_master_that_succeeded_does_not_run_again(environment):
    launcher = environment.launch({"roles": {"chief": {}}, **sh("sleep 2")})
    launcher.ends(0, State.SUCCEEDED)
    uids = {pod["metadata"]["uid"] for pod in environment.pods(leaving=True)}
    end = time.monotonic() + AGAIN_SECONDS
    while time.monotonic() < end:
        uids |= {pod["metadata"]["uid"] for pod in environment.pods(leaving=True)}
        time.sleep(0.5)
    assert len(uids) <= 1, "its Job made another pod in the place of the deleted one"


@pytest.mark.shows("tensorboard", "tfjob-v1alpha1")
def test_a_tensorboard_on_port_80(environment):
    job = {"roles": {"chief": {}}, **sh("exec sleep 600"), "volumes": SHARED, "output_dir": "/shared/x"}
    environment.launch({**job, "tensorboard": {}}).until(State.RUNNING)
    job = stored(environment)
    name = f"{job['metadata']['name']}-tensorboard-{job['spec']['RuntimeId']}"
    until(lambda: name in names(environment, SERVICES))  # the operator makes it after the replicas
    service = environment.api.get(SERVICES, environment.namespace, name)
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
def test_the_operators_own_parameter_servers(environments, build):
    environment = environments("tfjob-v1alpha1", build("train"))
    roles = {"chief": {}, "worker": {}, "ps": {}}
    options = {"systems": {"tfjob-v1alpha1": {"default_ps": True}}}
    launcher = environment.launch({"roles": roles, "env": _ENV, "command": ["python", "-c", PROGRAM], **options})
    launcher.ends(0, State.SUCCEEDED)
    log = "\n".join(f"{who} {line}" for who, line in launcher.lines())
    assert "ps-0 parameter server 0 listens" in log
    assert "chief-0 total 20.0 /job:ps/replica:0/task:0" in log
    job = stored(environment)
    config_map = f"cm-ps-{job['spec']['RuntimeId']}"
    assert config_map in names(environment, _CONFIG_MAPS)
    environment.delete(job)
    until(lambda: config_map not in names(environment, _CONFIG_MAPS))

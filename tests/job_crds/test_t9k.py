"""Scenarios of TensorFlowTrainingJobs: debug, pause by the platform, resume, limits, clean-up, TensorBoard."""

import queue

import pytest

from tests.conformance.control_channel import WAIT_FOR_RELEASE, release
from tests.conformance.verdicts import sh
from tests.controllers.board import SERVICES
from tests.controllers.t9k import BOARDS, MAX_DURATION
from tests.support.waiting import until
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.kube.watch import Changed, Listed, Watch
from tfsteps.runs.events import State
from tfsteps.systems.kubernetes.job_kind import tensorboard_address

pytestmark = pytest.mark.cluster

_EVENTS = Resource("v1", "events", "Event")
_CLAIMS = Resource("v1", "persistentvolumeclaims", "PersistentVolumeClaim")
WORKER, WORKERS = {"roles": {"worker": {}}}, {"roles": {"worker": {"replicas": 2}}}
CONDITIONS = {"Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused"}


@pytest.fixture
def environment(environments):
    return environments("t9k")


def t9k(**options):
    return {"systems": {"t9k": options}}


def changed(environment, change):
    meta = environment.job()["metadata"]
    return environment.api.patch(environment.system.resource, environment.namespace, meta["name"], change)


def phase(environment):
    return environment.job().get("status", {}).get("phase")


def phases(environment):
    """Return a function that returns the phases of the namespace's jobs from now until `last`, each once in a row."""
    seen, api = queue.Queue(), Api(environment.api.access)
    Watch(api, environment.system.resource, environment.namespace, seen.put)
    until(lambda: any(isinstance(item, Listed) for item in list(seen.queue)))

    def so_far():
        phases = [item.item.get("status", {}).get("phase") for item in list(seen.queue) if isinstance(item, Changed)]
        return [phase for i, phase in enumerate(phases) if phase and phase != ([None, *phases])[i]]

    def is_last(last):
        until(lambda: last in so_far())
        api.stopping.set()
        return so_far()

    return is_last


@pytest.mark.shows("hold", "t9k")
def test_held_replicas_run_another_command_without_init_containers(environment):
    init = {"spec": {"initContainers": [{"name": "never", "image": "registry.invalid/none:1"}]}}
    options = t9k(debug=True, debug_skip_init_containers=True, debug_commands={"worker": ["sleep", "601"], "ps": []})
    roles = {"chief": {}, "worker": {}, "ps": {}}
    job = {"roles": roles, **sh("echo trained; exec sleep 600"), **options}
    job["roles"] = {**roles, "worker": {"pod": init}, "ps": {"pod": init}}
    launcher = environment.launch(job)
    launcher.until(State.RUNNING)
    launcher.until_said("trained")
    until(lambda: len(environment.pods()) == len(roles))
    commands = {pod["metadata"]["name"].split("-")[-2]: pod["spec"]["containers"][0] for pod in environment.pods()}
    assert commands["worker"]["command"] == ["sleep", "601"]
    assert commands["ps"]["command"] == ["sleep", "inf"]
    assert launcher.lines() == [("chief-0", "trained")]


def test_a_pause_by_the_platform_is_reported_and_counts_only_for_total(environment):
    limits = {"deadlines": {"no_progress": "10s", "total": "45s"}}
    launcher = environment.launch(
        {**WORKER, **sh("echo up; exec sleep 600"), **limits, "queue": "research", "annotations": {MAX_DURATION: "2"}}
    )
    launcher.ends(11, State.FAILED, "DeadlineExceeded")
    pauses = [transition for transition in launcher.status.transitions if transition.state is State.SUSPENDED]
    assert [pause.reason for pause in pauses] == ["PausedByPlatform"]
    assert "no_progress" not in launcher.failure.summary
    events = environment.api.list(_EVENTS, environment.namespace)["items"]
    assert [
        event["reason"] for event in events if event["involvedObject"]["kind"] == environment.system.resource.kind
    ] == ["MaxDurationExceeded"]


def test_every_phase_and_what_runs_after_a_pause(environment):
    walked = phases(environment)
    job = {**sh(f'trap "exit 143" TERM; echo "$0"; {WAIT_FOR_RELEASE} & wait'), "args": ["first"]}
    launcher = environment.launch({**WORKER, **job, **t9k(resume_args={"worker": ["again"]})})
    launcher.until_said("first")
    until(lambda: phase(environment) == "Running")
    environment.pause(paused=True)
    until(lambda: phase(environment) == "Paused")  # the launcher says so when it is asked for
    launcher.until(State.SUSPENDED)
    environment.pause(paused=False)
    until(lambda: len(launcher.lines()) == 2)
    until(lambda: phase(environment) == "Running")
    release(environment, launcher, "worker-0")
    launcher.ends(0, State.SUCCEEDED)
    assert launcher.lines() == [("worker-0", "first"), ("worker-0", "again")]
    assert walked("Succeeded") == ["Pending", "Running", "Paused", "Resuming", "Running", "Succeeded"]
    status = environment.job()["status"]
    assert {condition["type"] for condition in status["conditions"]} == CONDITIONS
    true = {condition["type"] for condition in status["conditions"] if condition["status"] == "True"}
    assert true == {"Initialized", "Completed"}


def test_what_runs_after_a_pause_is_fixed(environment):
    environment.launch({**WORKER, **sh("exec sleep 600"), **t9k(resume_args={"worker": ["again"]})}).until(
        State.RUNNING
    )
    other = {"spec": {"runMode": {"pause": {"resumeSpecs": [{"type": "worker", "args": ["other"]}]}}}}
    with pytest.raises(ApiError, match="immutable") as error:
        changed(environment, other)
    assert error.value.status == 422


def test_the_limit_is_shared_by_all_replicas_and_counted(environment):
    mark = "marks=/shared/$TFSTEPS_RUN_ID-$TFSTEPS_INDEX; echo x >> $marks"
    script = f"{mark}; [ $(wc -l < $marks) -gt 2 ] && sleep 600; exit 3"
    shared = {"volumes": [{"host_path": "/tmp", "mount": "/shared"}], "output_dir": "/shared/{run_id}"}
    launcher = environment.launch(
        {**WORKERS, **sh(script), **shared, "restart": "on_failure", "backoff_limit": 3}, run=environment.namespace
    )
    launcher.ends(10, State.FAILED, "BackoffLimitExceeded")
    status = environment.job()["status"]
    assert status["backoffCount"] == 3
    assert [task["restartCount"] for task in status["tasks"]] == [3]
    assert "ReplicaFailure" in {item["type"] for item in status["conditions"] if item["status"] == "True"}


def test_the_platforms_own_deadline(environment):
    job = {**WORKER, **sh("exec sleep 600"), "deadlines": {"total": "90s"}}
    launcher = environment.launch(job)
    launcher.until(State.RUNNING)
    changed(environment, {"spec": {"runPolicy": {"activeDeadlineSeconds": 1}}})
    launcher.ends(11, State.FAILED, "DeadlineExceeded")


@pytest.mark.parametrize(("policy", "left"), [("none", {"chief", "worker"}), ("unfinished", {"chief"}), ("all", set())])
def test_what_is_left_of_an_ended_job(environment, policy, left):
    job = {"roles": {"chief": {}, "worker": {}}, "on_end": "keep", **t9k(clean_up=policy)}
    launcher = environment.launch({**job, **sh(f"[ $TFSTEPS_ROLE = chief ] || exec sleep 600; {WAIT_FOR_RELEASE}")})
    launcher.until(State.RUNNING)
    release(environment, launcher, "chief-0")
    launcher.ends(0, State.SUCCEEDED)
    until(lambda: {pod["metadata"]["labels"]["tfsteps.dev/role"] for pod in environment.pods()} == left)


@pytest.mark.shows("tensorboard", "t9k")
def test_a_tensorboard_of_the_jobs_name(environment):
    environment.api.create(
        _CLAIMS,
        environment.namespace,
        {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
        },
    )
    volumes = {"volumes": [{"pvc": "data", "mount": "/data"}]}
    launcher = environment.launch({**WORKER, **sh("true"), **volumes, "tensorboard": {}})
    launcher.until(State.PENDING)
    job = environment.job()
    name = job["metadata"]["name"]
    tensorboard = until(lambda: environment.job().get("status", {}).get("tensorboard"))
    assert (tensorboard["ready"], tensorboard["type"], tensorboard["dependent"]["kind"]) == (
        True,
        "Normal",
        "TensorBoard",
    )
    until(lambda: "status" in environment.api.get(BOARDS, environment.namespace, name))
    board = environment.api.get(BOARDS, environment.namespace, name)
    url = f"http://{name}-tensorboard.{environment.namespace}.svc/"
    assert board["status"]["url"] == url
    assert (
        tensorboard_address(
            environment.api, environment.system.kind.tensorboard_link(environment.job()), environment.namespace
        )
        == url
    )
    assert board["spec"]["logDir"]["pvc"][0]["name"] == "data"
    service = environment.api.get(SERVICES, environment.namespace, f"{name}-tensorboard")
    assert service["spec"]["ports"][0]["port"] == 80


@pytest.mark.shows("gang", "t9k")
def test_a_gang_begins_only_when_its_group_is_there(environment):
    kind, system = environment.system.kind, environment.system
    launcher = environment.launch({**WORKERS, **sh("exec sleep 600"), "gang": {"scheduler": "default-scheduler"}})
    launcher.until(State.RUNNING)
    until(
        lambda: kind.verdict(environment.job()).state is State.RUNNING
    )  # the launcher sees it by the pods, maybe before
    job = environment.job()
    assert job["spec"]["runMode"]["pause"]["enabled"] is False
    assert system.name == "t9k"

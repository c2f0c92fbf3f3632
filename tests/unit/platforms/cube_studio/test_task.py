"""A task of cube-studio: its variables and arguments, as cube-studio makes them, and the job that they describe."""

import json
import pathlib

import pytest

from tfsteps.image import IMAGE
from tfsteps.platforms.cube_studio.inputs import ARGUMENTS, job_fields
from tfsteps.platforms.cube_studio.task import CubeStudioTask
from tfsteps.spec import SpecError, from_plain
from tfsteps.spec.step_inputs import plain_job

TEMPLATE = pathlib.Path(__file__).parents[4] / "manifests/cube-studio/job-template.json"
VARIABLES = {
    "NO_RESOURCE_CHECK": "true",
    "TASK_RESOURCE_CPU": "1",
    "TASK_RESOURCE_MEMORY": "1G",
    "TASK_RESOURCE_GPU": "0",
    "KFJ_PIPELINE_ID": "12",
    "KFJ_RUN_ID": "5f0c1d2e3a4b5c6d7e8f901234567890",
    "KFJ_CREATOR": "ada",
    "KFJ_RUNNER": "bob",
    "KFJ_PIPELINE_NAME": "mnist",
    "KFJ_NAMESPACE": "pipeline",
    "KFJ_TASK_ID": "77",
    "KFJ_TASK_NAME": "tf-train",
    "KFJ_TASK_NODE_SELECTOR": "gpu=true;train=true;org=public;gpu-type=T4",
    "KFJ_TASK_VOLUME_MOUNT": "kubeflow-user-workspace(pvc):/mnt,4G(memory):/dev/shm",
    "KFJ_TASK_IMAGES": "tfsteps/launcher:0.1.0",
    "KFJ_TASK_RESOURCE_CPU": "2~4",
    "KFJ_TASK_RESOURCE_MEMORY": "4G",
    "KFJ_TASK_RESOURCE_GPU": "2(T4)",
    "KFJ_TASK_PROJECT_NAME": "public",
    "GPU_RESOURCE_NAME": "nvidia.com/gpu",
    "USERNAME": "ada",
    "IMAGE_PULL_POLICY": "Always",
    "HUBSECRET": "hubsecret,other",
}
ARGV = ["--image", "repo/tf:1", "--working_dir", "/mnt/ada", "--command", "python t.py --lr 1", "--num_worker", "2"]


def job(argv=ARGV, **variables):
    return from_plain(plain_job(CubeStudioTask(argv, {**VARIABLES, **variables}).parameters))


def refused(argv=ARGV, **variables):
    with pytest.raises(SpecError) as caught:
        job(argv, **variables)
    return [str(problem) for problem in caught.value.problems]


def command_line(arguments):
    """Return the command line that cube-studio makes of a task's arguments (section 1 of its templates' rules)."""
    words = []
    for name, value in arguments.items():
        if isinstance(value, bool):
            words += [name] if value else []
        elif value:
            words += [name, json.dumps(value) if isinstance(value, dict | list) else str(value)]
    return words


def test_the_variables_are_the_job_of_the_task():
    got = job()
    assert got.name == "mnist-tf-train"
    assert (got.image, got.command, got.working_dir) == ("repo/tf:1", ("bash", "-c", "python t.py --lr 1"), "/mnt/ada")
    assert got.roles.worker.replicas == 2
    resources = got.resources
    assert (resources.cpu, resources.limits.cpu, resources.memory) == (2, 4, 4_000_000_000)
    assert (resources.gpu, resources.gpu_type, resources.gpu_resource) == (2, None, "nvidia.com/gpu")
    assert got.node_selector == {"gpu": "true", "train": "true", "org": "public", "gpu-type": "T4"}
    personal, memory = got.volumes
    assert (personal.pvc, personal.mount, personal.personal) == ("kubeflow-user-workspace", "/mnt", True)
    assert (memory.mount, memory.empty_dir, memory.in_memory) == ("/dev/shm", 4_000_000_000, True)
    assert got.image_pull_secrets == ("hubsecret", "other")
    assert got.image_pull_policy == "Always"
    assert got.annotations == {"project": "public"}
    assert got.env == {}


def test_run_and_task_are_those_of_cube_studio():
    identity = CubeStudioTask(ARGV, VARIABLES).identity()
    assert (identity.run, identity.task, identity.pipeline) == (VARIABLES["KFJ_RUN_ID"], "tf-train", "mnist")
    assert job().labels == {
        "run-id": VARIABLES["KFJ_RUN_ID"],
        "pipeline-id": "12",
        "pipeline-name": "mnist",
        "task-id": "77",
        "task-name": "tf-train",
        "run-username": "bob",
        "pipeline-username": "ada",
    }


def test_labels_keep_to_the_rules_of_kubernetes():
    labels = job(KFJ_RUNNER="bob@example.org", KFJ_PIPELINE_NAME="m" * 70).labels
    assert labels["run-username"].startswith("bob-example.org-")
    assert len(labels["pipeline-name"]) == 63


def test_a_job_cannot_take_cube_studios_labels_away():
    labels = job([*ARGV, "--job", '{"labels": {"run-id": "other", "team": "vision"}}']).labels
    assert (labels["run-id"], labels["team"]) == (VARIABLES["KFJ_RUN_ID"], "vision")


@pytest.mark.parametrize("missing", ["KFJ_RUN_ID", "KFJ_TASK_NAME"])
def test_without_a_run_or_task_nothing_is_launched(missing):
    (problem,) = refused(**{missing: ""})
    assert problem.startswith(f"{missing}: is not set. Start this program by a task of cube-studio")


@pytest.mark.parametrize(
    ("text", "node_selector", "several"),
    [
        ("cpu=true;train=true;org=a,b", {"cpu": "true", "train": "true"}, ["a", "b"]),
        ("cpu=true,train=true,gpu-type=T4", {"cpu": "true", "train": "true", "gpu-type": "T4"}, None),
        ("cpu=true\norg=a", {"cpu": "true", "org": "a"}, None),
    ],
)
def test_node_selectors(text, node_selector, several):
    got = job(KFJ_TASK_NODE_SELECTOR=text)
    assert got.node_selector == node_selector
    if several:
        affinity = got.pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        expected = [{"key": "org", "operator": "In", "values": several}]
        assert affinity == {"nodeSelectorTerms": [{"matchExpressions": expected}]}
    else:
        assert got.pod == {}


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("KFJ_TASK_RESOURCE_CPU", "2-4", "cpu", 2),
        ("KFJ_TASK_RESOURCE_CPU", "0.5", "cpu", 0.5),
        ("KFJ_TASK_RESOURCE_MEMORY", "4096M", "memory", 4_096_000_000),
        ("KFJ_TASK_RESOURCE_MEMORY", "4", "memory", 4_000_000_000),
        ("KFJ_TASK_RESOURCE_MEMORY", "4G~8G", "memory", 4_000_000_000),
        ("KFJ_TASK_RESOURCE_GPU", "2（npu）", "gpu", 2),  # noqa: RUF001  full-width, as Chinese keyboards type it
        ("KFJ_TASK_RESOURCE_GPU", "0.5", "gpu_fraction", 0.5),
        ("KFJ_TASK_RESOURCE_GPU", "-1", "all_gpus", True),
    ],
)
def test_resources(variable, text, field, value):
    assert getattr(job(**{variable: text}).resources, field) == value


def test_a_job_without_gpus_sees_none():
    assert job(KFJ_TASK_RESOURCE_GPU="0").env == {"NVIDIA_VISIBLE_DEVICES": "none"}
    with_gpus = {"roles": {"chief": {"resources": {"gpu": 1}}}}
    assert job([*ARGV, "--job", json.dumps(with_gpus)], KFJ_TASK_RESOURCE_GPU="0").env == {}


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("KFJ_TASK_RESOURCE_CPU", "many"),
        ("KFJ_TASK_RESOURCE_CPU", "4~2"),
        ("KFJ_TASK_RESOURCE_MEMORY", "4X"),
        ("KFJ_TASK_RESOURCE_GPU", "1G,0.1"),
        ("KFJ_TASK_VOLUME_MOUNT", "data(unknown):/mnt"),
        ("KFJ_TASK_VOLUME_MOUNT", "data"),
        ("KFJ_TASK_NODE_SELECTOR", "=true"),
        ("KFJ_TASK_NODE_SELECTOR", "cpu=true;train"),
        ("IMAGE_PULL_POLICY", "Sometimes"),
    ],
)
def test_a_variable_that_is_not_understood_is_named_and_nothing_guessed(variable, text):
    problems = refused(**{variable: text})
    assert all(problem.startswith(f"{variable}: ") for problem in problems), problems
    assert repr(text) in problems[0]


def test_all_wrong_variables_are_reported_at_once():
    problems = refused(KFJ_TASK_RESOURCE_CPU="many", KFJ_TASK_RESOURCE_MEMORY="4X")
    assert [problem.partition(":")[0] for problem in problems] == ["KFJ_TASK_RESOURCE_CPU", "KFJ_TASK_RESOURCE_MEMORY"]


def test_the_job_file_overrides_the_task_and_arguments_override_the_job_file():
    fields = {
        "image": "other:1",
        "resources": {"cpu": 8},
        "volumes": ["data(pvc-share):/mnt", "more(configmap):/etc/more"],
        "roles": {"worker": {"replicas": 5}, "evaluator": {}},
        "deadlines": {"no_progress": "30m"},
    }
    got = job([*ARGV, "--job", json.dumps(fields)])
    assert (got.resources.cpu, got.resources.memory) == (8, 4_000_000_000)
    assert [(volume.mount, volume.personal) for volume in got.volumes] == [
        ("/mnt", False),
        ("/etc/more", False),
        ("/dev/shm", False),
    ]
    assert (got.image, got.roles.worker.replicas, got.roles.evaluator.replicas) == ("repo/tf:1", 2, 1)
    assert got.deadlines.no_progress == 1800


@pytest.mark.parametrize("text", ['{"A": "1", "B": "x=y"}', "A=1\n B=x=y\n"])
def test_variables_of_replicas(text):
    assert job([*ARGV, "--env", text]).env == {"A": "1", "B": "x=y"}


def test_a_job_may_be_yaml():
    assert job([*ARGV, "--job", "restart: on_failure\nbackoff_limit: 2"]).backoff_limit == 2


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--nope", "1"], "--nope: is not an argument of this template. Allowed: --image, "),
        (["--num_worker", "two"], "--num_worker: 'two' is not a number of replicas"),
        (["--num_worker", "1", "--num_worker", "2"], "--num_worker: is there twice"),
        (["--env", "A"], "--env: 'A' has a line without `=`"),
        (["--job", "[1]"], "--job: '[1]' is not a mapping, as JSON or YAML"),
        (["--command"], "--command: has no value"),
    ],
)
def test_wrong_arguments(argv, problem):
    assert refused(argv)[0].startswith(problem)


# --- the template


def test_the_template_passes_what_the_program_takes():
    (template,) = json.loads(TEMPLATE.read_text()).values()
    schema = {name: field for group in template["job_template_args"].values() for name, field in group.items()}
    assert list(schema) == sorted(ARGUMENTS, key=list(schema).index)
    required = {"--image": "repo/tf:1"}
    defaults = {name: required.get(name, field["default"]) for name, field in schema.items()}
    got = job(command_line(defaults))
    assert (got.roles.worker.replicas, got.command) == (2, ("bash", "-c", "python train.py"))
    assert CubeStudioTask(command_line(defaults), VARIABLES).parameters["system"] == "kubeflow"


def test_the_template_starts_the_program_in_the_launchers_image():
    (template,) = json.loads(TEMPLATE.read_text()).values()
    assert template["image_name"] == f"registry.invalid/{IMAGE}", "the installer writes the registry"
    assert template["job_template_command"] == "python -m tfsteps.platforms.cube_studio"
    variables = dict(line.split("=") for line in template["job_template_env"].splitlines())
    assert job_fields({**VARIABLES, **variables}) == job_fields(VARIABLES), "they are for the launcher alone"


@pytest.mark.parametrize("value", [{"restart": "on_failure"}, "restart: on_failure"])
def test_a_mapping_of_the_form_is_a_job(value):
    assert job(command_line({"--image": "a:1", "--num_worker": 1, "--job": value})).restart == "on_failure"

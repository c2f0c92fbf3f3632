"""Pipelines that cube-studio exported, as Argo Workflows: what a task becomes, and what is said of the rest."""

import copy
import json

import pytest
import yaml

from tests.unit.cli.command import tfsteps
from tfsteps.engines.argo import lint
from tfsteps.imports.read import read_pipelines
from tfsteps.systems.manifest.fields import NotUnderstoodError

CUSTOM = "自定义镜像"
PIPELINE = {
    "pipeline": {
        "name": "nightly_mnist",
        "describe": "digits",
        "project": "public",
        "parallelism": 2,
        "global_env": "LR=0.1\nDAY={{datetime.datetime.now().strftime('%Y-%m-%d')}}",
        "schedule_type": "crontab",
        "cron_time": "0 2 * * *",
        "depends_on_past": True,
        "parameter": {"demo": "true"},
        "dag_json": {"prepare": {}, "tf_train": {"upstream": ["prepare"]}, "check": {"upstream": ["tf_train", "old"]}},
    },
    "tasks": [
        {
            "job_templete": CUSTOM,
            "name": "prepare",
            "label": "Prepare",
            "volume_mount": "kubeflow-user-workspace(pvc):/mnt,2G(memory):/dev/shm",
            "resource_cpu": "1~2",
            "resource_memory": "4G",
            "retry": 3,
            "timeout": "600",
            "args": {
                "images": "repo/py:1",
                "workdir": "/mnt/{{creator}}",
                "command": "python prepare.py {{LR}} {{DAY}}",
            },
        },
        {
            "job_templete": "tfjob",
            "name": "tf_train",
            "volume_mount": "kubeflow-user-workspace(pvc):/mnt",
            "resource_gpu": "2(T4)",
            "retry": "1",
            "args": {
                "--image": "repo/tf:1",
                "--working_dir": "/mnt/{{creator}}",
                "--command": "python train.py --out {{uuid.uuid4().hex}}",
                "--num_worker": "2",
            },
        },
        {
            "job_templete": "python",
            "name": "check",
            "volume_mount": "",
            "skip": True,
            "outputs": '{"prediction": "/output.txt"}',
            "args": {"--verbose": True, "--quiet": False, "--empty": "", "--config": {"a": 1}, "--n": 3},
        },
    ],
}


def read(document=PIPELINE):
    (pipeline,) = read_pipelines(json.dumps(document))
    assert lint.lint_messages(pipeline.text) == []
    return yaml.safe_load(pipeline.text), pipeline.notes


def changed(*path, value):
    document = copy.deepcopy(PIPELINE)
    place = document
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return document


@pytest.fixture(scope="module")
def workflow():
    return read()


def template(workflow, name):
    return next(item for item in workflow["spec"]["templates"] if item["name"] == name)


def test_the_graph(workflow):
    spec = workflow[0]["spec"]
    assert [
        (task["name"], task.get("dependencies"), task.get("when"))
        for task in template(workflow[0], "main")["dag"]["tasks"]
    ] == [("prepare", None, None), ("tf-train", ["prepare"], None), ("check", ["tf-train"], "false")]
    assert (spec["parallelism"], spec["ttlStrategy"]) == (2, {"secondsAfterCompletion": 10800})
    assert workflow[0]["metadata"]["generateName"] == "nightly-mnist-"


def test_a_task_with_an_image_of_its_own_is_a_container(workflow):
    prepare = template(workflow[0], "prepare")
    container = prepare["container"]
    day = "{{workflow.creationTimestamp.Y}}-{{workflow.creationTimestamp.m}}-{{workflow.creationTimestamp.d}}"
    assert container["image"] == "repo/py:1"
    assert container["command"] == ["bash", "-c", f"python prepare.py {{{{workflow.parameters.LR}}}} {day}"]
    assert container["workingDir"] == "/mnt/{{workflow.parameters.creator}}"
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "4G"}, "limits": {"cpu": "2", "memory": "4G"}}
    user = "{{workflow.parameters.creator}}"
    assert container["volumeMounts"] == [
        {"name": "volume-0", "mountPath": f"/mnt/{user}", "subPath": user},
        {"name": "volume-1", "mountPath": "/dev/shm"},
    ]
    assert prepare["volumes"][1]["emptyDir"] == {"medium": "Memory", "sizeLimit": 2_000_000_000}
    assert (prepare["retryStrategy"], prepare["activeDeadlineSeconds"]) == ({"limit": 3}, 600)
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    assert (env["KFJ_RUN_ID"], env["KFJ_TASK_NAME"], env["LR"], env["DAY"]) == (
        "{{workflow.uid}}",
        "prepare",
        "{{workflow.parameters.LR}}",
        day,
    )


def test_a_task_that_trains_is_a_step_of_tfsteps(workflow):
    (_, train, _) = template(workflow[0], "main")["dag"]["tasks"]
    assert train["templateRef"] == {"name": "tfsteps", "template": "train"}
    values = {parameter["name"]: parameter["value"] for parameter in train["arguments"]["parameters"]}
    assert (values["image"], values["workers"]) == ("repo/tf:1", "2")
    assert json.loads(values["command"]) == ["bash", "-c", "python train.py --out {{workflow.uid}}"]
    user = "{{workflow.parameters.creator}}"
    assert json.loads(values["spec"]) == {
        "name": "tf-train",
        "resources": {"cpu": "2", "memory": "2G", "gpu": "2(T4)"},
        "volumes": [{"pvc": "kubeflow-user-workspace", "mount": f"/mnt/{user}", "sub_path": user}],
        "restart": "on_failure",
        "backoff_limit": 1,
        "working_dir": f"/mnt/{user}",
    }


def test_what_the_file_does_not_have_is_to_be_given_at_submission(workflow):
    parameters = {item["name"]: item.get("value") for item in workflow[0]["spec"]["arguments"]["parameters"]}
    assert parameters == {"creator": None, "LR": "0.1", "command-python": None, "image-python": None}
    missing = lint.missing_arguments(yaml.safe_dump(workflow[0]))
    assert [text for text in missing if "image-python has no value" in text]


def test_arguments_are_the_command_line_of_cube_studio(workflow):
    container = template(workflow[0], "check")["container"]
    assert container["command"] == ["sh", "-c", '{{workflow.parameters.command-python}} "$@"', "sh"]
    assert container["args"] == ["--verbose", "--config", '{"a": 1}', "--n", "3"]


@pytest.mark.parametrize(
    "note",
    [
        "task prepare: label = 'Prepare': a task of a Workflow has only a name",
        "task check: its upstream old is no task; left out, as by cube-studio",
        'task check: outputs = \'{"prediction": "/output.txt"}\': write it as outputs of the template',
        "pipeline: project = 'public': the namespace, nodes and pull secrets of a project are platform settings",
        "pipeline: cron_time = '0 2 * * *': write it as `cron` of a schedule file",
        "pipeline: depends_on_past = true: it belongs to the schedule",
        "{{uuid.uuid4().hex}}: the Workflow's uid, the same everywhere in a run",
        "task tf-train: retry = 1 restarts the whole job, by the launcher",
    ],
)
def test_the_rest_is_said_with_the_reason(note, workflow):
    assert note in workflow[1]


def test_texts_of_the_database_are_read_as_well():
    document = {**PIPELINE["pipeline"], "id": 12, "dag_json": json.dumps(PIPELINE["pipeline"]["dag_json"])}
    document["tasks"] = [{**task, "id": 1, "args": json.dumps(task["args"])} for task in PIPELINE["tasks"]]
    assert read(document)[0]["spec"]["templates"] == read()[0]["spec"]["templates"]


def test_a_file_may_have_several_pipelines():
    other = changed("pipeline", "name", value="other")
    assert [pipeline.name for pipeline in read_pipelines(json.dumps({"a": PIPELINE, "b": other}))] == [
        "nightly-mnist",
        "other",
    ]


@pytest.mark.parametrize(
    ("expression", "reference"),
    [
        ("{{pipeline_name}}", "nightly-mnist"),
        ("{{ runner }}", "{{workflow.parameters.runner}}"),
        ("{{pipeline_id}}", "{{workflow.parameters.pipeline_id}}"),
        ("{{cluster_name}}", "{{workflow.parameters.cluster_name}}"),
        ("{{execution_date}}", "{{workflow.creationTimestamp.Y}}-{{workflow.creationTimestamp.m}}-"),
        ("{{datetime.datetime.now()-datetime.timedelta(days=1)}}", "{{workflow.parameters.value-"),
    ],
)
def test_template_variables(expression, reference):
    command = ("tasks", 0, "args", "command")
    document = changed(*command, value=f"run {expression}")
    assert template(read(document)[0], "prepare")["container"]["command"][2].startswith(f"run {reference}")


@pytest.mark.parametrize(
    ("path", "value", "wrong"),
    [
        (("pipeline", "name"), "", "pipeline.name is missing"),
        (("pipeline", "dag_json"), "{", "dag_json is no JSON"),
        (("pipeline", "dag_json"), {"new": {}}, "dag_json has the task new, and `tasks` does not"),
        (("pipeline", "dag_json"), {"prepare": 7}, "dag_json: prepare is 7"),
        (("pipeline", "dag_json"), {"prepare": {"upstream": "a"}}, "dag_json: prepare is a mapping"),
        (("tasks", 0, "args"), [1], "task prepare: args is a list"),
        (("tasks", 0, "volume_mount"), "data(unknown):/mnt", "task prepare: volume_mount: "),
        (("tasks", 1, "resource_memory"), "4X", "task tf-train: resource_memory: "),
        (("tasks", 1, "args", "--nope"), "1", "task tf-train: --nope: is not an argument"),
        (("tasks", 0, "args", "command"), "{% if a %}b{% endif %}", "task prepare: args has a statement"),
        (("tasks", 0), 7, "tasks[0] is 7"),
    ],
)
def test_what_is_not_understood(path, value, wrong):
    with pytest.raises(NotUnderstoodError) as caught:
        read(changed(*path, value=value))
    assert wrong in str(caught.value)


@pytest.mark.parametrize("document", [{}, [], 7, None, {"pipeline": 7, "tasks": []}, {"a": {"pipeline": {}}}])
def test_other_documents_are_no_pipelines(document):
    assert read_pipelines(json.dumps(document)) == []


def test_import_writes_the_workflow_and_says_the_rest(tmp_path):
    file = tmp_path / "export.json"
    file.write_text(json.dumps(PIPELINE))
    code, _, errors = tfsteps("import", file, "-o", tmp_path / "mnist.yaml")
    assert code == 0
    assert lint.lint_messages((tmp_path / "mnist.yaml").read_text()) == []
    assert "pipeline nightly-mnist of cube-studio: task prepare: label = 'Prepare'" in errors
    assert "parameter image-python has no value; set it at submission" in errors


def test_import_of_a_cycle_is_refused(tmp_path):
    file = tmp_path / "export.json"
    file.write_text(json.dumps(changed("pipeline", "dag_json", "prepare", value={"upstream": ["check"]})))
    code, _, errors = tfsteps("import", file)
    assert code == 2
    assert "main" in errors.splitlines()[-1]


@pytest.mark.parametrize("value", ["9" * 5000, "many", "-1", "²", 1.5])
@pytest.mark.parametrize("path", [("pipeline", "parallelism"), ("tasks", 0, "retry"), ("tasks", 1, "timeout")])
def test_a_number_that_is_none_is_refused(path, value):
    with pytest.raises(NotUnderstoodError, match=f"{path[-1]} is .*expected a whole number"):
        read_pipelines(json.dumps(changed(*path, value=value)))


def test_two_tasks_of_one_name_are_refused():
    with pytest.raises(NotUnderstoodError, match="rename one"):
        read_pipelines(json.dumps(changed("tasks", 2, "name", value="TF_train")))

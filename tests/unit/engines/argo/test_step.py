"""Our steps within Hera's Workflows."""

import inspect
import json

import pytest
from hera.workflows import DAG, Parameter, SecretEnv, Steps, Task, Workflow

from tfsteps import argo
from tfsteps.argo import cleanup, lint_messages, train
from tfsteps.spec import SpecError

JOB = {"name": "mnist", "image": "a:1", "workers": 1}


def graph(**settings):
    return Workflow(generate_name="a-", entrypoint="main", **settings)


def arguments(node):
    return {parameter["name"]: parameter["value"] for parameter in node.get("arguments", {}).get("parameters", [])}


def templates(workflow):
    return {template["name"]: template for template in workflow.to_dict()["spec"]["templates"]}


def test_a_call_in_a_dag_is_a_task_and_brings_the_template_once():
    with graph() as workflow, DAG(name="main"):
        first = train("first", name="a", image="a:1", workers=2, env={"A": "b"}, args=["--lr", 0.1])
        second = train("second", name="b", image="a:1", chief=1, metric_tags=first.get_parameter("metrics"))
        assert isinstance(first, Task)
        _ = first >> second
    rendered = templates(workflow)
    assert list(rendered) == ["main", "train"]
    one, two = rendered["main"]["dag"]["tasks"]
    expected = {"name": "a", "image": "a:1", "workers": "2", "env": '{"A":"b"}', "args": '["--lr",0.1]'}
    assert arguments(one) == expected
    assert arguments(two)["metric_tags"] == "{{tasks.first.outputs.parameters.metrics}}"
    assert two["depends"] == "first"
    assert lint_messages(workflow.to_yaml()) == []


def test_steps_side_by_side():
    with graph() as workflow, Steps(name="main") as steps:
        with steps.parallel():
            train("a", **JOB)
            train("b", **JOB)
        train("c", **JOB, when="{{steps.a.status}} == Succeeded")
    assert [[item["name"] for item in group] for group in templates(workflow)["main"]["steps"]] == [["a", "b"], ["c"]]
    assert lint_messages(workflow.to_yaml()) == []


def test_a_loop():
    with graph() as workflow, DAG(name="main"):
        train("fit", **JOB, args=["--lr", "{{item}}"], with_items=[0.1, 0.01])
    task = templates(workflow)["main"]["dag"]["tasks"][0]
    assert task["withItems"] == [0.1, 0.01]
    assert lint_messages(workflow.to_yaml()) == []


def test_heras_own_way_of_giving_arguments():
    with graph() as workflow, DAG(name="main"):
        train("fit", arguments={"image": "a:1", "name": "mnist"}, workers=1)
    assert arguments(templates(workflow)["main"]["dag"]["tasks"][0]) == {
        "image": "a:1",
        "name": "mnist",
        "workers": "1",
    }


@pytest.mark.parametrize(
    ("inputs", "name"),
    [
        ({"spec": {"name": "other"}}, "train"),
        ({"name": "mnist"}, "mnist"),
        ({"name": "{{inputs.parameters.name}}"}, "train"),
        ({"name": Parameter(name="name", value="{{inputs.parameters.name}}")}, "train"),
    ],
)
def test_the_name_of_a_task(inputs, name):
    with graph(), DAG(name="main", inputs=Parameter(name="name")):
        assert train(image="a:1", workers=1, **inputs).name == name


def test_what_is_left_out_is_not_passed_on():
    with graph() as workflow, DAG(name="main"):
        train("fit", **JOB, command=None, data="")
    assert arguments(templates(workflow)["main"]["dag"]["tasks"][0]) == {**JOB, "workers": "1"}


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"worker": 2}, "worker: is not an input of train; Argo drops it without a message. Allowed: args, "),
        ({"workers": "two"}, "workers: 'two' is not of its type. Allowed: a whole number."),
        ({"workers": 1.5}, "workers: 1.5 is not of its type."),
        ({"workers": True}, "workers: true is not of its type."),
        ({"args": "--lr"}, "args: '--lr' is not of its type."),
        ({"env": ["A"]}, "env: a list is not of its type."),
        ({"env": {"A": float("nan")}}, "env: a mapping has a value that JSON cannot hold, such as NaN."),
        ({"args": [{"a"}]}, "args: a list has a value that JSON cannot hold, such as NaN."),
        ({"image": True}, "image: true is not of its type. Allowed: text."),
        ({"image": ["A"]}, "image: a list is not of its type. Allowed: text."),
    ],
)
def test_bad_input(inputs, says):
    with graph(), DAG(name="main"), pytest.raises(SpecError) as caught:
        train("fit", **inputs)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("step", "inputs", "says"),
    [
        ("train", {**JOB, "system": "nope"}, "train: system: 'nope' is unknown. Allowed: auto, local, kubeflow"),
        ("train", {**JOB, "gpus": 1}, "train: gpus: is not an input of train; .* Write `gpu`"),
        ("train", {"image": "a:1", "workers": 1}, "train: name: is missing"),
        ("train", {"name": "a", "image": "a:1"}, "train: roles: is missing. Set `workers`, `chief` or both"),
        ("launch", {**JOB, "deadlines": {"total": "soon"}}, "launch: deadlines.total: 'soon' is not a duration"),
        ("launch", {"spec": {"name": "a", "rolls": {}}}, "launch: spec.rolls: is not a known field"),
        ("wait", {}, "wait: job: is missing"),
        ("evaluate_gate", {"metric": "a", "threshold": 1, "direction": "up"}, "direction: 'up' is unknown"),
        ("cleanup", {"on_end": "remove"}, "cleanup: on_end: 'remove' is unknown. Allowed: keep, delete_pods, delete"),
    ],
)
def test_a_call_that_can_never_work(step, inputs, says):
    with graph(), DAG(name="main"), pytest.raises(SpecError) as caught:
        getattr(argo, step)("fit", **inputs)
    first, *others = says.split(".*")
    assert first in str(caught.value)
    assert all(other in str(caught.value) for other in others)


def test_all_problems_of_a_call_are_reported_at_once():
    with graph(), DAG(name="main"), pytest.raises(SpecError) as caught:
        train("fit", gpus=1, workers="two", image=["a"], system="nope", deadlines={"total": "soon"})
    assert [problem.path for problem in caught.value.problems] == [
        ("workers",),
        ("image",),
        ("gpus",),
        ("system",),
        ("name",),
        ("deadlines", "total"),
    ]


def test_references_within_lists_and_mappings():
    with graph() as workflow, DAG(name="main", inputs=Parameter(name="lr")) as dag:
        train(
            "fit",
            spec={"args": ["--lr", dag.get_parameter("lr")]},
            name="a",
            image="a:1",
            workers="{{inputs.parameters.lr}}",
        )
    task = templates(workflow)["main"]["dag"]["tasks"][0]
    assert arguments(task)["spec"] == '{"args":["--lr","{{inputs.parameters.lr}}"]}'
    assert arguments(task)["workers"] == "{{inputs.parameters.lr}}"


def test_settings_of_the_template():
    mine = train.using(
        name="mine", image="mine:2", artifacts=True, retries=3, grace_period=9, service_account_name="fitter"
    )
    with graph() as workflow, DAG(name="main"):
        train("a", **JOB)
        mine("b", **JOB)
    rendered = templates(workflow)
    assert list(rendered) == ["main", "train", "mine"]
    assert rendered["mine"]["container"]["image"] == "mine:2"
    assert rendered["mine"]["serviceAccountName"] == "fitter"
    assert rendered["mine"]["retryStrategy"]["limit"] == 3
    patch = json.loads(rendered["mine"]["podSpecPatch"])
    assert patch["terminationGracePeriodSeconds"] == 9
    for executor in (*patch["initContainers"], *patch["containers"]):
        assert executor["securityContext"]["runAsNonRoot"]
        assert executor["resources"].keys() == {"requests", "limits"}
    assert [artifact["name"] for artifact in rendered["mine"]["outputs"]["artifacts"]] == ["logs", "report"]
    assert "artifacts" not in rendered["train"]["outputs"], "a cluster without an artifact repository refuses them"
    assert lint_messages(workflow.to_yaml()) == []


def test_variables_are_added_to_those_of_tfsteps():
    plain = {variable.name: variable for variable in train.template.env}
    secret = plain["TFSTEPS_WEBHOOK_URL"].value_from.secret_key_ref
    assert (secret.name, secret.key, secret.optional) == ("tfsteps-webhook", "url", True)
    mine = SecretEnv(name="TFSTEPS_WEBHOOK_URL", secret_name="mine", secret_key="url")
    names = [variable.name for variable in train.using(env=[mine]).template.env]
    assert names == list(plain), "the variable of the author replaces the one of the namespace's Secret"
    with graph() as workflow, DAG(name="main"):
        train.using(env=[mine])("a", **JOB)
    env = {variable["name"]: variable for variable in templates(workflow)["train"]["container"]["env"]}
    assert env["TFSTEPS_WEBHOOK_URL"]["valueFrom"]["secretKeyRef"]["name"] == "mine"
    assert "TFSTEPS_RUN_ID" in env
    assert "TFSTEPS_WEBHOOK_URL" not in [variable.name for variable in cleanup.template.env]


def test_a_template_made_within_a_graph_is_no_part_of_it():
    with graph() as workflow:
        mine = train.using(name="mine")
        assert mine.template.name == "mine"
        with DAG(name="main"):
            train.using(name="other")("a", **JOB)
    assert list(templates(workflow)) == ["main", "other"]


def test_two_templates_of_one_name():
    with graph(), DAG(name="main"):
        train("a", **JOB)
        with pytest.raises(ValueError, match="another template 'train'"):
            train.using(image="mine:2")("b", **JOB)


def test_the_template_as_a_hook():
    with graph() as workflow, DAG(name="main"):
        train("a", **JOB, hooks={"exit": train.hook(**JOB)})
    rendered = templates(workflow)
    assert set(rendered) == {"main", "train", "train-on-exit"}
    hook = rendered["main"]["dag"]["tasks"][0]["hooks"]["exit"]
    assert (hook["template"], arguments(hook)) == ("train-on-exit", {**JOB, "workers": "1"})
    ((step,),) = rendered["train-on-exit"]["steps"]
    assert (step["template"], arguments(step)["image"]) == ("train", "{{inputs.parameters.image}}")
    assert rendered["train-on-exit"]["inputs"] == rendered["train"]["inputs"]
    assert "retryStrategy" not in rendered["train-on-exit"], "its tries would be failed when the Workflow's time is out"
    assert lint_messages(workflow.to_yaml()) == []


def test_the_exit_handler_of_a_workflow():
    with graph() as workflow, DAG(name="main"):
        train("a", **JOB)
    train.on_exit(workflow, **JOB)
    assert workflow.to_dict()["spec"]["hooks"]["exit"]["template"] == "train-on-exit"
    assert lint_messages(workflow.to_yaml()) == []
    with pytest.raises(ValueError, match="has an exit handler"):
        train.on_exit(workflow)


@pytest.mark.parametrize("name", [name for name, step in vars(argo).items() if isinstance(step, argo.ArgoStep)])
def test_the_pod_of_a_step(name):
    with Workflow(generate_name="a-", templates=[getattr(argo, name).template]) as workflow:
        (template,) = templates(workflow).values()
    assert "memoize" not in template
    assert template["container"]["securityContext"]["readOnlyRootFilesystem"] is True
    assert [volumemount["mountPath"] for volumemount in template["container"]["volumeMounts"]] == ["/tmp"]
    assert getattr(argo, name).__doc__.startswith(getattr(argo, name).interface.description)
    assert inspect.signature(getattr(argo, name)).parameters.keys() >= {
        item.name for item in getattr(argo, name).interface.inputs
    }

"""One task of a Workflow gets what the Workflow would pass to it, through all templates in between."""

import pytest

from tfsteps.console.errors import CommandError
from tfsteps.engines.argo.authoring import AUTHORING, pipeline_task, task_paths
from tfsteps.spec import SpecError

RUN = "run-nightly-train"


def step_arguments(**values):
    return {"parameters": [{"name": name, "value": value} for name, value in values.items()]}


def ours(name, /, **inputs):
    return {
        "name": name,
        "templateRef": {"name": "tfsteps", "template": "train"},
        "arguments": step_arguments(**inputs),
    }


INNER = {
    "name": "inner",
    "inputs": {"parameters": [{"name": "folder"}, {"name": "count", "default": 2}]},
    "dag": {
        "tasks": [
            {
                **ours(
                    "train",
                    name="quick",
                    workers="{{inputs.parameters.count}}",
                    data="{{inputs.parameters.folder}}",
                    env='{"LR": "{{item.lr}}", "BASE": "{{workflow.parameters.lr}}", "ID": "{{workflow.uid}}"}',
                ),
                "withItems": [{"lr": 0.1}, {"lr": 0.2}],
            },
            {**ours("odd", name="{{=workflow.name}}", command='["true"]', workers="1")},
        ]
    },
}
WORKFLOW = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"generateName": "nightly-"},
    "spec": {
        "entrypoint": "main",
        "arguments": {"parameters": [{"name": "lr"}, {"name": "n", "value": 3}]},
        "templates": [
            {
                "name": "main",
                "steps": [
                    [{"name": "prepare", "template": "prepare"}],
                    [
                        {
                            "name": "fit",
                            "template": "inner",
                            "arguments": step_arguments(
                                folder="{{steps.prepare.outputs.parameters.file}}", count="{{workflow.parameters.n}}"
                            ),
                        }
                    ],
                ],
            },
            {"name": "prepare", "container": {"image": "a:1", "command": ["true"]}},
            INNER,
        ],
    },
}
DOCUMENTS = [WORKFLOW]
VALUES = {"lr": "0.5", "prepare.file": "/d", "train.item.lr": "0.1"}


def test_the_tasks_that_start_a_container():
    assert task_paths(DOCUMENTS) == ["prepare", "fit/train", "fit/odd"]


def test_all_that_only_a_run_knows_is_named():
    task = pipeline_task(DOCUMENTS, "fit/train", {}, RUN)
    assert {name: sorted(values) for name, values in task.missing.items()} == {
        "data": ["prepare.file"],
        "env": ["lr", "train.item.lr"],
    }
    assert {"prepare.file", "train.item.lr", "train.data"} <= set(task.names)


def test_the_inputs_once_all_values_are_there():
    task = pipeline_task(DOCUMENTS, "fit/train", VALUES, RUN)
    assert (task.step, dict(task.missing)) == ("train", {})
    env = {"LR": "0.1", "BASE": "0.5", "ID": RUN}
    assert {key: task.inputs[key] for key in ("name", "workers", "data", "env")} == {
        "name": "quick",
        "workers": 3,
        "data": "/d",
        "env": env,
    }


def test_an_expression_is_never_evaluated_but_can_be_replaced():
    assert dict(pipeline_task(DOCUMENTS, "fit/odd", {}, RUN).missing) == {"name": ["odd.name"]}
    assert pipeline_task(DOCUMENTS, "fit/odd", {"odd.name": "mine"}, RUN).inputs["name"] == "mine"


def test_another_program_is_no_step():
    assert pipeline_task(DOCUMENTS, "prepare", {}, RUN).step == ""


def test_a_wrong_value_is_named():
    with pytest.raises(CommandError, match=r"^--param l: the pipeline has no such input; "):
        pipeline_task(DOCUMENTS, "fit/train", {**VALUES, "l": "1"}, RUN)
    with pytest.raises(SpecError, match="workers: 'many' is not of its type"):
        pipeline_task(DOCUMENTS, "fit/train", {**VALUES, "n": "many"}, RUN)


def test_a_template_a_cron_and_a_reference_to_a_template():
    template = {**WORKFLOW, "kind": "WorkflowTemplate", "metadata": {"name": "t"}}
    cron = {**WORKFLOW, "kind": "CronWorkflow", "spec": {"schedules": ["0 2 * * *"], "workflowSpec": WORKFLOW["spec"]}}
    refers = {**WORKFLOW, "spec": {"workflowTemplateRef": {"name": "t"}, "arguments": step_arguments(lr="0.7")}}
    for documents in ([template], [cron], [refers, template]):
        assert task_paths(AUTHORING.expanded(documents)) == task_paths(DOCUMENTS)
    values = {name: value for name, value in VALUES.items() if name != "lr"}
    assert pipeline_task([refers, template], "fit/train", values, RUN).inputs["env"]["BASE"] == "0.7"
    with pytest.raises(CommandError, match="WorkflowTemplate t is not in the file"):
        task_paths([refers])


def test_an_entry_point_that_is_the_step_itself():
    spec = {
        "workflowTemplateRef": {"name": "tfsteps"},
        "entrypoint": "train",
        "arguments": step_arguments(name="a", workers=2),
    }
    documents = [{**WORKFLOW, "spec": spec}]
    assert task_paths(documents) == ["train"]
    assert pipeline_task(documents, "train", {}, RUN).inputs["workers"] == 2

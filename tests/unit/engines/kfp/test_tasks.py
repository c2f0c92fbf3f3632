"""One task of a compiled pipeline of Kubeflow Pipelines gets what the pipeline would pass to it."""

import pytest
from kfp import dsl, kubernetes

from tests.support.kfp_compiler import compiled
from tfsteps.console.errors import CommandError
from tfsteps.engines.kfp.authoring import pipeline_task, task_paths
from tfsteps.kfp import evaluate_gate, train
from tfsteps.yaml_reader import documents

RUN = "run-p-train"


@dsl.component(base_image="python:3.11")
def prepare(n: int) -> str:
    return str(n)


def body(lr: float, node: str = "claim", extra: dict = {"A": "1"}):  # noqa: B006  kfp compiles it
    data = prepare(n=1)
    with dsl.If(data.output == "x", name="cond"), dsl.ParallelFor([0.1, 0.2], name="rates") as rate:
        task = train(
            name="quick",
            command=["sh", "-c", "true"],
            workers=1,
            env={"LR": rate, "BASE": lr, "ID": dsl.PIPELINE_JOB_ID_PLACEHOLDER},
            deadlines=extra,
            data=f"s3://{data.output}/y",
        )
        task.set_cpu_limit("2").set_memory_request("2Gi").set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(
            1
        )
        kubernetes.add_node_selector(task, "gpu-type", "T4")
        kubernetes.mount_pvc(task, pvc_name=node, mount_path="/data")
    evaluate_gate(metric="a", threshold=0.5, metrics={"a": 1.0})


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return list(documents(compiled(body, tmp_path_factory.mktemp("p"))))


def path_of(pipeline):
    return next(path for path in task_paths(pipeline) if path.endswith("/train"))


def supplied(pipeline, **more):
    loop = path_of(pipeline).split("/")[-2]
    return {"lr": "0.5", "prepare.Output": "b", f"{loop}.item": "0.1", **more}


def test_the_tasks_that_start_a_container(pipeline):
    assert sorted(path.rpartition("/")[2] for path in task_paths(pipeline)) == ["evaluate-gate", "prepare", "train"]


def test_all_that_only_a_run_knows_is_named(pipeline):
    task = pipeline_task(pipeline, path_of(pipeline), {}, RUN)
    loop = path_of(pipeline).split("/")[-2]
    assert dict(task.missing) == {"data": ["prepare.Output"], "env": ["lr", f"{loop}.item"]}
    assert {"prepare.Output", "train.data", "train.workers"} <= set(task.names)
    assert "train.run_id" not in task.names


def test_the_inputs_once_all_values_are_there(pipeline):
    task = pipeline_task(pipeline, path_of(pipeline), supplied(pipeline), RUN)
    assert (task.step, dict(task.missing)) == ("train", {})
    assert task.inputs["env"] == {"LR": "0.1", "BASE": "0.5", "ID": RUN}
    assert (task.inputs["data"], task.inputs["workers"]) == ("s3://b/y", 1)
    assert task.inputs["deadlines"] == {"A": "1"}, "the default of the pipeline's input"


def test_the_settings_of_the_task_with_the_inputs_of_the_pipeline(pipeline):
    settings = pipeline_task(pipeline, path_of(pipeline), supplied(pipeline, node="other"), RUN).settings
    assert settings["volumes"] == [{"mount": "/data", "pvc": "other"}]
    assert settings["node_selector"] == {"gpu-type": "T4"}
    assert (settings["resources"]["memory"], settings["resources"]["gpu"]) == ("2Gi", 1)
    assert settings["resources"]["limits"] == {"cpu": "2"}


def test_a_value_for_an_input_of_the_task_replaces_that_of_the_pipeline(pipeline):
    more = {"train.workers": "3", "train.data": "/mine"}
    task = pipeline_task(pipeline, path_of(pipeline), supplied(pipeline, **more), RUN)
    assert (task.inputs["workers"], task.inputs["data"]) == (3, "/mine")
    values = {name: text for name, text in supplied(pipeline, **more).items() if name != "prepare.Output"}
    assert not pipeline_task(pipeline, path_of(pipeline), values, RUN).missing, "it needs the other value no more"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"l": "1"}, "--param l: the pipeline has no such input; write lr"),
        ({"lr": "much"}, "--param lr: 'much' is not a number"),
        ({"train.workers": "many"}, "--param train.workers: 'many' is not a whole number"),
    ],
)
def test_a_wrong_value_is_named(pipeline, values, says):
    with pytest.raises(CommandError, match=f"^{says}"):
        pipeline_task(pipeline, path_of(pipeline), supplied(pipeline, **values) | values, RUN)

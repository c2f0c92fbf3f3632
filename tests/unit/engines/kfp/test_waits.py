"""The waits of Workflows as the back ends 2.15 and 2.17 of Kubeflow Pipelines make them."""

import json

import pytest

from tfsteps.engines.argo.pipeline import Wait, awaited
from tfsteps.engines.kfp.pipeline import find_wait

WAIT = json.dumps({"args": ["--executor_input", "{{$}}"], "command": ["python", "-m", "tfsteps.steps.wait.launcher"]})
LAUNCH = WAIT.replace("wait", "launch")
OUTPUT = {"taskOutputParameter": {"outputParameterKey": "job", "producerTask": "launch"}}


def driver(task, container="{{workflow.parameters.implementations-1}}", job=OUTPUT, **fields):
    arguments = {"task": json.dumps({"inputs": {"parameters": {"job": job}}}), "container": container, **fields}
    parameters = [{"name": name, "value": value} for name, value in arguments.items()]
    return {"name": f"{task}-driver", "template": "system-container-driver", "arguments": {"parameters": parameters}}


def executor(task):
    return {"name": task, "template": "system-container-executor", "arguments": {"parameters": []}}


def flow(names, *tasks):
    root = {"name": "root", "dag": {"tasks": [*tasks]}}
    entry = {"name": "entrypoint", "dag": {"tasks": [{"name": "root", "template": "root"}]}}
    arguments = {"parameters": [{"name": "implementations-1", "value": WAIT}]}
    spec = {"entrypoint": "entrypoint", "templates": [root, entry], "arguments": arguments}
    templates = {"wf": "entrypoint", "wf.root": "root"}
    nodes = {
        name: {"name": name, "phase": phase, "templateName": templates.get(name.replace("(0)", ""), "")}
        for name, phase in names.items()
    }
    return {"metadata": {"name": "wf"}, "spec": spec, "status": {"nodes": nodes}}


CALLS = {
    "a wait": (driver("wait"), Wait("wait", "launch")),
    "its container in place": (driver("wait", WAIT), Wait("wait", "launch")),
    "of another component": (driver("launch", LAUNCH), None),
    "its container is not there": (driver("a", "{{workflow.parameters.implementations-2}}"), Wait("a", "launch")),
    "a job from outside": (driver("w", job={"componentInputParameter": "job"}), Wait("w")),
    "a job of another shape": (driver("w", job={"taskOutputParameter": 7}), Wait("w")),
    "no driver": (executor("wait"), None),
    "no arguments": ({"name": "a-driver", "template": "t"}, None),
}


@pytest.mark.parametrize(("call", "expected"), CALLS.values(), ids=CALLS)
def test_a_wait_of_a_dag(call, expected):
    assert find_wait(flow({}), call) == expected


V2_15 = {"wf": "Running", "wf.root": "Running", "wf.root.launch": "Succeeded", "wf.root.launch.executor": "Succeeded"}
V2_17 = {
    **dict.fromkeys(("wf", "wf(0)", "wf(0).root", "wf(0).root(0)"), "Running"),
    **{f"wf(0).root(0).launch{rest}": "Succeeded" for rest in ("", "(0)", "(0).executor", "(0).executor(0)")},
}


@pytest.mark.parametrize(("nodes", "root"), [(V2_15, "wf.root"), (V2_17, "wf(0).root(0)")], ids=["2.15", "2.17"])
def test_a_launched_job_is_awaited_until_its_wait_has_ended(nodes, root):
    tasks = (driver("launch", LAUNCH), executor("launch"), driver("wait"), executor("wait"))
    step = "wf.root.launch.executor"
    assert awaited(flow(nodes, *tasks), step, find_wait).yes
    assert awaited(flow(nodes, *tasks[:2]), step, find_wait).no
    assert awaited(flow({**nodes, f"{root}.wait": "Omitted"}, *tasks), step, find_wait).no
    assert awaited(flow(nodes, *tasks), "wf.root.other.executor", find_wait).no

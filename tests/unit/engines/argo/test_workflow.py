"""What a Workflow object tells a launcher: which steps have ended, and whether a lost pod is made again."""

import base64
import gzip
import json

import pytest

from tfsteps.answer import known
from tfsteps.engines.argo.workflow import has_ended, is_pending, retries_lost_pod, step_of

ID, NAME = "wf-1", "wf.fit(0)"


def workflow(strategy=None, phase="Running", **node):
    """Return a Workflow whose only pod is that of the template `train`, its step tried again by `strategy`."""
    retry = {"id": "wf-0", "name": "wf.fit", "type": "Retry", "phase": "Running"}
    pod = {"id": ID, "name": NAME, "type": "Pod", "phase": phase, "templateName": "train", **node}
    template = {"name": "train", **({"retryStrategy": strategy} if strategy else {})}
    return {"metadata": {}, "spec": {"templates": [template]}, "status": {"nodes": {"wf-0": retry, ID: pod}}}


@pytest.mark.parametrize(
    ("strategy", "name", "expected"),
    [
        ({"retryPolicy": "Always"}, NAME, "yes"),
        ({"retryPolicy": "Always", "limit": "3"}, NAME, "yes"),
        ({"retryPolicy": "OnError"}, NAME, "unknown"),  # by timing, its exit code makes it Failed
        ({"expression": "lastRetry.status == 'Error'", "limit": 3}, NAME, "unknown"),
        ({"expression": "lastRetry.status == 'Error'", "limit": 0}, NAME, "no"),
        ({"retryPolicy": "OnFailure", "expression": "true"}, NAME, "unknown"),
        ({"retryPolicy": "OnTransientError"}, NAME, "unknown"),
        ({"limit": 3}, NAME, "unknown"),
        ({"retryPolicy": "OnError", "limit": 2}, "wf.fit(2)", "no"),
        ({"retryPolicy": "Always", "limit": "{{inputs.parameters.tries}}"}, NAME, "unknown"),
        ({"retryPolicy": "Always", "limit": 3}, "wf.fit(2)", "yes"),
        ({"retryPolicy": "Always", "limit": 3}, "wf.fit(3)", "no"),
        ({"retryPolicy": "Always", "limit": 0}, NAME, "no"),
        (None, NAME, "unknown"),  # it has one, for its node has the number of a try
        (None, "wf.fit", "no"),
    ],
)
def test_whether_a_lost_pod_is_made_again(strategy, name, expected):
    assert retries_lost_pod(workflow(strategy, name=name), name).value == expected


def test_where_a_template_may_be():
    strategy = {"retryPolicy": "Always", "limit": 0}
    template = {"name": "train", "retryStrategy": strategy}
    reference = {"templateRef": {"name": "tfsteps", "template": "train"}, "templateName": ""}
    for node, spec, status in (
        (reference, {}, {"storedTemplates": {"namespaced/tfsteps/train": template}}),
        ({}, {}, {"storedWorkflowTemplateSpec": {"templates": [template]}}),
        ({}, {"templateDefaults": {"retryStrategy": strategy}}, {}),
        ({}, {}, {"storedWorkflowTemplateSpec": {"templateDefaults": {"retryStrategy": strategy}}}),
    ):
        item = workflow(**node)
        item["spec"], item["status"] = spec, {**item["status"], **status}
        assert retries_lost_pod(item, NAME).no


def test_the_strategy_of_a_template_is_merged_into_the_default():
    """As Argo does: Kubeflow Pipelines' set_retry has no policy, and 2.17's default is OnError."""
    item = workflow({"limit": "9", "backoff": {"duration": "0s"}}, name="wf.fit(2)")
    item["spec"]["templateDefaults"] = {"retryStrategy": {"limit": "2", "retryPolicy": "Always"}}
    assert retries_lost_pod(item, "wf.fit(2)").yes


def nested(**limits):
    """Return a Workflow of Kubeflow Pipelines 2.17 whose nodes are tried again by these limits."""
    names = {"root": "wf(0).root(0)", "fit": "wf(0).root(0).fit(1)", "executor": "wf(0).root(0).fit(1).executor(2)"}
    listed = {name: {"name": node, "templateName": name, "phase": "Running"} for name, node in names.items()}
    templates = [{"name": name, "retryStrategy": {"retryPolicy": "Always", "limit": limits[name]}} for name in limits]
    all_nodes = {"wf": {"name": "wf(0)", "templateName": "root", "phase": "Running"}, **listed}
    return {"metadata": {"name": "wf"}, "spec": {"templates": templates}, "status": {"nodes": all_nodes}}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"root": 0, "fit": 1, "executor": 2}, "no"),
        ({"root": 0, "fit": 1, "executor": 3}, "yes"),
        ({"root": 0, "fit": 2, "executor": 2}, "yes"),
        ({"root": 1, "fit": 1, "executor": 2}, "yes"),
        ({"fit": 1, "executor": 2}, "unknown"),
    ],
)
def test_a_level_above_the_pod_may_be_tried_again(limits, expected):
    assert retries_lost_pod(nested(**limits), "wf(0).root(0).fit(1).executor(2)").value == expected


def test_a_pending_node():
    assert is_pending(workflow(phase="Pending"), ID).yes
    assert is_pending(workflow(), ID).no
    assert is_pending({"metadata": {}}, ID).unknown


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("phase", "expected"), [("Running", False), ("Failed", True), ("Omitted", True)])
def test_whether_a_step_has_ended(phase, expected, packed):
    item = workflow()
    nodes = item["status"]["nodes"]
    nodes["wf-0"]["phase"] = phase
    if packed:
        text = base64.b64encode(gzip.compress(json.dumps(nodes).encode())).decode()
        item["status"] = {"compressedNodes": text}
    assert has_ended(item, "wf.fit") == known(expected)
    assert has_ended(item, "wf.other").no


def test_a_step_has_ended_with_the_last_of_its_tries():
    """The node X is that of all tries X(n); it ends with the last."""
    item = workflow(phase="Error")
    assert has_ended(item, "wf.fit").no
    item["status"]["nodes"]["wf-0"]["phase"] = "Error"
    assert has_ended(item, "wf.fit").yes


def test_a_step_of_a_dag_that_is_tried_again_has_not_ended():
    names = {"wf(0).fit": "Error", "wf(0).fit(0)": "Error", "wf(1).fit": "Running", "wf(1).fit(0)": "Running"}
    item = {"metadata": {}, "status": {"nodes": {name: {"name": name, "phase": names[name]} for name in names}}}
    assert has_ended(item, "wf.fit").no


@pytest.mark.parametrize("status", [{}, None, {"offloadNodeStatusVersion": "fnv:1"}, {"compressedNodes": "bm9uZQ=="}])
def test_a_workflow_whose_nodes_are_elsewhere(status):
    item = {"metadata": {}, "status": status}
    assert has_ended(item, "wf.fit").unknown
    assert is_pending(item, ID).unknown


STEPS = {
    "wf.train": "wf.train",
    "wf.train(0)": "wf.train",
    "wf.train(12)": "wf.train",
    "wf.root.for-loop-2.iteration-iterations(0:0).train.executor(1)": (
        "wf.root.for-loop-2.iteration-iterations(0:0).train.executor"
    ),
    "wf.each(0:a)": "wf.each(0:a)",
    "wf(0).root(0).for-loop-1(0).iteration-iterations(0:0)(0).iteration-item(0).train(1).executor(2)": (
        "wf.root.for-loop-1.iteration-iterations(0:0).iteration-item.train.executor"
    ),
    "wf(0).root(0).launch.onExit(0).cleanup(0).executor(0)": "wf.root.launch.onExit.cleanup.executor",
    "wf(0)[1].fit(3)": "wf[1].fit",
    "": "",
}


@pytest.mark.parametrize(("node", "step"), STEPS.items())
def test_a_step_is_the_same_over_its_tries(node, step):
    assert step_of({"metadata": {"annotations": {"workflows.argoproj.io/node-name": node}}}) == step


def test_a_pod_of_no_workflow_is_of_no_step():
    assert step_of({"metadata": {}}) == ""

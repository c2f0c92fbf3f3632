"""Whether a step of a Workflow of Argo will still wait for a launched job."""

import pytest

from tfsteps.engines.argo.pipeline import awaited, find_wait

WAIT = {"name": "wait", "container": {"command": ["python", "-m", "tfsteps.steps.wait.launcher"]}}
LAUNCH = {"name": "launch", "container": {"command": ["python", "-m", "tfsteps.steps.launch.launcher"]}}
LAUNCHED = "{{tasks.launch.outputs.parameters.job}}"


def call(name, template, job="", **fields):
    arguments = {"arguments": {"parameters": [{"name": "job", "value": job}]}} if job else {}
    return {"name": name, "template": template, **arguments, **fields}


def dag(name, *tasks):
    return {"name": name, "dag": {"tasks": [*tasks]}}


def flow(*templates, **phases):
    """Return a Workflow; `phases`: of nodes, by name with `_` for dots, with the template after `__`."""
    nodes = {}
    for key, phase in phases.items():
        name, _, template = key.partition("__")
        name = name.replace("_", ".").replace("G", "[1]").replace("L", "(0:a)")
        nodes[key] = {"name": name, "phase": phase, "templateName": template, "type": "DAG"}
    spec = {"entrypoint": "main", "templates": [*templates, WAIT, LAUNCH]}
    return {"metadata": {"name": "wf"}, "spec": spec, "status": {"nodes": nodes}}


MAIN = dag("main", call("launch", "launch"), call("wait", "wait", LAUNCHED))
TWO = dag("main", call("launch", "launch"), call("other", "launch"), call("wait", "wait", LAUNCHED))
STEPS = {
    "name": "main",
    "steps": [[call("launch", "launch")], [call("wait", "wait", "{{ steps.launch.outputs.parameters.job }}")]],
}
REFERENCE = call("wait", "", LAUNCHED, templateRef={"name": "tfsteps", "template": "wait"})
INLINE = {**call("wait", "", LAUNCHED), "inline": {"container": WAIT["container"]}}
PASSED = call("inner", "inner", LAUNCHED)
INNER = dag("inner", call("wait", "wait", "{{inputs.parameters.job}}"))
RUNS = {"wf__main": "Running", "wf_launch__launch": "Succeeded"}
NESTED = (dag("main", call("launch", "launch"), PASSED), INNER)
LOOPED = (dag("main", call("launch", "launch"), {**PASSED, "withItems": ["a", "b"]}), INNER)
TWICE = (dag("main", call("launch", "launch"), PASSED, {**PASSED, "name": "again"}), INNER)

CASES = {
    "it comes": ((MAIN,), RUNS, "wf.launch", "yes"),
    "as a step": ((STEPS,), {"wf__main": "Running", "wf[0]_launch__launch": "Succeeded"}, "wf[0].launch", "yes"),
    "and it has ended": ((STEPS,), {"wf__main": "Running", "wfG_wait__wait": "Failed"}, "wf[0].launch", "no"),
    "of a WorkflowTemplate": ((dag("main", call("launch", "launch"), REFERENCE),), RUNS, "wf.launch", "yes"),
    "written in its place": ((dag("main", call("launch", "launch"), INLINE),), RUNS, "wf.launch", "yes"),
    "it runs": ((MAIN,), {**RUNS, "wf_wait__wait": "Running"}, "wf.launch", "yes"),
    "it has ended": ((MAIN,), {**RUNS, "wf_wait__wait": "Failed"}, "wf.launch", "no"),
    "it is left out": ((MAIN,), {**RUNS, "wf_wait__wait": "Omitted"}, "wf.launch", "no"),
    "its DAG has ended": ((MAIN,), {**RUNS, "wf__main": "Failed"}, "wf.launch", "no"),
    "there is none": ((dag("main", call("launch", "launch")),), RUNS, "wf.launch", "no"),
    "it waits for another one": ((TWO,), RUNS, "wf.other", "no"),
    "for one of a loop": ((MAIN,), RUNS, "wf.launch(0:a)", "yes"),
    "the job is computed": ((dag("main", call("wait", "wait", "{{=tasks.launch.x}}")),), RUNS, "wf.launch", "yes"),
    "it gets the job from outside": (NESTED, RUNS, "wf.launch", "yes"),
    "and has not begun": (NESTED, {**RUNS, "wf_inner__inner": "Running"}, "wf.launch", "yes"),
    "and its DAG is left out": (NESTED, {**RUNS, "wf_inner__inner": "Skipped"}, "wf.launch", "no"),
    "and is left out": (
        NESTED,
        {**RUNS, "wf_inner__inner": "Running", "wf_inner_wait__wait": "Omitted"},
        "wf.launch",
        "no",
    ),
    "a loop may go on": (LOOPED, {**RUNS, "wf_inner": "Running", "wf_innerL__inner": "Failed"}, "wf.launch", "yes"),
    "a loop has ended": (LOOPED, {**RUNS, "wf_inner": "Failed", "wf_innerL__inner": "Failed"}, "wf.launch", "no"),
    "another call of the DAG comes": (TWICE, {**RUNS, "wf_inner__inner": "Failed"}, "wf.launch", "yes"),
    "nothing calls it by name": ((MAIN, INNER), {**RUNS, "wf_wait__wait": "Failed"}, "wf.launch", "yes"),
    "it calls itself": (
        (dag("main", call("launch", "launch")), dag("inner", call("inner", "inner"), *INNER["dag"]["tasks"])),
        RUNS,
        "wf.launch",
        "yes",
    ),
    "no nodes": ((MAIN,), {}, "wf.launch", "unknown"),
}


@pytest.mark.parametrize(("templates", "phases", "step", "expected"), CASES.values(), ids=CASES)
def test_whether_a_wait_comes(templates, phases, step, expected):
    item = flow(*templates, **phases)
    assert awaited(item, step, find_wait).value == expected


def test_a_wait_of_a_workflow_template():
    item = flow(dag("main", call("launch", "launch"), REFERENCE), **RUNS)
    item["spec"]["templates"] = item["spec"]["templates"][:1]
    assert awaited(item, "wf.launch", find_wait).no
    item["status"]["storedTemplates"] = {"namespaced/tfsteps/wait": WAIT}
    assert awaited(item, "wf.launch", find_wait).yes

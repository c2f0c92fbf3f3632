"""What a Workflow gives to our steps is checked as far as it is constant, and nothing that works is refused."""

import pathlib

import pytest
import yaml

from tests.unit.cli.command import tfsteps
from tests.unit.engines.argo.manifest import arguments, changed
from tfsteps.engines.argo import launchers
from tfsteps.engines.argo.inputs import DIRECTIONS
from tfsteps.engines.argo.lint import lint_messages, warnings
from tfsteps.steps.evaluate_gate import launcher as gate

ROOT = pathlib.Path(__file__).parents[4]
SHIPPED = ROOT / "manifests/argo-templates/workflow-template.yaml"
MANIFESTS = [*sorted(ROOT.glob("pipelines/compiled/*.argo.yaml")), *sorted(SHIPPED.parent.rglob("*-template.yaml"))]

GOOD = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: a}
spec:
  entrypoint: main
  arguments: {parameters: [{name: workers, value: 2}, {name: rates, value: "[1]"}, {name: spec, value: "{}"}]}
  hooks:
    exit:
      templateRef: {name: tfsteps, template: cleanup-on-exit}
      arguments: {parameters: [{name: scope, value: run}]}
  templates:
  - name: main
    dag:
      tasks:
      - name: fit
        templateRef: {name: tfsteps, template: train}
        arguments:
          parameters:
          - {name: name, value: mnist}
          - {name: image, value: "ghcr.io/acme/mnist:1.4"}
          - {name: workers, value: 2}
          - {name: metric_tags, value: '{"accuracy": "eval/accuracy"}'}
      - name: gate
        depends: fit
        templateRef: {name: tfsteps, template: evaluate-gate}
        arguments:
          parameters:
          - {name: metric, value: accuracy}
          - {name: threshold, value: 0.9}
          - {name: metrics, value: "{{tasks.fit.outputs.parameters.metrics}}"}
      - name: go
        templateRef: {name: tfsteps, template: launch}
        arguments: {parameters: [{name: spec, value: '{"name": "b", "image": "b:1", "roles": {"worker": {}}}'}]}
      - name: end
        depends: go
        templateRef: {name: tfsteps, template: wait}
        arguments: {parameters: [{name: job, value: "{{tasks.go.outputs.parameters.job}}"}]}
"""
TASKS = ("templates", 0, "dag", "tasks")
FIT, GATE, GO, END = ((*TASKS, i) for i in range(4))
JOB = {"name": "mnist", "image": "a:1", "workers": "2"}
FITTED = {"metric": "accuracy", "threshold": "0.9", "metrics": "{{tasks.fit.outputs.parameters.metrics}}"}


def train(**inputs):
    """Return the change that gives `fit` other inputs; None leaves one out."""
    values = {**JOB, **inputs}
    return (*FIT, "arguments"), arguments(**{name: value for name, value in values.items() if value is not None})


def judge(**inputs):
    """Return the change that gives `gate` other inputs; None leaves one out."""
    values = {**FITTED, **inputs}
    return (*GATE, "arguments"), arguments(**{name: value for name, value in values.items() if value is not None})


def reference(task, template, name="tfsteps"):
    return (*task, "templateRef"), {"name": name, "template": template}


def looped(loop, **inputs):
    """Return the change that makes `fit` a loop, and the only task."""
    task = {"name": "fit", "templateRef": {"name": "tfsteps", "template": "train"}, **loop}
    return TASKS, [{**task, "arguments": train(**inputs)[1]}]


SPEC = '{"name": "b", "image": "b:1", "roles": %s}'
WRONG = [
    # names
    (train(gpus="1"), "main, fit: template train has no input 'gpus' in its parameters: args, .* Write `gpu`"),
    (train(worker="1"), "has no input 'worker' in its parameters: .* Argo drops it without a message. Write `workers`"),
    (train(zzz="1"), "has no input 'zzz' in its parameters: .* Correct or remove it"),
    (reference(FIT, "trian"), "fit.templateRef.template: tfsteps has no template 'trian'. Allowed: .* Write `train`"),
    (reference(GATE, "evaluate_gate"), "has no template 'evaluate_gate'. Allowed: .* Write `evaluate-gate`"),
    (((*FIT, "templateRef"), {"name": "tfsteps"}), "fit.templateRef.template: it is missing"),
    (
        judge(metrics="{{tasks.fit.outputs.parameters.score}}"),
        "the parameters of template train are .*failure, .*, metrics, model",
    ),
    (judge(metrics="{{tasks.fit.outputs.artifacts.logz}}"), "the artifacts of template train are logs, report"),
    (judge(metrics="{{tasks.fti.outputs.parameters.metrics}}"), "refers to fti, which does not exist"),
    # what is missing
    (train(name=None), "main, fit: name: is missing. Allowed: 1 to 63 lower-case letters"),
    (train(name=""), "main, fit: name: is missing"),
    (train(workers=None), "main, fit: roles: is missing. Set `workers`, `chief` or both"),
    (train(workers="0"), "main, fit: roles: is missing"),
    (train(image=None), "main, fit: roles.worker.image: is missing. Add `image:`"),
    (judge(metric=None), "main, gate: template evaluate-gate needs an argument metric"),
    (judge(threshold=""), "main, gate: threshold: is missing"),
    (judge(metrics=None), "main, gate: metrics: is missing, and so is `job`"),
    (((*END, "arguments"), {}), "main, end: template wait needs an argument job"),
    # types and JSON
    (train(workers="two"), "main, fit: workers: 'two' is not of its type. Allowed: a whole number. Correct"),
    (train(workers=1.5), "main, fit: workers: '1.5' is not of its type"),
    (train(workers=True), "main, fit: workers: 'true' is not of its type"),
    (train(args="--lr 0.1"), "main, fit: args: '--lr 0.1' is not of its type. Allowed: a list, as JSON"),
    (train(env="{A: b}"), "main, fit: env: '{A: b}' is not of its type. Allowed: a mapping, as JSON"),
    (train(args='{"a": "{{workflow.name}}"}'), "main, fit: args: .* is not of its type. Allowed: a list, as JSON"),
    (judge(threshold="90%"), "main, gate: threshold: '90%' is not of its type. Allowed: a number"),
    (judge(threshold="NaN"), "main, gate: threshold: 'NaN' is not of its type"),
    (judge(required="yes"), "main, gate: required: 'yes' is not of its type. Allowed: true or false"),
    # words
    (train(system="nope"), "main, fit: system: 'nope' is unknown. Allowed: auto, local, kubeflow, "),
    (judge(direction="more"), "main, gate: direction: 'more' is unknown. Allowed: at_least, at_most"),
    (
        (("hooks", "exit", "arguments"), arguments(scope="all")),
        "spec.hooks.exit: scope: 'all' is unknown. Allowed: siblings, run",
    ),
    (
        (("hooks", "exit", "arguments"), arguments(scop="run")),
        "spec.hooks.exit: template cleanup-on-exit has no input 'scop' in its parameters: .* Write `scope`",
    ),
    (train(run_id="../a"), "main, fit: run_id: '../a' leads to another folder"),
    # the job
    (train(name="My Job"), "main, fit: name: 'My Job' "),
    (train(workers="-1"), "main, fit: workers: -1 is out of range. Allowed: a whole number from 1"),
    (train(chief="2"), "main, fit: chief: 2 is more than one"),
    (train(restart="sometimes"), "main, fit: restart: 'sometimes' is not one of"),
    (train(memory="lots"), "main, fit: memory: 'lots' "),
    (train(deadlines='{"total": "soon"}'), "main, fit: deadlines.total: 'soon' is not a duration. Allowed: "),
    (train(deadlines='{"runing": 5}'), "main, fit: deadlines.runing: is not a known field. Write `running`"),
    (train(deadlines='{"total": 60, "running": "1h"}'), "main, fit: deadlines.running: 1h can never be reached"),
    (train(spec='{"rolls": {}}'), "main, fit: spec.rolls: is not a known field. Write `roles`"),
    (train(spec="name: b"), "main, fit: spec: 'name: b' is not of its type. Allowed: a mapping, as JSON"),
    (((*GO, "arguments"), arguments(spec=SPEC % '{"ps": {}}')), "main, go: spec.roles: has ps: no role trains"),
    (((*GO, "arguments"), arguments(spec=SPEC % '{"worker": 2}')), "main, go: spec.roles.worker: "),
    (
        train(system="trainjob", spec='{"priority": 5}'),
        "main, fit: spec.priority: 5 is not supported: Kubernetes has PriorityClasses",
    ),
    (train(spec="{{workflow.parameters.spec}}", deadlines='{"total": "x"}'), "main, fit: deadlines.total: 'x' is not"),
    (train(workers="{{workflow.parameters.workers}}", name=None), "main, fit: name: is missing"),
    # loops
    (
        looped({"withItems": [{"lr": 1}]}, args='["{{item.l}}"]'),
        "fit: {{item.l}} cannot be replaced: an item has the keys lr",
    ),
    (
        looped({"withItems": [0.1]}, args='["{{item.lr}}"]'),
        "{{item.lr}} cannot be replaced: the items are not mappings",
    ),
    (looped({"withParam": '[{"lr": 1}]'}, args='["{{item.l}}"]'), "an item has the keys lr, and no 'l'"),
    (looped({"withSequence": {"count": 2}}, args='["{{item.l}}"]'), "{{item.l}} cannot be replaced"),
    (looped({"withParam": "a, b"}), "main, fit.withParam: 'a, b' is not a list as JSON"),
    (looped({"withItems": [1, "two"]}, workers="{{item}}"), "main, fit: workers: 'two' is not of its type"),
    (looped({"withItems": [{"n": 0}]}, workers="{{item.n}}"), "main, fit: roles: is missing"),
    # what comes from our other steps
    (
        judge(metrics="{{tasks.fit.outputs.parameters.model}}"),
        "is text. Allowed: a mapping. Connect it with `job` or `metrics`",
    ),
    (
        judge(threshold="{{tasks.fit.outputs.parameters.metrics}}"),
        "gate: threshold: .* is a mapping. Allowed: a number",
    ),
    (reference(GO, "train"), "main, end: job: .* is of the step train, whose job has ended. Allowed: the output `job`"),
    (
        ((*GO, "withItems"), [1, 2]),
        "main, end: job: {{tasks.go.outputs.parameters.job}} is a list of all rounds of go. Allowed: a mapping",
    ),
]


def test_nothing_wrong():
    assert lint_messages(GOOD) == []
    [of_numbers] = warnings(GOOD)  # Argo itself takes them
    assert "it is not text, and the full CRDs of Argo" in of_numbers


@pytest.mark.parametrize(("change", "says"), WRONG, ids=lambda value: None if isinstance(value, tuple) else value[:50])
def test_a_wrong_call(change, says):
    messages = lint_messages(changed(*change, GOOD))
    first, *others = says.split(".*")
    matching = [item for item in messages if first in item and all(other in item for other in others)]
    assert matching, messages
    assert all(item.startswith("Workflow a: ") for item in messages)
    assert len(messages) == len(set(messages))


def test_all_problems_at_once():
    inputs = train(gpus="1", workers="two", name=None, deadlines='{"total": "x", "run": 1}', system="nope")
    messages = lint_messages(changed(*inputs, changed(*reference(GO, "lunch"), GOOD)))
    names = ["gpus", "workers", "name", "deadlines.total", "deadlines.run", "system", "lunch"]
    assert [name for name in names if not any(name in item for item in messages)] == []


# --- the same by other ways than a reference to our WorkflowTemplate


def beside(template):
    """Return GOOD with a template of the WorkflowTemplate that is shipped copied into it."""
    shipped = yaml.safe_load(SHIPPED.read_text())["spec"]["templates"]
    manifest = yaml.safe_load(GOOD)
    manifest["spec"]["templates"] += [item for item in shipped if item["name"] == template]
    return yaml.safe_dump(manifest)


def test_a_template_of_the_workflow_itself():
    task = {"name": "fit", "template": "train", "arguments": arguments(**JOB, gpus="1", system="nope")}
    messages = lint_messages(changed(FIT, task, beside("train")))
    assert [item.partition("fit: ")[2][:27] for item in messages] == [
        "template train has no input",
        "system: 'nope' is unknown. ",
    ]


def test_a_launcher_of_ones_own_whose_inputs_have_other_names():
    template = {
        "name": "mine",
        "inputs": {"parameters": [{"name": "count"}, {"name": "rate", "default": "0.1"}]},
        "container": {
            "image": "tfsteps/launcher:1",
            "command": ["python", "-m", "tfsteps.steps.train.launcher"],
            "args": [
                "--argo",
                "train",
                "name=a",
                "image=a:1",
                "workers={{inputs.parameters.count}}",
                'args=["--lr", "{{inputs.parameters.rate}}"]',
                "restart=perhaps",
            ],
            "env": [{"name": "TFSTEPS_NODE_NAME", "value": "a"}],
        },
        "retryStrategy": {"limit": 2, "retryPolicy": "Always"},
    }
    manifest = yaml.safe_load(GOOD)
    manifest["spec"]["templates"].append(template)
    task = {"name": "fit", "template": "mine", "arguments": arguments(count="many")}
    messages = lint_messages(changed(FIT, task, changed(*judge(metrics='{"accuracy": 1}'), yaml.safe_dump(manifest))))
    assert [item.partition(": ")[2].partition(" is not")[0] for item in messages] == [
        "template main, fit: workers: 'many'",
        "template mine: restart: 'perhaps'",
    ]


def test_a_launcher_that_is_written_in_line():
    shipped = yaml.safe_load(SHIPPED.read_text())["spec"]["templates"]
    inline = next(item for item in shipped if item["name"] == "cleanup")
    del inline["name"], inline["inputs"]
    inline["container"]["args"] = ["--argo", "cleanup", "scope=all"]
    inline["retryStrategy"]["retryPolicy"] = "OnError"
    messages = lint_messages(changed(GO, {"name": "go", "inline": inline}, changed(END, None, GOOD)))
    assert [item.partition("go.inline")[2].partition(" ")[0] for item in messages] == [
        ".retryStrategy.retryPolicy:",
        ":",
    ]
    assert "scope: 'all' is unknown" in messages[1]


def test_another_template_of_the_same_name_in_the_file_counts():
    other = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "WorkflowTemplate",
        "metadata": {"name": "tfsteps"},
        "spec": {"templates": [{"name": "mine", "container": {"image": "a:1"}}]},
    }
    messages = lint_messages(f"{GOOD}---\n{yaml.safe_dump(other)}")
    assert any("tfsteps has no template 'train'. Allowed: mine." in item for item in messages)


def referring(**values):
    manifest = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "a"},
        "spec": {"workflowTemplateRef": {"name": "tfsteps"}, "arguments": arguments(**values)},
    }
    return yaml.safe_dump(manifest)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({**JOB, "gpus": "1"}, "spec.arguments: tfsteps has no parameter 'gpus'; Argo drops it without a message."),
        ({**JOB, "workers": "two"}, "spec.arguments: workers: 'two' is not of its type."),
        ({**JOB, "system": "nope"}, "spec.arguments: system: 'nope' is unknown."),
    ],
)
def test_a_workflow_that_is_our_template(values, says):
    assert lint_messages(referring(**JOB)) == warnings(referring(**JOB)) == []
    (message,) = lint_messages(referring(**values))
    assert says in message


def test_a_workflow_that_is_a_template_beside_it():
    shipped = SHIPPED.read_text().replace("name: tfsteps", "name: ours", 1)
    text = f"{shipped}---\n{referring(**JOB, gpus='1').replace('name: tfsteps', 'name: ours')}"
    (message,) = lint_messages(text)
    assert "spec.arguments: ours has no parameter 'gpus'" in message
    assert warnings(text) == []


def test_what_may_be_given_at_submission_is_a_warning():
    text = referring(workers="2")
    assert lint_messages(text) == []
    assert [item.partition(". ")[0] for item in warnings(text)] == ["Workflow a: spec.arguments: name: is missing"]


# --- the commands


@pytest.mark.parametrize("command", [("lint",), ("submit", "--dry-run")])
def test_the_commands_refuse_it(command, tmp_path):
    file = tmp_path / "flow.yaml"
    file.write_text(changed(*train(gpus="1", system="nope"), GOOD))
    code, _, err = tfsteps(*command, file)
    assert code == 2
    assert "flow.yaml: Workflow a: template main, fit: template train has no input 'gpus'" in err
    assert "flow.yaml: Workflow a: template main, fit: system: 'nope' is unknown" in err


def test_a_warning_of_lint_keeps_no_one_from_submitting(tmp_path):
    file = tmp_path / "flow.yaml"
    file.write_text(referring(image="a:1", workers="2"))
    code, out, err = tfsteps("lint", file)
    assert (code, out) == (0, f"{file}: a for argo is fine\n")
    assert f"warning: {file}: Workflow a: spec.arguments: name: is missing" in err
    code, out, _ = tfsteps("submit", "--dry-run", file, "-p", "name=mnist")
    assert (code, "value: mnist" in out) == (0, True)


# --- what is accepted

MAPPING = '{"A": "{{workflow.parameters.spec}}"}'
FINE = [
    train(workers="{{workflow.parameters.workers}}"),
    train(workers="{{=asInt(workflow.parameters.workers) + 1}}"),
    train(spec="{{workflow.parameters.spec}}", name=None, image=None, workers=None),
    train(env=MAPPING, args='["--lr", "{{workflow.parameters.rates}}"]'),
    train(args="{{workflow.parameters.rates}}", name="{{workflow.name}}"),
    train(spec='{"systems": {"kubeflow": {}}, "output_dir": "/data/{run_id}"}', system="kubeflow"),
    train(deadlines='{"total": "{{workflow.parameters.workers}}", "running": "12h"}'),
    train(args='["{\\"a\\": {{workflow.parameters.workers}}}"]'),
    train(system="{{workflow.parameters.spec}}"),
    train(ps="2", chief="1"),
    looped({"withItems": [{"lr": 1, "n": 2}]}, args='["{{item.lr}}"]', workers="{{item.n}}"),
    looped({"withItems": [{"A": "b"}]}, env="{{item}}"),
    looped({"withParam": "{{workflow.parameters.rates}}"}, args='["{{item.lr}}"]'),
    looped({"withItems": ["{{workflow.parameters.rates}}"]}, workers="{{item}}"),
    looped({"withSequence": {"count": "2"}}, args='["{{item}}"]'),
    judge(metrics=None, job="{{tasks.fit.outputs.parameters.job}}"),
    judge(metric="{{workflow.parameters.spec}}", threshold="1e-3", direction="at_most", required=True),
    reference(FIT, "anything", "somebody-elses"),
    ((*FIT, "templateRef"), {"name": "tfsteps", "template": "train", "clusterScope": True}),
    (("hooks", "exit", "arguments"), arguments(scope="{{workflow.parameters.spec}}")),
]


@pytest.mark.parametrize("change", FINE)
def test_a_call_that_is_fine(change):
    open_ = arguments(workers="", rates="", spec="")  # to be given when it is submitted
    assert lint_messages(changed(("arguments",), open_, changed(*change, GOOD))) == []


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_the_manifests_of_this_repository_are_fine(file):
    assert len(MANIFESTS) == 9
    assert lint_messages(file.read_text()) == []
    assert warnings(file.read_text()) == []


def test_lint_checks_against_the_shipped_template():
    def interface(template):
        inputs = {item["name"]: item.get("default") for item in template.get("inputs", {}).get("parameters", [])}
        outputs = template.get("outputs", {}).get("parameters", [])
        return template["name"], inputs, [output["name"] for output in outputs]

    shipped = yaml.safe_load(SHIPPED.read_text())["spec"]
    known = launchers.shipped()
    assert known["entrypoint"] == shipped["entrypoint"]
    assert sorted(map(interface, known["templates"]), key=str) == sorted(map(interface, shipped["templates"]), key=str)
    assert gate._DIRECTIONS == DIRECTIONS

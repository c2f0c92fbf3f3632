"""What Argo would refuse, drop or trip over is found; what it takes is not."""

import json
import pathlib
import re

import pytest
import yaml

from tests.unit.engines.argo.manifest import arguments
from tests.unit.engines.argo.manifest import changed as changed_in
from tfsteps.engines.argo.lint import cron_problem, lint_messages, warnings

GOOD = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: a-}
spec:
  entrypoint: main
  arguments: {parameters: [{name: lr, value: 0.1}]}
  hooks: {exit: {template: work}}
  templates:
  - name: main
    inputs: {parameters: [{name: lr}]}
    dag:
      tasks:
      - name: one
        template: work
        arguments: {parameters: [{name: text, value: "{{inputs.parameters.lr}} {{workflow.parameters.lr}}"}]}
      - name: two
        depends: one.Succeeded && (one || one.Skipped)
        template: work
        withItems: [1, {a: 2}]
        when: "{{tasks.one.outputs.parameters.said}} == yes"
        arguments: {parameters: [{name: text, value: "{{item}}"}]}
    outputs: {parameters: [{name: all, valueFrom: {parameter: "{{tasks.one.outputs.parameters.said}}"}}]}
  - name: work
    inputs: {parameters: [{name: text, default: ""}]}
    outputs: {parameters: [{name: said, valueFrom: {path: /tmp/said}}]}
    container: {image: "a:1", command: [sh], args: ["{{inputs.parameters.text}} {{pod.name}} {{=sprig.upper('a')}}"]}
    retryStrategy: {limit: 2, retryPolicy: Always}
  - name: stepwise
    steps:
    - - {name: one, template: work}
    - - {name: two, template: work, when: "{{steps.one.status}} == Succeeded"}
"""
ONE, TWO = ("templates", 0, "dag", "tasks", 0), ("templates", 0, "dag", "tasks", 1)
WORK = ("templates", 1)


def changed(path, value, text=GOOD):
    return changed_in(path, value, text)


def test_nothing_wrong():
    assert lint_messages(GOOD) == []


def test_the_retry_strategy_in_the_docs():
    page = (pathlib.Path(__file__).parents[4] / "docs/guides/argo.md").read_text()
    strategy = yaml.safe_load(re.search(r"```yaml\n( +retryStrategy:.*?)```", page, re.DOTALL)[1])["retryStrategy"]
    assert "lastRetry.exitCode == '13'" in strategy["expression"]
    assert lint_messages(changed((*WORK, "retryStrategy"), strategy)) == []


@pytest.mark.parametrize(
    "hook",
    [{}, {"hooks": {"exit": {"template": "work", "arguments": {"parameters": [{"name": "txet", "value": ""}]}}}}],
)
def test_an_argument_that_argo_drops_is_warned_of(hook):
    work = {"name": "work", "inputs": {"parameters": [{"name": "text", "default": ""}]}, "container": {"image": "a:1"}}
    call = {
        "name": "one",
        "template": "work",
        **(hook or {"arguments": {"parameters": [{"name": "txet", "value": ""}]}}),
    }
    main = {"name": "main", "dag": {"tasks": [call]}}
    manifest = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "a"},
        "spec": {"entrypoint": "main", "templates": [main, work]},
    }
    text = yaml.safe_dump(manifest)
    assert lint_messages(text) == []
    (warning,) = warnings(text)
    assert "template work has no input 'txet' in its parameters: text; Argo drops it" in warning


def test_a_file_of_kinds_that_are_not_checked_is_accepted():
    text = "apiVersion: argoproj.io/v1alpha1\nkind: WorkflowEventBinding\nmetadata: {name: a}\n"
    assert lint_messages(text) == []
    assert warnings(text) == ["WorkflowEventBinding a: this kind is not checked"]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("entrypoints",), "main", "spec.entrypoints: Argo has no such field; did you mean entrypoint?"),
        ((*WORK, "container", "imagePullPolice"), "Never", "imagePullPolice: Argo has no such field"),
        ((*WORK, "container", "args"), "text", "args: 'text' is not a list"),
        ((*WORK, "container"), [], "container: a list is not a mapping"),
        (("parallelism",), "two", "spec.parallelism: 'two' is not of type integer"),
        (("suspend",), "yes please", "spec.suspend: 'yes please' is not of type boolean"),
        ((*WORK, "container", "env"), [{"value": "a"}], "env[0].name: it is missing"),
        (("entrypoint",), None, "spec.entrypoint: it is missing"),
        (("entrypoint",), "mian", "spec.entrypoint: there is no template 'mian'; there is main, work, stepwise"),
        (("onExit",), "clean", "spec.onExit: there is no template 'clean'"),
        (("hooks", "exit", "template"), "clean", "spec.hooks.exit: there is no template 'clean'"),
        (("hooks",), {"running": {"template": "work"}}, "spec.hooks.running: it has no expression"),
        (("arguments",), {}, "spec.entrypoint: template main needs an argument lr"),
        ((*ONE, "template"), "wrok", "template main, one: there is no template 'wrok'"),
        ((*ONE, "template"), None, "none of template, templateRef and inline is given"),
        ((*ONE, "templateRef"), {"name": "a", "template": "b"}, "template and templateRef of template, templateRef"),
        ((*ONE, "name"), "two", "template main: names: 'two' is defined twice"),
        ((*ONE, "name"), "a_b", "'a_b' is not a valid name"),
        ((*ONE, "arguments"), {"parameters": [{"name": "text"}]}, "parameter text has no value"),
        (
            (*WORK, "inputs"),
            {"parameters": [{"name": "text"}, {"name": "n"}]},
            "one: template work needs an argument n",
        ),
        ((*ONE, "arguments"), arguments(text="{{inputs.parameters.rate}}"), "is no input of template main: lr"),
        ((*ONE, "arguments"), arguments(text="{{workflow.parameters.rate}}"), "is no parameter of the Workflow: lr"),
        ((*ONE, "arguments"), arguments(text="{{item}}"), "{{item}} is defined only in a loop"),
        ((*ONE, "when"), "{{tasks.two.status}} == Failed", "{{tasks.two.status}} is not available yet"),
        ((*TWO, "when"), "{{tasks.one.outputs.parameters.sad}}", "the parameters of template work are said"),
        ((*TWO, "when"), "{{tasks.three.status}}", "refers to three, which does not exist"),
        ((*TWO, "when"), "{{steps.one.status}}", "is not defined here"),
        ((*TWO, "depends"), "three", "two: it depends on 'three', which does not exist"),
        ((*TWO, "depends"), "one.Suceeded", "'Suceeded' is not one of"),
        ((*TWO, "depends"), "one.AllFailed", "one.AllFailed requires a loop, and one has none"),
        ((*TWO, "dependencies"), ["one"], "depends and dependencies exclude each other"),
        ((*TWO, "continueOn"), {"failed": True}, "continueOn and depends exclude each other"),
        ((*ONE, "depends"), "two", "one: it depends on itself"),
        ((*TWO, "withParam"), "[]", "withItems and withParam; give one"),
        (("templates", 0, "activeDeadlineSeconds"), 5, "only templates that make a pod take one"),
        (("templates", 0, "dag", "target"), "three", "target 'three' does not exist"),
        (("templates", 2, "steps", 0, 0, "when"), "{{steps.two.status}}", "is not available yet"),
        ((*WORK, "name"), "main", "spec.templates: 'main' is defined twice"),
        ((*WORK, "script"), {"image": "a", "source": "b"}, "container and script; a template has exactly one of"),
        ((*WORK, "container"), {"command": ["sh"]}, "template work.container.image: it is missing"),
        ((*WORK, "parallelism"), 2, "only steps and dag take it"),
        ((*WORK, "outputs"), {"parameters": [{"name": "said"}]}, "it has neither value nor valueFrom"),
        (
            (*WORK, "outputs"),
            {"parameters": [{"name": "said", "valueFrom": {"parameter": "a"}}]},
            "valueFrom.parameter is not for container, which takes path",
        ),
        ((*WORK, "retryStrategy"), {"retryPolicy": "Allways"}, "'Allways' is not one of Always, OnFailure"),
        (("podGC",), {"strategy": "Never"}, "spec.podGC.strategy: 'Never' is not one of"),
    ],
)
def test_a_problem(path, value, says):
    messages = lint_messages(changed(path, value))
    assert any(says in item for item in messages), messages
    assert all(item.startswith("Workflow a-: ") for item in messages), "each says of which manifest"


CRON = """
apiVersion: argoproj.io/v1alpha1
kind: CronWorkflow
metadata: {name: nightly}
spec:
  schedules: ["0 3 * * *"]
  concurrencyPolicy: Forbid
  workflowSpec: {workflowTemplateRef: {name: tfsteps}}
"""


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("concurrencyPolicy",), "forbid", "spec.concurrencyPolicy: 'forbid' is not one of Allow, Forbid, Replace"),
        (("schedules",), ["0 3 * *"], "spec.schedules[0]: '0 3 * *' has 4 fields"),
        (("schedules",), ["TZ=Europe/Belin 0 3 * * *"], "names a time zone that is not a time zone of the IANA"),
        (("timezone",), "Europe/Belin", "spec.timezone: 'Europe/Belin' is not a time zone of the IANA database"),
        (("timezone",), "+03:00", "Write `Etc/GMT-3`"),
        (("timezone",), "IST", "or `Etc/GMT-3` for +03:00"),
        (("schedules",), [], "spec.schedules: it is missing"),
        (("workflowSpec",), {"templates": []}, "spec.entrypoint: it is missing"),
    ],
)
def test_a_problem_of_a_cron_workflow(path, value, says):
    assert lint_messages(CRON) == []
    messages = lint_messages(changed(path, value, CRON))
    assert any(says in item for item in messages), messages


@pytest.mark.parametrize(
    "schedule",
    [
        "0 3 * * *",
        "0 3 29 feb *",
        "0 3 30 2 1",
        "0 3 31 */6 *",
        "0 3 28-31 2 *",
        "5/20 * * * *",
        "*/5 * * * *",
        "0-30/10,45 1 1 jan-mar MON",
        "@daily",
        "@every 1h30m",
        "TZ=Europe/Rome 0 3 ? * 0",
    ],
)
def test_a_schedule(schedule):
    assert cron_problem(schedule) == ""


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ("0 0 3 * * *", "has 6 fields"),
        ("60 * * * *", "has no minute from 0 to 59 in '60'"),
        ("0 3 30 2 *", "never fires"),
        ("0 3 31 4,6-9/5 *", "never fires"),
        ("0 3 * * 7", "has no day of week from 0 to 6 in '7'"),
        ("0 3 0 * *", "has no day of month from 1 to 31 in '0'"),
        ("30-10 * * * *", "has no minute"),
        ("*/0 * * * *", "has no minute"),
        ("* * * may-jan *", "has no month"),
        ("x * * * *", "has no minute"),
        ("@dayly", "is not one of"),
        ("@every day", "is not one of"),
    ],
)
def test_a_schedule_that_argo_refuses(schedule, says):
    assert says in cron_problem(schedule)


def test_a_schedule_that_argo_4_does_not_know():
    text = changed(("schedules",), None, CRON)
    text = changed(("schedule",), "0 3 * * *", text)
    assert lint_messages(text) == []
    assert warnings(text)[0].startswith("CronWorkflow nightly: spec.schedule: Argo 4 has no such field")


SMALL = """
apiVersion: argoproj.io/v1alpha1
kind: {kind}
metadata: {{generateName: small-}}
spec:
  entrypoint: main
  arguments: {{parameters: [{{name: bucket}}]}}
  templates:
  - name: main
    container: {{image: "a:1", command: [echo, "{{{{workflow.parameters.bucket}}}} {{{{workflow.parameters.json}}}}"]}}
"""


@pytest.mark.parametrize(("kind", "count"), [("Workflow", 1), ("WorkflowTemplate", 0), ("ClusterWorkflowTemplate", 0)])
def test_an_argument_without_a_value(kind, count):
    text = SMALL.format(kind=kind)
    assert lint_messages(text) == []
    message = f"{kind} small-: spec.arguments: parameter bucket has no value; set it at submission"
    assert warnings(text) == [message] * count


@pytest.mark.parametrize("kind", ["EventSource", "Application", "WorkflowTaskResult", 5, None])
def test_another_kind_beside_a_workflow(kind):
    other = json.dumps({"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": "b"}, "spec": {}})
    text = f"{SMALL.format(kind='WorkflowTemplate')}---\n{other}"
    is_kind = isinstance(kind, str)
    assert (lint_messages(text) == []) == is_kind
    assert warnings(text) == [f"{kind} b: this kind is not checked"] * is_kind


def test_manifests_in_a_list_and_beside_a_config_map():
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"a": "b"}}
    workflow = yaml.safe_load(changed(("entrypoint",), "man", SMALL.format(kind="WorkflowTemplate")))
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [config, workflow]})
    [problem] = lint_messages(text)
    assert problem.startswith("WorkflowTemplate small-: spec.entrypoint: there is no template 'man'")


RESOURCE = """
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: one}
spec:
  templates:
  - name: main
    inputs: {parameters: [{name: size}]}
    resource:
      action: create
      successCondition: status.succeeded > 0
      manifest: |
        kind: Job
        spec: {parallelism: {{inputs.parameters.size}}}
"""
MADE = ("templates", 0, "resource")


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ((*MADE, "manifest"), "kind: Job\n metadata: {}", "resource.manifest, line 2: is not YAML"),
        ((*MADE, "successCondition"), 'status.conditions.#(type=="Ok").status == "True"', "that Argo can read"),
        ((*MADE, "failureCondition"), "status.failed >", "that Argo can read"),
        ((*MADE, "manifest"), "{{inputs.parameters.size}}", ""),
        ((*MADE, "successCondition"), "status.phase in (Ok, Done), status.failed != 1", ""),
        ((*MADE, "successCondition"), "status.succeeded >= 1", "that Argo can read"),
        ((*MADE, "successCondition"), "status.ready,!status.failed, status.n = {{inputs.parameters.size}}", ""),
    ],
)
def test_a_resource_template(path, value, says):
    assert lint_messages(RESOURCE) == []
    messages = lint_messages(changed(path, value, RESOURCE))
    assert [says in problem for problem in messages] == [True] * bool(says)


LAUNCHER = """
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: mine}
spec:
  templates:
  - name: fit
    container:
      image: tfsteps/launcher:1
      command: [python, -m, tfsteps.steps.train.launcher]
      args: [--argo, train, name=a, "image=a:1", workers=2]
      env: [{name: TFSTEPS_NODE_NAME, value: a}]
    retryStrategy: {limit: 2, retryPolicy: Always}
"""
FIT = ("templates", 0)
JOB = ["name=a", "image=a:1"]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (
            (*FIT, "memoize"),
            {"key": "a", "maxAge": "1h", "cache": {"configMap": {"name": "b"}}},
            "a memoized launcher runs no job",
        ),
        ((*FIT, "daemon"), True, "template fit.daemon: a daemon counts as done as soon as its pod is up"),
        (("templateDefaults",), {"daemon": True}, "template fit.daemon: a daemon counts as done"),
        (
            (*FIT, "retryStrategy"),
            None,
            "fit.retryStrategy: without a retry strategy, the step and its job fail when its pod is lost",
        ),
        ((*FIT, "retryStrategy", "retryPolicy"), None, "OnFailure, Argo's default, misses lost pods: by timing one"),
        ((*FIT, "retryStrategy", "retryPolicy"), "OnFailure", "'OnFailure' misses lost pods"),
        ((*FIT, "retryStrategy", "retryPolicy"), "OnError", "'OnError' misses lost pods"),
        ((*FIT, "retryStrategy", "retryPolicy"), "OnTransientError", "and only Always covers all. Allowed: Always."),
        ((*FIT, "container", "env"), [], "without the variable TFSTEPS_NODE_NAME"),
        ((*FIT, "container", "args"), ["--argo", "trian"], "they must begin with --argo and one of"),
        (
            (*FIT, "container", "args"),
            ["--argo", "train", *JOB, "workers=2", "worker=2"],
            "'worker=2' is not NAME=VALUE of an input of train. Allowed: args, ",
        ),
        (
            (*FIT, "container", "args"),
            ["--argo", "train", *JOB, "workers=two"],
            "template fit: workers: 'two' is not of its type. Allowed: a whole number.",
        ),
    ],
)
def test_a_problem_of_a_launcher(path, value, says):
    assert lint_messages(LAUNCHER) == []
    (message,) = lint_messages(changed(path, value, LAUNCHER))
    assert says in message


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*FIT, "retryStrategy"), {"limit": 0}),
        ((*FIT, "retryStrategy"), {"limit": 2, "expression": "lastRetry.exitCode == '13'"}),  # then Argo means Always
        ((*FIT, "daemon"), False),
        (("templateDefaults",), {"container": {"image": "a:1"}, "retryStrategy": {"limit": 9}}),
    ],
)
def test_a_launcher_that_is_fine(path, value):
    assert lint_messages(changed(path, value, LAUNCHER)) == []


@pytest.mark.parametrize("place", [("retryStrategy",), ("templateDefaults",)])
def test_the_retries_of_a_launcher_may_stand_in_the_spec(place):
    strategy = {"limit": 2, "retryPolicy": "Always"}
    text = changed((*FIT, "retryStrategy"), None, LAUNCHER)
    value = strategy if place == ("retryStrategy",) else {"retryStrategy": strategy}
    assert lint_messages(changed(place, value, text)) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{apiVersion: v1, kind: ConfigMap}", "there is no manifest with apiVersion: argoproj.io/v1alpha1"),
        ("just text", "there is no manifest"),
        ("", "there is no manifest"),
        (
            "{apiVersion: argoproj.io/v1alpha1, kind: Wrokflow}",
            "kind: 'Wrokflow' is not one of ClusterWorkflowTemplate",
        ),
        ("{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {}}", "spec: it is missing"),
        ("{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {}, spec: []}", "spec: a list is not a mapping"),
    ],
)
def test_not_a_manifest(text, says):
    (message, *_) = lint_messages(text)
    assert says in message


def test_several_manifests():
    assert len(lint_messages(f"{GOOD}---\n{CRON}---\n{changed(('entrypoint',), 'x')}")) == 1


def test_templates_of_both_kinds_may_have_one_name():
    template = "apiVersion: argoproj.io/v1alpha1\nkind: {kind}\nmetadata: {{name: both}}\nspec: {{templates: [{spec}]}}"
    container = "container: {image: x:1}"
    manifests = [
        template.format(kind="WorkflowTemplate", spec=f"{{name: mine, {container}}}"),
        template.format(kind="ClusterWorkflowTemplate", spec=f"{{name: all, {container}}}"),
    ]
    for mine, of_all in (("mine", "all"), ("all", "mine")):
        steps = [
            {"name": "one", "templateRef": {"name": "both", "template": mine}},
            {"name": "two", "templateRef": {"name": "both", "template": of_all, "clusterScope": True}},
        ]
        calls = changed(("templates", 2, "steps"), [[step] for step in steps])
        messages = lint_messages("\n---\n".join([*manifests, calls]))
        assert len(messages) == (0 if mine == "mine" else 2), messages
        assert all("templateRef.template: both has no template" in message for message in messages)


def test_a_cluster_template_is_in_no_namespace():
    text = LAUNCHER.replace("kind: WorkflowTemplate", "kind: ClusterWorkflowTemplate").replace(
        "mine}", "m, namespace: n}"
    )
    assert lint_messages(text) == [
        "ClusterWorkflowTemplate m: metadata.namespace: a ClusterWorkflowTemplate is in no namespace"
    ]


def test_a_parameter_that_is_no_text_is_a_warning():
    text = WORKFLOW_OF_NUMBERS.format(value="2", default="true")
    [warning] = warnings(text)
    where = "spec.arguments.parameters[0].value and 1 more"
    assert warning == f"Workflow w: {where}: it is not text, and the full CRDs of Argo 3.7 and 4 refuse it; quote it"
    assert not warnings(WORKFLOW_OF_NUMBERS.format(value='"2"', default='"true"'))


WORKFLOW_OF_NUMBERS = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {{name: w}}
spec:
  entrypoint: main
  arguments: {{parameters: [{{name: n, value: {value}}}]}}
  templates:
    - name: main
      inputs: {{parameters: [{{name: n, default: {default}}}]}}
      container: {{image: "a:1", command: [echo, "{{{{inputs.parameters.n}}}}"]}}
"""

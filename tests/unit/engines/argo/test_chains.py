"""Constants that reach our steps through the inputs of other templates are checked there, call by call."""

import pytest
import yaml

from tests.unit.cli.command import tfsteps
from tfsteps.engines.argo.lint import lint_messages, warnings

JOB = {"name": "mnist", "image": "a:1"}


def step_arguments(**values):
    return {"parameters": [{"name": name, "value": value} for name, value in values.items()]}


def call(name, template, **more):
    """Return a task that calls a template of the Workflow, or `train` of ours."""
    target = (
        {"templateRef": {"name": "tfsteps", "template": "train"}} if template == "train" else {"template": template}
    )
    return {"name": name, **target, **{key: value for key, value in more.items() if value is not None}}


def dag(name, *tasks, **inputs):
    """Return a template; an input that is None has no default."""
    declared = [{"name": key, **({} if value is None else {"default": value})} for key, value in inputs.items()]
    return {"name": name, "inputs": {"parameters": declared}, "dag": {"tasks": list(tasks)}}


def fit(**inputs):
    return call("fit", "train", arguments=step_arguments(**{**JOB, "workers": "1", **inputs}))


def workflow(*templates, kind="Workflow", **parameters):
    spec = {"entrypoint": templates[0]["name"], "templates": list(templates), "arguments": step_arguments(**parameters)}
    return yaml.safe_dump({"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec})


ONE = dag("one", fit(workers="{{inputs.parameters.n}}"), n="2")
INNER = "template main, inner > template one, fit"
MAIN = dag("main", call("inner", "one", arguments=step_arguments(n="{{inputs.parameters.n}}")), n="2")
WHEN = {"when": "'{{inputs.parameters.kind}}' == 'train'"}
ITEM = "{{item}}"

WRONG = {
    "an argument": (
        workflow(dag("main", call("inner", "one", arguments=step_arguments(n="two"))), ONE),
        [f"{INNER}: workers: 'two' is not of its type"],
    ),
    "nothing": (
        workflow(dag("main", call("inner", "one", arguments=step_arguments(n=""))), ONE),
        [f"{INNER}: roles: is missing. Set `workers`"],
    ),
    "a default": (
        workflow(
            dag("main", call("inner", "one")), {**ONE, "inputs": {"parameters": [{"name": "n", "default": "no"}]}}
        ),
        [f"{INNER}: workers: 'no' is not of its type"],
    ),
    "three templates": (
        workflow(dag("main", call("go", "middle")), dag("middle", *MAIN["dag"]["tasks"], n="x"), ONE),
        ["template main, go > template middle, inner > template one, fit: workers: 'x' is not of its type"],
    ),
    "two calls": (
        workflow(
            dag(
                "main",
                call("a", "one", arguments=step_arguments(n="x")),
                call("b", "one", arguments=step_arguments(n="y")),
            ),
            ONE,
        ),
        [
            "template main, a > template one, fit: workers: 'x' is not of its type",
            "template main, b > template one, fit: workers: 'y' is not of its type",
        ],
    ),
    "an item of a constant loop": (
        workflow(dag("main", call("inner", "one", arguments=step_arguments(n=ITEM), withItems=[1, "z"])), ONE),
        [f"{INNER}: workers: 'z' is not of its type"],
    ),
    "a part of a value": (
        workflow(
            dag("main", call("inner", "one", arguments=step_arguments(n="x"))),
            dag("one", fit(args='["-n", {{inputs.parameters.n}}]'), n=None),
        ),
        [f"{INNER}: args: "],
    ),
    "a parameter of the Workflow": (
        workflow(dag("main", fit(workers="{{workflow.parameters.n}}")), n="two"),
        ["template main, fit: workers: 'two' is not of its type"],
    ),
    "a parameter, passed down": (workflow(MAIN, ONE, n="two"), [f"{INNER}: workers: 'two' is not of its type"]),
    "a parameter, within another template": (
        workflow(
            dag("main", call("inner", "one")),
            dag("one", fit(deadlines='{"total": "{{workflow.parameters.t}}"}')),
            t="soon",
        ),
        [f"{INNER}: deadlines.total: 'soon' is not a duration"],
    ),
    "the entrypoint's default": (
        workflow({**MAIN, "inputs": {"parameters": [{"name": "n", "default": "two"}]}}, ONE),
        [f"{INNER}: workers: 'two' is not of its type"],
    ),
    "a template that only others call": (
        workflow(dag("main", fit()), dag("spare", call("inner", "one", arguments=step_arguments(n="x"))), ONE),
        ["template spare, inner > template one, fit: workers: 'x' is not of its type"],
    ),
    "a template in line": (
        workflow(
            dag(
                "main",
                {
                    "name": "inner",
                    "inline": {key: value for key, value in ONE.items() if key != "name"},
                    "arguments": step_arguments(n="x"),
                },
            )
        ),
        ["template main, inner > template None, fit: workers: 'x' is not of its type"],
    ),
    "a hook": (
        workflow(
            dag(
                "main",
                {**call("inner", "one"), "hooks": {"exit": {"template": "one", "arguments": step_arguments(n="x")}}},
            ),
            ONE,
        ),
        ["template main, inner.hooks.exit > template one, fit: workers: 'x' is not of its type"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_a_wrong_constant_is_found_at_the_end_of_its_chain(text, expected):
    messages = [message.removeprefix("Workflow a: ") for message in lint_messages(text)]
    assert [message[: len(start)] for message, start in zip(messages, expected, strict=True)] == expected


def test_what_is_wrong_whoever_calls_is_reported_once():
    (message,) = lint_messages(workflow(MAIN, dag("one", fit(memory="lots"), n="2")))
    assert "template one, fit: memory: 'lots'" in message


FINE = {
    "right ones": workflow(MAIN, ONE, n="3"),
    "an output": workflow(dag("main", call("inner", "one", arguments=step_arguments(n="{{workflow.uid}}"))), ONE),
    "a loop of the run": workflow(
        dag("main", call("inner", "one", arguments=step_arguments(n=ITEM), withParam="{{workflow.parameters.l}}")),
        ONE,
        l="",
    ),
    "an item that is the outer loop's": workflow(
        dag("main", call("inner", "one", arguments=step_arguments(n=ITEM), withSequence={"count": "2"})),
        dag("one", {**fit(workers="{{inputs.parameters.n}}"), "withItems": ["x"]}, n=None),
    ),
    "an input of the same name in another template": workflow(
        dag("main", call("go", "middle", arguments=step_arguments(m="x"))),
        dag(
            "middle",
            call("inner", "one", arguments=step_arguments(n="{{inputs.parameters.unknown}}")),
            m=None,
            unknown=None,
        ),
        dag("one", fit(workers="{{inputs.parameters.n}}"), n=None, unknown="x"),
    ),
    "a condition on the same inputs": workflow(
        dag("main", call("inner", "one", arguments=step_arguments(kind="evaluate", n=""))),
        dag("one", {**fit(workers="{{inputs.parameters.n}}"), **WHEN}, n=None, kind=None),
    ),
    "a condition on a parameter": workflow(
        dag("main", {**fit(workers="{{workflow.parameters.n}}"), "when": "{{workflow.parameters.n}} > 0"}), n="-1"
    ),
    "an expression": workflow(
        dag("main", call("inner", "one", arguments=step_arguments(n="{{=asInt(workflow.parameters.n) + 1}}"))),
        ONE,
        n="x",
    ),
    "a template that calls itself": workflow(
        dag(
            "main",
            call("again", "main", arguments=step_arguments(n="x{{inputs.parameters.n}}"), when="{{workflow.uid}}"),
            n="",
        )
    ),
    "a library": workflow(ONE, kind="WorkflowTemplate"),
    "one to be given later": workflow(MAIN, ONE, n=""),
}


@pytest.mark.parametrize("text", FINE.values(), ids=FINE)
def test_values_known_only_at_run_time_are_accepted(text):
    messages = [message for message in lint_messages(text) if "needs an argument" not in message]
    assert messages == []


def test_what_a_default_lacks_is_a_warning_for_it_may_be_given():
    text = workflow(
        dag("main", call("inner", "one", arguments=step_arguments(n="{{workflow.parameters.n}}"))), ONE, n="0"
    )
    assert lint_messages(text) == []
    (warning,) = warnings(text)
    assert f"{INNER}: roles: is missing" in warning


def test_many_templates_with_many_values_end():
    calls = [call(f"c{i}", "{}", arguments=step_arguments(n=f"{{{{inputs.parameters.n}}}}{i}")) for i in range(3)]
    levels = [dag(f"l{level}", *[{**item, "template": f"l{level + 1}"} for item in calls], n="") for level in range(30)]
    assert lint_messages(workflow(*levels, dag("l30", fit(env='{"A": "{{inputs.parameters.n}}"}'), n=""), n="1")) == []


# --- submit


@pytest.fixture
def flow(tmp_path):
    file = tmp_path / "flow.yaml"
    file.write_text(workflow(MAIN, ONE, n="2"))
    return file


def test_arguments_of_a_submission_are_checked(flow):
    code, out, err = tfsteps("submit", "--dry-run", flow, "-p", "n=two")
    assert (code, out) == (2, "")
    assert f"{flow}: Workflow a: {INNER}: workers: 'two' is not of its type" in err
    code, _, err = tfsteps("submit", "--dry-run", flow, "-p", "n=0")
    assert (code, "roles: is missing" in err) == (2, True), "nothing will be given later"


def test_an_argument_in_place_of_a_wrong_default(flow):
    flow.write_text(workflow(MAIN, ONE, n="two"))
    assert tfsteps("lint", flow)[0] == 2
    code, out, err = tfsteps("submit", "--dry-run", flow, "-p", "n=3")
    assert (code, "value: '3'" in out) == (0, True), err

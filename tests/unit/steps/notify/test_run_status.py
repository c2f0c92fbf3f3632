import json

import pytest

from tfsteps.engines.registry import plugin
from tfsteps.steps.notify.launcher import failed_nodes

FAILURES = [
    {
        "displayName": "late",
        "message": "main: Error (exit code 10)",
        "finishedAt": "2026-11-25T01:02:00Z",
        "phase": "Failed",
    },
    {"displayName": "fit", "message": 'said "no": \\x {a}', "finishedAt": "2026-11-25T01:01:00Z", "podName": "p"},
]
AS_ARGO_QUOTES_IT = json.dumps(json.dumps(FAILURES))


@pytest.mark.parametrize(
    ("engine", "succeeded"), [("kfp", {"succeeded", "complete", "cached"}), ("argo", {"succeeded"}), ("local", set())]
)
def test_the_states_that_mean_success(engine, succeeded):
    """Of `PipelineTaskFinalStatus.state`, which the local runner fills by kfp's command line, and `workflow.status`."""
    assert {state for state, end in plugin(engine).run_ends.items() if end == "succeeded"} == succeeded


@pytest.mark.parametrize("text", [AS_ARGO_QUOTES_IT, json.dumps(FAILURES)])
def test_the_failed_nodes_in_the_order_of_their_ends(text):
    assert [(node.name, node.message) for node in failed_nodes(text)] == [
        ("fit", 'said "no": \\x {a}'),
        ("late", "main: Error (exit code 10)"),
    ]


def test_a_text_that_was_cut_has_the_nodes_that_are_complete():
    for length in range(len(AS_ARGO_QUOTES_IT)):
        names = [node.name for node in failed_nodes(AS_ARGO_QUOTES_IT[:length])]
        assert names in ([], ["late"], ["fit", "late"])
    assert [node.name for node in failed_nodes(AS_ARGO_QUOTES_IT[:-40])] == ["late"]


def test_an_escape_that_only_go_has():
    assert [node.name for node in failed_nodes(r'"[{\"displayName\":\"fit\",\"message\":\"bell \a\"}]"')] == ["fit"]


@pytest.mark.parametrize(
    "text", ["", "null", "{{workflow.failures}}", "[1, 2]", '[{"displayName": 5}]', '"', "{", "\\"]
)
def test_other_texts_have_none(text):
    assert failed_nodes(text) == []

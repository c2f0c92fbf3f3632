"""What a schedule changes in the Workflow of its runs."""

import json

import pytest

from tfsteps.engines.argo.scheduled_run import run_spec
from tfsteps.schedule import from_plain
from tfsteps.spec import SpecError

STEPS = {
    "metadata": {},
    "spec": {
        "parallelism": 9,
        "templates": [
            {"name": "main", "dag": {"tasks": [{"name": name, "template": "t"} for name in ("train", "publish")]}},
            {"name": "list", "steps": [[{"name": "publish", "template": "t", "when": "true"}], None]},
            {"name": "t", "container": {}, "retryStrategy": {"limit": "5", "retryPolicy": "Always"}},
            {"name": "wait", "suspend": {}},
        ],
    },
}  # fmt: skip


def test_limits_retries_and_skipped_steps_change_the_runs_alone():
    before = json.dumps(STEPS)
    plain = {"cron": "@daily", "parallelism": 2, "timeout": "1h", "retry": 0, "skip": ["publish"]}
    spec = run_spec(from_plain(plain), STEPS)
    assert json.dumps(STEPS) == before
    main, steps, pod, wait = spec["templates"]
    assert (spec["parallelism"], spec["activeDeadlineSeconds"]) == (2, 3600)
    assert pod["retryStrategy"] == {"limit": 0, "retryPolicy": "Always"}
    assert "retryStrategy" not in {**main, **wait}
    assert [task.get("when") for task in main["dag"]["tasks"]] == [None, "false"]
    assert steps["steps"][0][0]["when"] == "false"
    assert run_spec(from_plain({"cron": "@daily"}), STEPS) == STEPS["spec"]


@pytest.mark.parametrize(
    ("plain", "wrong"),
    [
        ({"skip": ["train", "pubish"]}, "skip[1]: 'pubish' is not a step of the Workflow. Write `publish`."),
        ({"retry": 1}, "retry: 1 has no effect: the templates of the steps are not in this Workflow."),
    ],
)
def test_what_the_workflow_cannot_have_is_refused(plain, wrong):
    workflow = STEPS if "skip" in plain else {"metadata": {}, "spec": {"workflowTemplateRef": {"name": "w"}}}
    with pytest.raises(SpecError) as caught:
        run_spec(from_plain({"cron": "@daily", **plain}), workflow)
    assert wrong in str(caught.value)

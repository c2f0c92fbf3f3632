"""What each scheduler is given for a schedule, kept beside it."""

import datetime as dt
import pathlib
import re

import pytest
import yaml

from tfsteps import schedule
from tfsteps.engines.argo import cronjob, cronworkflow, lint, schedule_object
from tfsteps.engines.kfp import recurring_run
from tfsteps.schedule import Schedule

FOLDER = pathlib.Path(__file__).with_name("schedules")
NOW = dt.datetime(2026, 11, 20, tzinfo=dt.UTC).timestamp()
WORKFLOW = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"generateName": "retrain-", "labels": {"team": "vision"}},
    "spec": {
        "entrypoint": "main",
        "templates": [{"name": "main", "container": {"image": "busybox:1.37", "command": ["true"]}}],
    },
}
WRITERS = {
    "kubeflow": lambda when: [recurring_run.arguments(when, NOW)],
    "argo": lambda when: [cronworkflow.cron_workflow(when, WORKFLOW, "retrain")],
    "janitor": lambda when: [schedule_object.config_map(when, WORKFLOW, "retrain")],
    "cronjob": lambda when: cronjob.objects(when, WORKFLOW, "retrain", namespace="team", image="launcher:1"),
}
CASES = sorted(file.name.removesuffix(".schedule.yaml").split(".")[:2] for file in FOLDER.glob("*.schedule.yaml"))


def test_every_scheduler_has_cases():
    assert {scheduler for scheduler, _ in CASES} == set(WRITERS)


@pytest.mark.parametrize(("scheduler", "case"), CASES)
def test_schedule(scheduler, case, golden):
    when = schedule.load(FOLDER / f"{scheduler}.{case}.schedule.yaml")
    problems = {"kubeflow": lambda: recurring_run.schedule_problems(when, NOW),
                "argo": lambda: cronworkflow.schedule_problems(when),
                "cronjob": lambda: cronjob.schedule_problems(when), "janitor": list}[scheduler]  # fmt: skip
    assert problems() == []
    text = yaml.safe_dump_all(WRITERS[scheduler](when), sort_keys=False)
    golden(FOLDER / f"{scheduler}.{case}.yaml", text)
    if scheduler == "janitor":
        (item,) = yaml.safe_load_all(text)
        assert schedule_object.read(item)[0] == when
    if scheduler == "argo":
        assert lint.lint_messages(text) == []


DOCS = (pathlib.Path(__file__).parents[2] / "docs" / "guides" / "schedules.md").read_text()


def test_the_page_names_every_field_and_its_examples_work():
    (table,) = re.findall(r"\| field \|.*?\n\n", DOCS, re.DOTALL)
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(Schedule.__struct_fields__)
    (example,) = re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL)
    assert cronworkflow.schedule_problems(schedule.parse(example)) == []
    (code,) = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    names = {}
    exec(code, names)
    assert names["problems"] == []
    assert names["arguments"]["cron_expression"] == "0 0 17 * * *"

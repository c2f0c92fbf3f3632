"""The notations of the engines for a schedule: what each refuses, and when it fires."""

import datetime as dt
import itertools
import json
import zoneinfo

import pytest

from tfsteps import schedule
from tfsteps.engines.argo import cronjob, cronworkflow
from tfsteps.engines.kfp import recurring_run
from tfsteps.engines.kfp.recurring_run import fixed_offset, moved
from tfsteps.schedule import fires
from tfsteps.schedule.cron import Cron
from tfsteps.schedule.types import utc

NOW = dt.datetime(2026, 10, 20, 12, tzinfo=dt.UTC).timestamp()


def runs(plain, scheduler=cronworkflow, count=4, **options):
    """Return the next runs of a schedule as UTC, without seconds."""
    dates = itertools.islice(scheduler.fires(schedule.from_plain(plain), NOW, **options), count)
    return [utc(at).removesuffix(":00Z") for at in dates]


def test_from_start_on_and_before_end():
    plan = {"cron": "0 6 * * *", "start": "2026-10-25T06:00:00Z", "end": "2026-10-27T06:00:00Z"}
    assert runs(plan, count=9) == ["2026-10-25T06:00", "2026-10-26T06:00"], "both at `start`, none at `end`"
    assert runs(plan, recurring_run, count=9) == runs(plan, count=9)


def test_a_start_that_has_passed_matters_only_to_those_who_catch_up():
    plan = {"cron": "0 6 * * *", "start": "2026-10-18"}
    assert runs(plan, count=1) == ["2026-10-21T06:00"]
    assert runs({**plan, "catch_up": True}, recurring_run, count=1) == ["2026-10-18T06:00"]


def test_intervals_count_from_creation_or_from_start():
    assert runs({"interval": "90m"}, count=2) == ["2026-10-20T13:30", "2026-10-20T15:00"]
    plan = {"interval": "1d", "start": "2026-11-01T00:00:00+02:00"}
    assert runs(plan, recurring_run, count=2) == ["2026-11-01T22:00", "2026-11-02T22:00"]


def test_kubeflow_alone_loses_the_first_midnight_after_a_day_without_one():
    plan = {"cron": "0 0 * * 1", "timezone": "Africa/Cairo", "start": "2027-04-28"}  # April 30 begins at 1:00
    assert runs(plan, count=1) == ["2027-05-02T21:00"]
    assert runs(plan, recurring_run, count=1, server_timezone="Africa/Cairo") == ["2027-05-09T21:00"]


def test_each_scheduler_reports_what_it_cannot_express():
    everything = {
        "cron": "0 6 * * 1", "timezone": "Europe/Berlin", "start": "2026-11-01", "end": "2027-11-01", "catch_up": True,
        "concurrency": "replace", "starting_deadline": "5s", "history": {"successful": 1, "failed": 0},
    }  # fmt: skip
    plan = schedule.from_plain(everything)
    refused = {
        "kubeflow": [str(problem) for problem in recurring_run.schedule_problems(plan, NOW)],
        "argo": [str(problem) for problem in cronworkflow.schedule_problems(plan)],
        "cronjob": [str(problem) for problem in cronjob.schedule_problems(plan)],
    }
    fields = {name: [text.partition(":")[0] for text in texts] for name, texts in refused.items()}
    assert fields == {
        "kubeflow": ["timezone", "concurrency", "starting_deadline", "history"],
        "argo": ["catch_up"],
        "cronjob": ["catch_up", "start", "end", "starting_deadline"],
    }
    assert all(text.count(". ") >= 1 and text.endswith(".") for texts in refused.values() for text in texts)


def test_intervals_that_a_scheduler_cannot_count():
    short = schedule.from_plain({"interval": "30s", "start": "2026-11-01"})
    assert [problem.path for problem in cronworkflow.schedule_problems(short)] == [("start",)]
    assert [problem.path for problem in cronjob.schedule_problems(short)] == [("start",), ("interval",)]
    assert recurring_run.schedule_problems(short, NOW) == []


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Asia/Tokyo", "Etc/GMT+3", "Asia/Kathmandu"])
@pytest.mark.parametrize("cron", ["30 3 * * 1-5", "45 23 * * *", "*/15 * * * *", "0 6 * * 0"])
def test_kubeflow_fires_in_its_own_zone_when_the_author_meant(zone, cron):
    plan = schedule.from_plain({"cron": cron, "timezone": zone})
    assert recurring_run.schedule_problems(plan, NOW) == []
    there = [utc(at) for at in itertools.islice(recurring_run.fires(plan, NOW), 20)]
    assert there == [utc(at) for at in itertools.islice(fires.fire_times(plan, NOW), 20)]


def test_kubeflow_takes_a_zone_that_is_its_own():
    plan = schedule.from_plain({"cron": "0 6 * * 1", "timezone": "Europe/Berlin"})
    assert [problem.path for problem in recurring_run.schedule_problems(plan, NOW)] == [("timezone",)]
    assert recurring_run.schedule_problems(plan, NOW, "Europe/Berlin") == []
    assert recurring_run.arguments(plan, NOW, "Europe/Berlin")["cron_expression"] == "0 0 6 * * 1"


def test_intervals_need_no_zone():
    plan = schedule.from_plain({"interval": "1h", "timezone": "Europe/Berlin"})
    assert recurring_run.schedule_problems(plan, NOW) == []


def test_each_scheduler_limits_runs_or_refuses():
    limits = {"concurrency": "allow", "max_active_runs": 3, "parallelism": 2, "timeout": "6h"}
    when = schedule.from_plain({"cron": "@daily", **limits})
    workflow = {"metadata": {}, "spec": {"entrypoint": "main"}}
    limited = {"entrypoint": "main", "parallelism": 2, "activeDeadlineSeconds": 21600}
    assert cronworkflow.cron_workflow(when, workflow, "n")["spec"]["workflowSpec"] == limited
    config_map = next(
        item for item in cronjob.objects(when, workflow, "n", namespace="ml") if item["kind"] == "ConfigMap"
    )
    assert json.loads(config_map["data"]["workflow.json"])["spec"] == limited
    assert recurring_run.arguments(when, NOW)["max_concurrency"] == 3
    assert [problem.path for problem in recurring_run.schedule_problems(when, NOW)] == [("parallelism",), ("timeout",)]
    for scheduler in (cronworkflow, cronjob):
        assert [problem.path for problem in scheduler.schedule_problems(when)] == [("max_active_runs",)]
    eleven = schedule.from_plain({"cron": "@daily", "concurrency": "allow", "max_active_runs": 11})
    assert "from 1 to 10" in str(recurring_run.schedule_problems(eleven, NOW)[0])


RULES = {"cron": "0 6 * * 1", "depends_on_past": True, "retry": 1, "skip": ["a"]}


def test_rules_are_refused_with_what_keeps_them():
    rules = schedule.from_plain(RULES)
    refused = {
        "argo": cronworkflow.schedule_problems(rules),
        "cronjob": cronjob.schedule_problems(rules),
        "kubeflow": recurring_run.schedule_problems(rules, NOW),
    }
    fields = {name: [problem.path[0] for problem in problems] for name, problems in refused.items()}
    assert fields == {
        "argo": ["depends_on_past"],
        "cronjob": ["depends_on_past"],
        "kubeflow": ["depends_on_past", "retry", "skip"],
    }
    assert "`--scheduler janitor`" in str(refused["argo"][0])
    expired = schedule.from_plain({"cron": "0 6 * * 1", "concurrency": "replace", "expired_limit": 2})
    assert [problem.path for problem in cronworkflow.schedule_problems(expired)] == [("expired_limit",)]


MOVED = {  # minutes later, and what it becomes; None = no single expression
    ("30 3 * * 1-5", -330): "0 22 * * 0-4",
    ("0 9 * * *", -540): "0 0 * * *",
    ("0 8 * * *", -540): "0 23 * * *",
    ("*/15 * * * *", -330): "*/15 * * * *",
    ("0 * * * *", 345): "45 * * * *",
    ("0 8 1 * *", -60): "0 7 1 * *",
    ("0 0 1 * *", -60): None,
    ("0 0 * 1 *", -60): None,
    ("0 0 * 1 1", -60): None,
    ("0 0,12 * * 1", -60): None,
    ("0 0,12 * * *", -60): "0 11,23 * * *",
    ("0,30 9 * * *", 30): None,
    ("0 0 1-31 * 1", -60): "0 23 1-31 * 1",
    ("0 0 * * 0", -60): "0 23 * * 6",
    ("0 23 * * 6", 60): "0 0 * * 0",
    ("0 9 * * *", 0): "0 9 * * *",
}


@pytest.mark.parametrize(("text", "minutes"), MOVED)
def test_moved(text, minutes):
    there = moved(Cron.parse(text), minutes)
    assert (there and there.text()) == MOVED[text, minutes]


OFFSETS = {"UTC": 0, "Asia/Kolkata": 330, "Etc/GMT+3": -180, "Asia/Tokyo": 540, "Europe/Berlin": None, "EST5EDT": None,
           "Africa/Casablanca": None}  # fmt: skip


@pytest.mark.parametrize("zone", OFFSETS)
def test_zones_that_never_change_their_clocks(zone):
    assert fixed_offset(zoneinfo.ZoneInfo(zone), NOW) == OFFSETS[zone]

"""The records of a schedule: its runs, and the dates without one."""

from tfsteps.engines.schedules import ScheduledRun, ScheduleState
from tfsteps.schedule import Schedule

NOW = 1_795_000_000.0
DAY = 86400.0


def state(**changes):
    facts = {"name": "x", "id": "1", "kind": "CronWorkflow", "namespace": "ns", "when": "* * * * *", "paused": False}
    return ScheduleState(**facts, **{"schedule": Schedule(cron="* * * * *"), "created": 0.0, "runs": [], **changes})


def test_of_more_dates_than_are_kept_the_newest_are():
    oldest = ScheduledRun(name="old", planned=NOW // 60 * 60 - 15 * DAY, outcome="succeeded")
    records = state(runs=[oldest]).records(NOW)
    assert [records[0].planned, records[-1]] == [NOW // 60 * 60, oldest]
    assert len(records) == 20_001


def test_a_schedule_without_runs_has_the_dates_of_a_week():
    records = state().records(NOW)
    assert len(records) == 7 * 24 * 60
    assert not any(run.name for run in records)


def test_no_date_is_before_the_schedule():
    assert [run.planned for run in state(created=NOW - 61).records(NOW)] == [NOW // 60 * 60]

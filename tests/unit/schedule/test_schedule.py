"""Schedules: everything that is wrong with one at once, and the next runs of good ones."""

import datetime as dt
import itertools

import pytest

from tfsteps import schedule
from tfsteps.schedule import fires
from tfsteps.schedule.types import utc
from tfsteps.spec import SpecError

NOW = dt.datetime(2026, 10, 20, 12, tzinfo=dt.UTC).timestamp()
WRONG = {
    "- 1": ["schedule:1: schedule: is empty, or not a schedule file. Start with `cron:` or `interval:`."],
    "a: [": ["schedule: is not YAML"],
    "cron: 0 9 * * *\n---\ncron: x": ["contains more than one document", "Keep one document: "],
    "apiVersion: v1\nkind: CronWorkflow": ["schedule: is a Kubernetes object, not a schedule file. Write the fields"],
    "{}": ["cron: is missing, and so is `interval`"],
    "{cron: '0 9 * * *', interval: 6h}": ["interval: 21600s cannot be combined with `cron`"],
    "{interval: 0.5s}": ["interval: 0.5s is not a whole number of seconds"],
    "{interval: 90.5s}": ["interval: 90.5s is not a whole number of seconds"],
    "{interval: -1}": ["interval: -1 is out of range"],
    "{interval: soon}": ["interval: 'soon' is not a duration"],
    "{cron: 0 9 * * 1-5, timezone: Berlin}": ["timezone: 'Berlin' is not a time zone", "Write `Europe/Berlin`"],
    "{cron: 0 9 * * 1-5, timezone: ../../etc/passwd}": ["is not a time zone"],
    "{cron: 0 9 * * 1-5, timezone: '+03:00'}": ["is not a time zone", "Etc/GMT-3"],
    "{cron: 0 9 30 2 *}": ["cron: '0 9 30 2 *' never fires"],
    "{cron: 0 0 9 * * 1}": ["cron: '0 0 9 * * 1' has 6 fields", "`0 9 * * 1`"],
    "{cron: 0 9 * * *, start: 2026-02-30}": ["start: '2026-02-30' is not a valid date or time"],
    "{cron: 0 9 * * *, start: 9999-12-31T23:59:59Z}": ["start: '9999-12-31T23:59:59Z' is too late", "before the year"],
    "{cron: 0 9 * * *, start: 0001-01-01}": ["start: '0001-01-01' is not a valid date or time: it is not from 1970"],
    "{cron: 0 9 * * *, end: '9999-12-31T23:59:59-14:00'}": ["end:", "it is not from 1970 to 9999"],
    "{cron: 0 9 * * *, start: tomorrow}": ["start: 'tomorrow' is not allowed here"],
    "{cron: 0 9 * * *, start: 2026-02-03, end: 2026-02-03}": ["end: '2026-02-03' is not after `start`"],
    "{cron: 0 9 * * *, concurrency: Forbid}": ["concurrency: 'Forbid' is not one of the choices", "`forbid`"],
    "{cron: 0 9 * * *, max_active_runs: 3}": ["max_active_runs: 3 has an effect only with `concurrency: allow`"],
    "{cron: 0 9 * * *, expired_limit: 3}": ["expired_limit: 3 has an effect only with `concurrency: replace`"],
    "{cron: 0 9 * * *, concurrency: replace, depends_on_past: true}": [
        "depends_on_past: true cannot be combined with `concurrency: replace`"
    ],
    "{cron: 0 9 * * *, concurrency: replace, expired_limit: 101}": ["expired_limit: 101 is out of range"],
    "{cron: 0 9 * * *, skip: evaluate}": ["skip: expected a list, got 'evaluate'"],
    "{cron: 0 9 * * *, parallelism: 0}": ["parallelism: 0 is out of range"],
    "{cron: 0 9 * * *, timeout: 1.5s}": ["timeout: 1.5s is not a whole number of seconds"],
    "{cron: 0 9 * * *, history: {successful: 101}}": ["history.successful: 101 is out of range"],
    "{cron: 0 9 * * *, catchup: true}": ["catchup: is not a known field. Write `catch_up`"],
    "cron: 0 9 * * *\ntimezone: X/Y\nend: 2026-13-13\n": ["schedule:2: timezone:", "schedule:3: end:"],
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong(text):
    with pytest.raises(SpecError) as caught:
        schedule.parse(text)
    for part in WRONG[text]:
        assert part in str(caught.value)


def test_a_file_is_read(tmp_path):
    file = tmp_path / "nightly.yaml"
    file.write_text("cron: '@daily'\nhistory: {failed: 5}\n")
    assert schedule.load(file).history.failed == 5
    file.write_bytes(b"cron: \xff")
    with pytest.raises(SpecError, match=r"nightly\.yaml: schedule: is not UTF-8"):
        schedule.load(file)


def test_every_default():
    plan = schedule.from_plain({"cron": "@daily"})
    assert (plan.timezone, plan.concurrency, plan.catch_up) == ("UTC", "forbid", False)
    assert (plan.start, plan.end, plan.starting_deadline, plan.interval) == (None, None, None, None)
    assert (plan.history.successful, plan.history.failed) == (None, None)


def runs(plain, count=4):
    """Return the next runs of a schedule as UTC, without seconds."""
    dates = itertools.islice(fires.fire_times(schedule.from_plain(plain), NOW), count)
    return [utc(at).removesuffix(":00Z") for at in dates]


def test_clocks_that_go_back_fire_twice_and_those_that_go_forward_not_at_all():
    autumn = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "start": "2026-10-24"}
    assert runs(autumn) == ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-25T01:30", "2026-10-26T01:30"]
    spring = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "start": "2027-03-27"}
    assert runs(spring, count=3) == ["2027-03-27T01:30", "2027-03-29T00:30", "2027-03-30T00:30"]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Apia", "America/Sao_Paulo"])
def test_the_latest_start_and_an_end_of_all_times(zone):
    plan = {"cron": "@yearly", "timezone": zone, "start": "9899-12-31T00:00:00Z", "end": "9999-12-31T23:59:59Z"}
    assert [fire[:4] for fire in runs(plan, count=2)] in (["9899", "9900"], ["9900", "9901"])
    assert runs({**plan, "cron": "0 0 29 2 1"}, count=1)


def test_an_interval_that_is_wrong_is_not_called_missing():
    with pytest.raises(SpecError) as refused:
        schedule.parse("{interval: 0s}")
    assert [item.path for item in refused.value.problems] == [("interval",)]

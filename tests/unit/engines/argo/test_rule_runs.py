"""The janitor's schedules over a year: no date is sent twice or lost silently, whatever happens in between."""

import itertools
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.engines.argo.schedule_cluster import CREATED, TEMPLATE, Cluster, Died, use_clock
from tfsteps.engines.argo import rule_runs, schedule_object
from tfsteps.engines.argo.submit import clear_manual
from tfsteps.kube.errors import ApiError
from tfsteps.schedule import from_plain, rules
from tfsteps.schedule.types import utc

HOUR, DAY = 3600, 86400
MANUAL = {"tfsteps.dev/trigger": "manual", "tfsteps.dev/pipeline": "train"}


@pytest.fixture
def start(monkeypatch):
    def begin(**fields):
        cluster = Cluster({"cron": "0 0 * * *", **fields})
        use_clock(cluster, monkeypatch)
        return cluster

    return begin


def passes(cluster, days=1):
    """Make a pass at noon of each of the next days."""
    for _ in range(days):
        cluster.clock += DAY
        cluster.keep()


def dates(cluster):
    """Return the days of the runs that have started."""
    return [(date - CREATED) // DAY for date in sorted(cluster.starts)]


def day(number):
    return CREATED + number * DAY


# --- one rule each


def test_each_date_starts_one_run_with_its_date_labels_and_owner(start):
    cluster = start()
    cluster.keep()
    assert cluster.starts == {}
    passes(cluster)
    cluster.keep()
    assert cluster.starts == {day(1): 1}
    run = cluster.objects["workflows"][f"nightly-{day(1)}"]
    uid = cluster.schedule["metadata"]["uid"]
    assert run["metadata"]["labels"] == {
        **TEMPLATE["metadata"]["labels"], "tfsteps.dev/trigger": "scheduled", "tfsteps.dev/schedule-uid": uid,
    }  # fmt: skip
    assert run["metadata"]["annotations"] == {"workflows.argoproj.io/scheduled-time": utc(day(1))}
    assert [owner["uid"] for owner in run["metadata"]["ownerReferences"]] == [uid]
    assert run["spec"] == TEMPLATE["spec"]


def test_without_catch_up_only_the_newest_missed_date_starts(start):
    cluster = start()
    cluster.clock += 5.5 * DAY
    cluster.keep()
    assert dates(cluster) == [5]
    assert cluster.results == {day(1): "missed", day(2): "missed", day(3): "missed", day(4): "missed", day(5): "sent"}
    assert f"4 dates from {utc(day(1))} to {utc(day(4))} are missed" in cluster.lines[0]


def test_catch_up_back_fills_from_the_start_one_after_another_and_nothing_before(start):
    cluster = start(start="2025-12-29", catch_up=True)
    for number in itertools.count(-3):
        cluster.keep()
        cluster.keep()
        assert dates(cluster)[-1] == number
        if number == 0:
            break
        cluster.end(day(number), "Succeeded")
    assert cluster.results == {day(-3): "succeeded", day(-2): "succeeded", day(-1): "succeeded", day(0): "sent"}


def test_depends_on_past_waits_for_success_or_for_the_user(start):
    cluster = start(depends_on_past=True, catch_up=True)
    passes(cluster, 2)
    assert dates(cluster) == [1]
    cluster.end(day(1), "Failed")
    passes(cluster)
    assert dates(cluster) == [1]
    ((_, runs),) = rule_runs.runs_by_schedule(cluster, "").items()
    decision = rule_runs.decision_of(cluster.schedule, schedule_object.read(cluster.schedule)[0], runs, cluster.clock)
    assert (decision.waiting, decision.why) == (
        (day(2), day(3)), f"the run of {utc(day(1))} failed, and `depends_on_past` is set",
    )  # fmt: skip
    cluster.objects["workflows"].clear()  # that a failed run is gone makes no success of it
    passes(cluster)
    assert dates(cluster) == [1]
    cluster.annotate(**{schedule_object.ACCEPTED: str(day(1))})
    cluster.keep()
    assert dates(cluster) == [1, 2]
    del cluster.objects["workflows"][f"nightly-{day(2)}"]  # nobody has seen how it ended
    passes(cluster)
    assert (dates(cluster), cluster.results[day(2)]) == ([1, 2], "removed")


def test_a_failed_run_that_is_retried_and_succeeds_lets_the_next_one_start(start):
    cluster = start(depends_on_past=True)
    passes(cluster)
    cluster.end(day(1), "Failed")
    passes(cluster)
    assert dates(cluster) == [1]
    cluster.objects["workflows"][f"nightly-{day(1)}"]["status"]["phase"] = "Succeeded"
    cluster.keep()
    assert dates(cluster) == [1, 2]


@pytest.mark.parametrize(("fields", "started"), [({}, [1, 2, 3, 4]), ({"max_active_runs": 2}, [1, 2])])
def test_runs_that_overlap(start, fields, started):
    cluster = start(concurrency="allow", catch_up=True, **fields)
    passes(cluster, 4)
    assert dates(cluster) == started
    cluster.end(day(1), "Failed")
    cluster.keep()
    assert dates(cluster) == sorted({*started, 3})


def test_expired_limit_stops_older_runs_and_gives_up_older_dates(start):
    cluster = start(concurrency="replace", expired_limit=2, catch_up=True)
    passes(cluster, 3)
    phases = {name: item["status"]["phase"] for name, item in cluster.objects["workflows"].items()}
    assert [phases[f"nightly-{day(number)}"] for number in (1, 2, 3)] == ["Failed", "Running", "Running"]
    cluster.clock += 3 * DAY
    cluster.keep()
    assert (dates(cluster), cluster.results[day(4)]) == ([1, 2, 3, 5, 6], "missed")


def test_replace_keeps_the_old_run_if_the_new_one_cannot_be_created(start):
    cluster = start(concurrency="replace")
    passes(cluster)
    cluster.refuse_creation = True
    passes(cluster)
    assert cluster.objects["workflows"][f"nightly-{day(1)}"]["status"]["phase"] == "Running"
    cluster.refuse_creation = False
    cluster.keep()
    assert dates(cluster) == [1, 2]
    assert cluster.objects["workflows"][f"nightly-{day(1)}"]["status"]["phase"] == "Failed"


def test_history_and_a_deadline(start):
    cluster = start(history={"successful": 1, "failed": 0}, starting_deadline="6h", catch_up=True)
    for number in (1, 2, 3):
        passes(cluster)
        cluster.end(day(number), "Failed" if number == 2 else "Succeeded")
    cluster.keep()
    assert [*cluster.objects["workflows"]] == [f"nightly-{day(3)}"]
    assert cluster.results[day(2)] == "failed"
    cluster.clock += 2.5 * DAY
    cluster.keep()
    assert (dates(cluster), cluster.results[day(5)]) == ([1, 2, 3], "missed")


@pytest.mark.parametrize("marked", ["the run", "its job", "a job that names its run"])
def test_no_rule_deletes_or_stops_a_demo(start, marked):
    cluster = start(history={"successful": 0}, concurrency="replace", catch_up=True)
    passes(cluster)
    for run in cluster.objects["workflows"].values():
        mark, uid = {"tfsteps.dev/demo": "true"}, run["metadata"]["uid"]
        if marked == "the run":
            run["metadata"]["labels"] |= mark
        else:
            meta = {"name": f"job-{uid}", "namespace": "ml", "uid": f"job-{uid}", "labels": mark}
            owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "any", "uid": uid}
            named = {"labels": {**mark, "tfsteps.dev/run-id": uid}}
            meta |= {"ownerReferences": [owner]} if marked == "its job" else named
            cluster.objects.setdefault("jobsets", {})[meta["name"]] = {"metadata": meta}
    passes(cluster)  # a newer run does not replace it
    assert [run["spec"].get("shutdown") for run in cluster.objects["workflows"].values()] == [None, None]
    for number in (1, 2):
        cluster.end(day(number), "Succeeded")
    cluster.keep()
    assert [*cluster.objects["workflows"]] == [f"nightly-{day(1)}"]


def test_a_rule_deletes_nothing_if_demos_are_not_known(start, monkeypatch):
    cluster = start(history={"successful": 0}, catch_up=True)
    passes(cluster)
    cluster.end(day(1), "Succeeded")
    listed = cluster.iterate

    def refuses(resource, namespace, **selectors):
        if resource.plural == "jobsets":
            raise ApiError("no", 500)
        return listed(resource, namespace, **selectors)

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "iterate", refuses)
        assert cluster.keep().failures == 1
    assert f"nightly-{day(1)}" in cluster.objects["workflows"]
    assert "demos cannot be listed, so no run is stopped or deleted: no" in cluster.lines
    assert cluster.keep().failures == 0
    assert f"nightly-{day(1)}" not in cluster.objects["workflows"]


def test_a_paused_schedule_starts_nothing_and_a_change_gives_up_what_waits(start):
    cluster = start(catch_up=True)
    cluster.annotate(**{schedule_object.PAUSED: "true"})
    passes(cluster, 3)
    assert (cluster.starts, cluster.results) == ({}, {})
    cluster.annotate(**{schedule_object.PAUSED: None})
    cluster.change({"cron": "0 12 * * *", "catch_up": True})
    cluster.keep()
    assert cluster.results == dict.fromkeys([day(1), day(2), day(3)], "missed")
    passes(cluster)
    assert [*cluster.starts] == [day(3) + DAY // 2]


def test_what_is_not_known_starts_nothing_and_is_said(start, monkeypatch):
    cluster = start()
    cluster.clock += DAY
    monkeypatch.setattr(cluster, "server_time", lambda: None)
    assert cluster.keep().failures == 1
    monkeypatch.setattr(cluster, "server_time", lambda: cluster.clock - DAY)
    assert cluster.keep().failures == 1
    assert "clocks of the API server and of the janitor are 1d apart" in cluster.lines[-1]
    monkeypatch.undo()
    assert cluster.starts == {}


def schedule_data(spec, version="tfsteps.dev/v1"):
    return {"schedule.json": json.dumps({"apiVersion": version, "kind": "Schedule", "spec": spec})}


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ({"schedule.json": "{"}, "is not valid"),
        (schedule_data({}, "tfsteps.dev/v2"), "tfsteps.dev/v2"),
        (schedule_data({"cron": "x"}), "cron: 'x'"),
        ({"workflow.json": "[]"}, "is not valid"),
        ({"workflow.json": '{"metadata": {"labels": [1]}, "spec": {}}'}, "is not understood"),
    ],
)  # fmt: skip
def test_an_invalid_schedule_is_reported_and_holds_up_no_other(start, data, wrong):
    cluster = start()
    bad = schedule_object.config_map(from_plain({"cron": "0 0 * * *"}), TEMPLATE, "bad")
    cluster.store("configmaps", {**bad, "data": {**bad["data"], **data}})
    cluster.clock += DAY
    kept = cluster.keep()
    assert (kept.schedules, kept.started, kept.failures) == (2, 1, 1)
    assert wrong in next(line for line in cluster.lines if "bad" in line)


def test_lost_records_and_another_workflow_of_the_name_start_nothing(start):
    cluster = start()
    passes(cluster)
    cluster.annotate(**{schedule_object.STATE: None})
    passes(cluster)
    assert dates(cluster) == [1]
    assert "is missing" in cluster.lines[-1]
    cluster = start()
    cluster.store("workflows", {"metadata": {"name": f"nightly-{day(1)}"}, "spec": {}})
    passes(cluster)
    assert (cluster.starts, cluster.results) == ({}, {})
    assert "another Workflow is called" in cluster.lines[-1]


def test_a_resubmitted_run_is_no_run_of_a_date(start):
    cluster = start(depends_on_past=True)
    passes(cluster)
    run = cluster.objects["workflows"][f"nightly-{day(1)}"]
    name = f"other-{day(1)}"
    cluster.objects["workflows"][name] = {**run, "metadata": {**run["metadata"], "name": name, "uid": "other"}}
    cluster.end(day(1), "Succeeded")
    passes(cluster)
    assert dates(cluster) == [1, 2]


def test_a_dry_run_changes_nothing(start):
    cluster = start()
    cluster.clock += DAY
    assert rule_runs.keep_schedules(cluster, "", cluster.lines.append, True).started == 1
    assert (cluster.objects["workflows"], cluster.results) == ({}, {})


def test_many_dates_are_decided_in_bounded_records(start):
    cluster = start(cron="* * * * *")
    cluster.clock += 20 * DAY
    cluster.keep()
    state = schedule_object.state_of(cluster.schedule)
    assert (state.decided_to, len(state.records), len(cluster.starts)) == (day(20), 401, 1)
    assert len(cluster.results) == 20 * 24 * 60


def test_dates_of_intervals_count_from_the_start():
    schedule = from_plain({"interval": "90m", "start": "2026-01-02"})
    assert list(itertools.islice(rules.dates_after(schedule, CREATED, day(3)), 2)) == [day(3) + 5400, day(3) + 10800]
    assert next(rules.dates_after(schedule, CREATED, CREATED)) == day(1) + 5400


# --- whatever happens in between


def happen(cluster, event):
    match event:
        case ("wait" | "clock", seconds):
            cluster.clock = max(cluster.clock + seconds, CREATED)
        case ("pass",):
            cluster.keep()
        case ("delete", count):
            for name in sorted(cluster.objects["workflows"], reverse=True)[:count]:
                cluster.remove(name)
        case ("end", index, phase):
            cluster.end(dict(enumerate(sorted(cluster.starts, reverse=True))).get(index, 0), phase)
        case ("pause" | "resume" as action,):
            paused = {schedule_object.PAUSED: "true" if action == "pause" else None}
            accepted = {} if action == "pause" else {schedule_object.ACCEPTED: str(int(cluster.clock))}
            cluster.annotate(**paused, **accepted)
        case ("refuse" | "allow" as action,):
            cluster.refuse_creation = action == "refuse"
        case ("manual",):
            scheduled = {name for name in cluster.objects["workflows"] if name.startswith("nightly-")}
            clear_manual(cluster, "ml", MANUAL)
            assert scheduled <= cluster.objects["workflows"].keys(), "a manual run removed a scheduled one"
            cluster.store("workflows", {"metadata": {"name": f"m{cluster.uids}", "labels": MANUAL}, "spec": {}})
        case ("die", number, after):
            interrupted(cluster, number, die, after=after)
        case ("during", number, events):
            interrupted(cluster, number, lambda: [happen(cluster, other) for other in events])


def die():
    raise Died


def interrupted(cluster, number, happens, *, after=False):
    """Make a pass in which something happens before, or after, the API server has done a request of it."""
    first, hooks = cluster.number, (cluster.before, cluster.after)

    def hook(current):
        if current == first + number:
            cluster.before, cluster.after = hooks
            happens()

    setattr(cluster, "after" if after else "before", hook)
    try:
        cluster.keep()
    except Died:
        pass
    finally:
        cluster.before, cluster.after = hooks


def check(cluster, plain):
    """Let everything end well, then check that each date was sent once, or recorded as missed."""
    for event in [("resume",), ("allow",), ("wait", 2 * DAY), ("pass",), ("pass",)]:
        happen(cluster, event)
    assert max(cluster.starts.values(), default=1) == 1, "a date was sent twice"
    every = rules.dates_after(from_plain(plain), CREATED, 0)
    decided_to = schedule_object.state_of(cluster.schedule).decided_to
    decided = set(itertools.takewhile(lambda date: date <= decided_to, every))
    assert cluster.starts.keys() <= decided, "a run of no date"
    assert decided <= cluster.results.keys(), "a date was lost silently"
    sent = {date for date, result in cluster.results.items() if result != "missed"}
    assert cluster.starts.keys() <= sent, "a run that no record knows"
    lost = {date for date in sent - cluster.starts.keys() if date not in cluster.never_started}
    assert not lost, "a run that is recorded was never started"
    assert not cluster.mistaken, "a run that exists was taken for a removed one"


RULES = [
    {"concurrency": "forbid"},
    {"depends_on_past": True},
    {"concurrency": "allow"},
    {"concurrency": "allow", "max_active_runs": 2},
    {"concurrency": "replace"},
    {"concurrency": "replace", "expired_limit": 3},
    {"history": {"successful": 1, "failed": 0}},
    {"starting_deadline": "1d"},
]
DISTURBANCES = {
    "another janitor": [("pass",)],
    "another janitor, and its runs are deleted": [("pass",), ("delete", 9)],
    "another janitor that dies after its record, and a clock that goes back": [("die", 4, True), ("clock", -3 * DAY)],
    "the same with two runs": [("die", 5, True), ("clock", -3 * DAY)],
    "a user pauses it": [("pause",)],
    "a manual run replaces manual runs": [("manual",), ("pass",), ("manual",)],
    "the runs are deleted": [("delete", 9)],
}  # fmt: skip
DEATHS = {
    "nothing": [],
    "its runs are deleted": [("delete", 9)],
    "the clock goes back": [("clock", -3 * DAY), ("pass",), ("clock", 4 * DAY)],
    "it is paused for a while": [("pause",), ("pass",), ("wait", DAY), ("resume",)],
    "quota": [("refuse",), ("pass",), ("wait", DAY), ("pass",), ("allow",)],
}


@pytest.mark.parametrize("rule", [RULES[0], RULES[2], RULES[5]], ids=str)
def test_each_request_of_a_pass_may_be_the_last_or_come_late(start, rule):
    plain = {"cron": "0 0 * * *", "catch_up": rule != RULES[0], **rule}
    events = [
        *([("die", number, after), *then] for then in DEATHS.values() for number in range(3, 10) for after in (0, 1)),
        *([("during", number, others)] for others in DISTURBANCES.values() for number in range(1, 10)),
    ]
    for disturbed in events:
        cluster = start(**plain)
        for event in [
            ("wait", DAY),
            ("pass",),
            ("end", 0, "Succeeded"),
            ("pass",),
            ("wait", 2 * DAY),
            *disturbed,
            ("pass",),
        ]:
            happen(cluster, event)
        check(cluster, plain)


def test_a_change_after_the_clock_went_back_sends_no_date_again(start):
    cluster = start(catch_up=True, concurrency="allow")
    passes(cluster, 5)
    cluster.clock -= 3 * DAY
    cluster.objects["workflows"].clear()
    cluster.change({"cron": "0 0 * * *", "catch_up": True, "concurrency": "allow", "end": "2027-01-01"})
    passes(cluster, 5)
    assert cluster.starts == {day(number): 1 for number in range(1, 8)}


SIMPLE = [
    st.tuples(st.just("wait"), st.sampled_from([HOUR, 6 * HOUR, DAY, 9 * DAY, 40 * DAY])),
    st.tuples(st.just("clock"), st.sampled_from([-30 * DAY, -DAY, -HOUR, HOUR, 30 * DAY])),
    st.tuples(st.just("delete"), st.integers(1, 3)),
    st.tuples(st.just("end"), st.integers(0, 3), st.sampled_from(["Succeeded", "Failed"])),
    st.tuples(st.sampled_from(["pause", "resume", "refuse", "allow", "manual"])),
    st.tuples(st.just("pass")),
    st.tuples(st.just("die"), st.integers(1, 9), st.booleans()),
]
EVENTS = st.lists(
    st.one_of(
        *SIMPLE, st.tuples(st.just("during"), st.integers(1, 9), st.lists(st.one_of(*SIMPLE), min_size=1, max_size=3))
    ),
    min_size=3,
    max_size=40,
)
SCHEDULES = st.fixed_dictionaries(
    {"cron": st.sampled_from(["0 0 * * *", "0 */6 * * *", "30 2 * * 1", "0 0 1 * *"]), "catch_up": st.booleans()},
    optional={"start": st.sampled_from(["2025-12-20", "2026-02-01"])},
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schedule=SCHEDULES, rule=st.sampled_from(RULES), events=EVENTS)
def test_a_year_of_events_sends_no_date_twice_and_loses_none_silently(monkeypatch, schedule, rule, events):
    cluster = Cluster(schedule | rule)
    use_clock(cluster, monkeypatch)
    for event in events:
        happen(cluster, event)
    check(cluster, schedule | rule)

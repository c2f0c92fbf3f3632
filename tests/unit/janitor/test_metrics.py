"""The metrics: their text, and whether the janitor counts as working."""

import re

import pytest

from tfsteps.janitor import metrics as module
from tfsteps.janitor.metrics import JanitorMetrics
from tfsteps.janitor.rules import Reason
from tfsteps.janitor.sweep import Count
from tfsteps.systems import registry

SAMPLE = re.compile(r'(\w+)(\{(?:\w+="(?:[^"\\\n]|\\[\\"n])*",?)*\})? (\S+)')


@pytest.fixture
def clock(monkeypatch):
    """Return the monotonic clock of the metrics, as a list of its one value."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def samples(metrics):
    """Parse the text by the rules of the format, and return the samples."""
    text, values, kind, helped = metrics.text(), {}, {}, set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in helped
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, what = line.split(" ")
            assert name in helped
            assert (what == "counter") == name.endswith("_total")
            kind[name] = what
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert name == list(kind)[-1], "the samples of a metric follow its TYPE"
            assert name + (labels or "") not in values
            values[name.removeprefix("tfsteps_janitor_") + (labels or "")] = float(value)
    return values


def test_before_the_first_pass_everything_is_zero(clock):
    values = samples(JanitorMetrics(["TFJob", "Pod"], 60))
    assert set(values.values()) == {0}
    assert {name for name in values if "{" not in name} == {
        "passes_total",
        "jobs",
        "errors_total",
        "last_pass_timestamp_seconds",
        "pass_seconds",
        "oldest_orphan_seconds",
    }
    assert {name for name in values if "{" in name} == {
        f'deletions_total{{kind="{kind}",reason="{reason}"}}' for kind in ("TFJob", "Pod") for reason in Reason
    }


def test_passes_add_up(clock):
    metrics = JanitorMetrics(["TFJob"], 60)
    jobs = Count(jobs=3, failures=1)
    jobs.deleted("TFJob", Reason.RETENTION)
    jobs.deleted("TFJob", Reason.RETENTION)
    metrics.finish_pass([jobs, Count(jobs=2, failures=1)], 1.5, 1_800_000_000.25)
    metrics.finish_pass([jobs], 0.5, 1_800_000_060.25)
    values = samples(metrics)
    assert values['deletions_total{kind="TFJob",reason="retention"}'] == 4
    assert values['deletions_total{kind="TFJob",reason="abandoned"}'] == 0
    assert (values["passes_total"], values["errors_total"], values["jobs"]) == (2, 3, 3)
    assert (values["pass_seconds"], values["last_pass_timestamp_seconds"]) == (0.5, 1_800_000_060.25)


def test_label_values_are_escaped(clock):
    count = Count()
    count.deleted('a\\b"c\nd', Reason.DEADLINE)
    metrics = JanitorMetrics([], 60)
    metrics.finish_pass([count], 0, 0)
    assert samples(metrics)[r'deletions_total{kind="a\\b\"c\nd",reason="deadline"}'] == 1


def test_the_oldest_orphan_is_the_job_whose_deletion_has_failed_for_longest(clock):
    metrics = JanitorMetrics([], 60)
    ages = []
    for undeleted in ({"a"}, {"a", "b"}, {"b"}, set(), {"a"}):
        metrics.finish_pass([Count(undeleted=undeleted), Count()], 0, 0)
        clock[0] += 60
        ages.append(samples(metrics)["oldest_orphan_seconds"])
    assert ages == [60, 120, 120, 0, 60]


def test_the_janitor_works_while_passes_end(clock):
    metrics = JanitorMetrics([], 60)
    clock[0] += 600
    assert metrics.stalled() == "", "five periods and five minutes"
    clock[0] += 1
    assert metrics.stalled() == "no pass has ended for 601 s; the limit is 600 s"
    metrics.finish_pass([Count(failures=5)], 0, 0)
    assert metrics.stalled() == "", "the API server may be away; a restart would not help"


def test_every_kind_has_a_valid_label():
    assert all(kind.resource.kind.isalnum() for kind in registry.kinds())

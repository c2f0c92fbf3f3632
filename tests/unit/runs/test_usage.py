"""Samples of usage: merging, summaries, and the reader of a file that a full disk or a crash may have damaged."""

import random

import msgspec
import pytest

from tests.support.finished import attempt_of
from tfsteps.runs.events import State
from tfsteps.runs.usage import Sample, Usage, UsageNote, UsageSummary, merged, records

GIB = 1 << 30


def sample(at, replica="worker-0", window=5.0, **more):
    return Sample(at=at, window=window, replica=replica, **more)


def written(folder, *lines):
    text = b"".join(line if isinstance(line, bytes) else msgspec.json.encode(line) + b"\n" for line in lines)
    (folder / "usage.jsonl").write_bytes(text)
    return Usage.read(folder)


def summary(samples):
    total = UsageSummary()
    for item in samples:
        total.add(item)
    return total


def test_merging_keeps_mean_and_peak():
    random.seed(1)
    samples = [
        sample(1000 + 5 * i, f"worker-{i % 3}", window=random.choice([2.5, 5]), cpu=random.random() * 4, memory=i << 20)
        for i in range(3000)
    ]
    for seconds in (20, 160, 1e9):
        coarse = list(merged(samples, seconds))
        assert len(coarse) < len(samples) / 1.2
        for name in ("worker-0", "worker-1", "worker-2"):
            before, after = (summary(s for s in some if s.replica == name) for some in (samples, coarse))
            assert (after.cpu_peak, after.memory_peak) == (before.cpu_peak, before.memory_peak)
            assert after.cpu_mean == pytest.approx(before.cpu_mean, abs=2e-3)
            assert after.memory_mean == pytest.approx(before.memory_mean, rel=1e-3)
            assert after.seconds == pytest.approx(before.seconds)


def test_samples_of_one_interval_and_one_container_become_one():
    old, new = sample(1001, cpu=1.0, memory=10), sample(1004, window=15.0, cpu=3.0, memory=20)
    (one,) = merged([old, new], 10)
    assert one == sample(1004, window=20.0, cpu=2.5, cpu_peak=3.0, memory=18, memory_peak=20)
    assert list(merged([old, sample(1011)], 10)) == [old, sample(1011)]
    sidecar = sample(1004, container="proxy", cpu=0.1)
    assert list(merged([old, sidecar], 10)) == [old, sidecar]


def test_a_sample_counts_for_the_time_that_it_stands_for():
    total = summary([sample(0, window=15.0, cpu=1.0), sample(300, window=15.0, period=285.0, cpu=2.0)])
    assert (total.seconds, total.cpu_mean) == (300.0, 1.95)
    (one,) = merged([sample(0, window=15.0, cpu=1.0), sample(300, window=15.0, period=285.0, cpu=2.0)], 1000)
    assert (one.window, one.period, one.cpu) == (30.0, 300.0, 1.95)


def test_what_is_not_known_stays_unknown():
    total = summary([sample(0, memory=5), sample(5, memory=7)])
    assert (total.cpu_mean, total.cpu_peak, total.memory_mean, total.memory_peak) == (None, None, 6, 7)


def test_an_attempt_by_replica_and_role(tmp_path):
    usage = written(
        tmp_path,
        sample(5, "worker-0", cpu=1.0, memory=GIB),
        sample(5, "worker-1", cpu=3.0, memory=2 * GIB),
        sample(5, "worker-1", container="istio-proxy", cpu=9.0, memory=9 * GIB),
        sample(5, "ps-0", cpu=0.5, memory=GIB),
    )
    assert [(u.role, u.replica, u.container) for u in usage.replicas] == [
        ("worker", "worker-0", ""),
        ("worker", "worker-1", ""),
        ("worker", "worker-1", "istio-proxy"),
        ("ps", "ps-0", ""),
    ]
    assert usage.roles()["worker"] == UsageSummary(
        seconds=10.0, cpu_mean=2.0, cpu_peak=3.0, memory_mean=1.5 * GIB, memory_peak=2 * GIB
    )
    assert usage.requests == {}


def test_requests_and_limits_of_each_role_are_those_of_the_job():
    job = """{name: j, command: [c], roles: {chief: {}, worker: {resources: {cpu: 2, limits: {cpu: 4}}}},
        resources: {cpu: 1, memory: 2Gi}}"""
    attempt, _ = attempt_of(job, State.SUCCEEDED)
    requests = Usage.read(attempt.folder).requests
    assert (requests["chief"].cpu, requests["chief"].memory_limit) == (1, 2 * GIB)
    assert (requests["worker"].cpu, requests["worker"].cpu_limit) == (2, 4)


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"at":1,"window":5.0,"repl\n',
        b'{"at":1,"window":-5.0,"replica":"worker-0","cpu":1}\n',
        b'{"at":1,"window":5,"replica":"worker-0","cpu":1e400}\n',
        b'{"at":1,"window":5,"replica":"worker-0","memory":1.5}\n',
        b'{"note":7}\n',
        b"\x00\x00\xff\n",
        b"[]\n",
        b"\n",
    ],
)
def test_a_damaged_line_is_skipped(tmp_path, damaged):
    usage = written(tmp_path, sample(5), damaged, sample(10), b'{"at":15,"wind')
    assert [s.at for s in usage.replicas[0].samples] == [5, 10]


def test_the_same_sample_twice_counts_once(tmp_path):
    usage = written(tmp_path, sample(5, cpu=1.0), sample(5, cpu=1.0), sample(10, cpu=2.0))
    assert len(usage.replicas[0].samples) == 2
    assert usage.replicas[0].summary.cpu_mean == 1.5


def test_a_note_says_why_there_are_no_samples(tmp_path):
    usage = written(tmp_path, UsageNote("no metrics"), UsageNote("no metrics"))
    assert (usage.replicas, usage.notes) == ([], ["no metrics"])


def test_an_attempt_without_a_file_has_no_usage(tmp_path):
    assert Usage.read(tmp_path) == Usage()
    assert list(records(tmp_path / "usage.jsonl")) == []

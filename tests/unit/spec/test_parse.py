"""A job written with the short notations of job files."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.spec.jobs import jobs
from tfsteps import spec
from tfsteps.spec import units
from tfsteps.spec.parse import to_plain

JOB = """
name: mnist
command: [python, train.py]
deadlines: {queue: 90m, no_progress: 1.5, total: 3d}
keep_for: 1h
on_evicted: stop
resources: {cpu: 500m, memory: 4Gi, shared_memory: 500M}
roles: {worker: {replicas: 2, resources: {cpu: 2, memory: 1536Mi, gpu: 1}}, evaluator: {}}
"""


def test_amounts_are_in_short_notations():
    plain = to_plain(spec.parse(JOB))
    assert plain["deadlines"]["queue"] == "1h30m"
    assert plain["deadlines"]["no_progress"] == "1.5s"
    assert plain["deadlines"]["total"] == "3d"
    assert (plain["keep_for"], plain["on_evicted"]) == ("1h", "stop")
    worker, shared = plain["roles"]["worker"]["resources"], plain["resources"]
    assert (worker["cpu"], worker["memory"], worker["gpu"]) == (2, "1536Mi", 1)
    assert (shared["cpu"], shared["memory"], shared["shared_memory"]) == ("500m", "4Gi", "500M")


def test_the_job_stays_the_same():
    job = spec.parse(JOB)
    assert spec.from_plain(to_plain(job)) == job


@settings(max_examples=20)
@given(jobs)
def test_every_job_stays_the_same(job):
    assert spec.from_plain(to_plain(job)) == job


@pytest.mark.parametrize("text", ["4Gi", "500M", "1048577", "3Ti", "2k", "1536Mi", "500Ki"])
def test_bytes_are_written_as_most_people_do(text):
    assert units.write_bytes(units.parse_bytes(text)) == text


@given(amount=st.integers(1, 2**50), seconds=st.integers(1, 10**8), millis=st.integers(1, 10**6))
def test_written_amounts_are_exact(amount, seconds, millis):
    assert units.parse_bytes(units.write_bytes(amount)) == amount
    assert units.parse_duration(units.write_duration(seconds)) == seconds
    assert units.parse_cores(str(units.write_cores(millis / 1000))) == millis / 1000

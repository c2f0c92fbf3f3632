"""A plan is reproducible, contains everything that a soak is to show, and its job files are valid."""

import pytest

from tests.soak.plan import TENSORBOARD, WITH_TENSORBOARD, plan
from tfsteps import spec
from tfsteps.systems import registry

SYSTEMS = registry.on_kubernetes()
JOBS = plan(1, 200, SYSTEMS)


def test_a_seed_decides_it_all():
    assert plan(1, 200, SYSTEMS) == JOBS
    assert plan(2, 200, SYSTEMS) != JOBS


def test_it_contains_everything():
    assert {job.system for job in JOBS} == set(SYSTEMS)
    assert {job.system for job in JOBS if job.tensorboard} == set(WITH_TENSORBOARD)
    assert {job.program for job in JOBS} == {"succeeds", "fails", "hangs"}
    assert {job.disturbance for job in JOBS} == {"", "KILL", "KILL and adopt", "TERM", "shut down"}
    assert {job.on_end for job in JOBS} == {"", "keep", "delete", "delete_pods"}
    assert {(job.step, job.ends_workflow) for job in JOBS} >= {
        (True, "deleted"),
        (True, "shut down"),
        (False, "deleted"),
    }
    assert len({job.run for job in JOBS}) == 200
    assert not [job for job in JOBS if job.disturbance == "shut down" and not job.step]


@pytest.mark.parametrize("job", JOBS[:40], ids=lambda job: job.run)
def test_its_job_files_are_valid(job):
    parsed = spec.from_plain(job.job("image:1", "tensorboard:1"), "test", registry.options())
    assert registry.get(job.system, namespace="soak").spec_problems(parsed) == []
    assert (parsed.tensorboard is not None) == job.tensorboard
    assert not parsed.tensorboard or parsed.tensorboard.idle == TENSORBOARD["idle"]

"""The judge finds what it must find, and accuses nobody falsely: records as a soak makes them, without a cluster."""

import msgspec
import pytest

from tests.soak.judge import GRACE_SECONDS, JobRecord, Launch, ObjectRecord, problems, settled_at
from tests.soak.plan import KEPT_SECONDS, TOTAL_SECONDS, PlannedJob

LATER = 1000.0
JOB = PlannedJob(
    run="r",
    system="kubeflow",
    step=False,
    program="succeeds",
    seconds=10,
    workers=1,
    tensorboard=False,
    on_end="",
    keep_for=KEPT_SECONDS,
    disturbance="",
    after=5,
    ends_workflow="deleted",
)


def record(*launches, released=None, how="", **changes):
    plan = msgspec.structs.replace(JOB, **changes)
    return JobRecord(plan=plan, launches=list(launches), released=released, how=how)


def launch(code, *, signal="", signalled=0.0, ended=15.0):
    return Launch(started=0.0, ended=ended, code=code, signal=signal, signalled=signalled)


def item(role="job", *, kind="TFJob", run="r", first=1.0, gone=None, ended=12.0, unfinished=11.0):
    last = LATER if gone is None else gone - 2
    return ObjectRecord(
        kind=kind,
        name=role,
        uid=f"{role}-{first}",
        run=run,
        role=role,
        first=first,
        last=last,
        gone=gone,
        ended=ended,
        unfinished=unfinished,
    )


KILLED = launch(-9, signal="KILL", signalled=5.0)
UNFINISHED = {"ended": None, "unfinished": LATER}

RIGHT = {
    "a job that is kept for a day": (record(launch(0)), [item()]),
    "a job whose time has passed": (record(launch(0), keep_for=60.0), [item(gone=73.0)]),
    "a job with the default retention": (record(launch(10), program="fails", keep_for=None), [item(gone=140.0)]),
    "a job that its launcher deleted": (record(launch(0), on_end="delete"), [item(gone=13.0)]),
    "such a job that was never seen": (record(launch(0), on_end="delete"), []),
    "a job that a killed launcher left to its deadline": (
        record(KILLED, program="hangs"),
        [item(gone=190.0, ended=None, unfinished=188.0)],
    ),
    "a launcher that was killed before it created a job": (record(KILLED), []),
    "an adopted job": (record(KILLED, launch(0)), [item()]),
    "a job that had ended before it was adopted": (
        record(KILLED, launch(0, ended=40.0)),
        [item(ended=12.0, unfinished=11.0), item(first=13.0, ended=30.0, unfinished=28.0)],
    ),
    "a stopped job": (record(launch(12, signal="TERM", signalled=5.0)), [item(gone=7.0, ended=None)]),
    "SIGTERM before the launcher handles it": (record(launch(-15, signal="TERM", signalled=2.0)), []),
    "SIGKILL at the end": (record(launch(0, signal="KILL", signalled=14.9)), [item()]),
    "SIGTERM after the job's end": (record(launch(0, signal="TERM", signalled=14.9)), [item()]),
    "a deadline": (record(launch(11, ended=130.0), program="hangs"), [item(ended=125.0, unfinished=124.0)]),
    "a job that went with its Workflow": (record(launch(0), released=20.0, how="deleted"), [item(gone=22.0)]),
    "a Workflow that was shut down": (
        record(launch(12, ended=9.0), released=5.0, how="shut down"),
        [item(gone=8.0, ended=None)],
    ),
    "pods that went with their job": (record(launch(0), keep_for=20.0), [item(gone=50.0), item("part", gone=60.0)]),
    "a TensorBoard that has ended": (record(launch(0)), [item(), item("tensorboard", ended=LATER - 300)]),
}

WRONG = {
    "a launcher that hangs": (record(launch(None, ended=None)), [item()], "a launcher hung"),
    "a wrong verdict": (record(launch(10)), [item()], "ended with 10, not 0"),
    "a failed program that is reported as success": (record(launch(0), program="fails"), [item()], "with 0, not 10"),
    "a cancellation that nobody asked for": (record(launch(12)), [item()], "ended with 12, not 0"),
    "a platform fault": (record(launch(13)), [item()], "ended with 13"),
    "a launcher that died by itself": (record(launch(-9)), [item()], "ended with -9"),
    "a launcher that was killed, and says that it was cancelled": (
        record(launch(12, signal="KILL", signalled=5.0)),
        [item()],
        "ended with 12, not -9 or 0",
    ),
    "an adopted job with a wrong verdict": (record(KILLED, launch(10)), [item()], "ended with 10, not 0"),
    "two job objects": (record(KILLED, launch(0)), [item(), item(first=8.0)], "had 2 job objects"),
    "a step that starts again what had ended": (
        record(KILLED, launch(0), step=True),
        [item(), item(first=13.0)],
        "had 2 job objects",
    ),
    "no job object at all": (record(launch(0)), [], "there never was a job object"),
    "a kept job that is gone": (record(launch(0)), [item(gone=100.0)], "wrongly removed: TFJob job"),
    "a job that was removed before keep_for": (record(launch(0), keep_for=60.0), [item(gone=40.0)], "s too early"),
    "a job that was removed before the default": (record(launch(0), keep_for=None), [item(gone=100.0)], "too early"),
    "a running job of a killed launcher": (
        record(KILLED, program="hangs"),
        [item(gone=60.0, ended=None, unfinished=58.0)],
        "wrongly removed",
    ),
    "a running job that is deleted because of its on_end": (
        record(launch(0), on_end="delete", seconds=25),
        [item(gone=13.0, ended=None)],
        "wrongly removed",
    ),
    "a job that was removed before SIGTERM": (
        record(launch(12, signal="TERM", signalled=14.0)),
        [item(gone=6.0, ended=None)],
        "wrongly removed",
    ),
    "a kept job of a Workflow that was shut down": (
        record(launch(0), released=20.0, how="shut down"),
        [item(gone=25.0)],
        "wrongly removed",
    ),
    "a job after keep_for": (record(launch(0), keep_for=60.0), [item()], "orphan: TFJob job is left"),
    "a job after the default": (record(launch(0), keep_for=None), [item()], "orphan"),
    "a job that never ends": (record(KILLED), [item(**UNFINISHED)], "orphan"),
    "a job that on_end deletes": (record(KILLED, on_end="delete"), [item()], "orphan"),
    "a job of a deleted Workflow": (record(launch(0), released=20.0, how="deleted"), [item()], "orphan"),
    "a stopped job that is there": (record(launch(12, signal="TERM", signalled=5.0)), [item(**UNFINISHED)], "orphan"),
    "a pod of a job that is gone": (
        record(launch(0), keep_for=20.0),
        [item(gone=50.0), item("part", kind="Pod")],
        "orphan: Pod part",
    ),
    "a part of a job that was never there": (
        record(KILLED),
        [msgspec.structs.replace(item("part"), last=LATER - 200)],
        "orphan",
    ),
    "a TensorBoard that never becomes idle": (
        record(launch(0)),
        [item(), item("tensorboard", **UNFINISHED)],
        "orphan",
    ),
    "a TensorBoard that Kubernetes forgot": (record(launch(0)), [item(), item("tensorboard", ended=100.0)], "orphan"),
    "an object of another run": (record(launch(0)), [item(), item(run="planted")], "the run 'planted' is none"),
}


@pytest.mark.parametrize(("job", "objects"), RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_no_problem(job, objects):
    assert problems([job], objects, LATER) == []


@pytest.mark.parametrize(("job", "objects", "text"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_problem(job, objects, text):
    (problem,) = problems([job], objects, LATER)
    assert text in problem


def test_what_is_due_has_its_time():
    job, objects = record(launch(0), keep_for=60.0), [item()]
    due = 12.0 + 60.0 + GRACE_SECONDS
    assert settled_at([job], objects, 20.0) == due
    assert problems([job], objects, due) == []
    assert len(problems([job], objects, due + 1)) == 1


def test_nothing_is_waited_for_that_is_kept_or_gone():
    assert settled_at([record(launch(0))], [item()], 20.0) == 20.0
    assert settled_at([record(launch(0), keep_for=1.0)], [item(gone=19.0)], 20.0) == 20.0
    assert TOTAL_SECONDS < LATER

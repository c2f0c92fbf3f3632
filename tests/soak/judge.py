"""Judges a soak by its records alone: what was left behind, what was removed too early, which launcher was wrong. Pure.

Times are in seconds by one clock. An object was created up to a poll before it was first seen, and was removed up to
a poll before it was missed: of both bounds the judge takes the one that accuses nobody falsely.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from tests.soak.plan import KEPT_SECONDS, TENSORBOARD, TOTAL_SECONDS, PlannedJob

RETENTION_SECONDS = 120.0
"""The janitor's default retention in a soak."""
PATIENCE_SECONDS = 60.0
"""How long the janitor leaves a job alone after its deadline."""
GRACE_SECONDS = 75.0
"""How late everything may be: a few passes of the janitor under faults, its restart, and Kubernetes' own clean-up."""
EARLY_SECONDS = 4.0
"""How early something may seem to be: a poll, and times without fractions."""
TENSORBOARD_TTL_SECONDS = 300.0

_SUCCEEDED, _FAILED, _DEADLINE, _CANCELLED = 0, 10, 11, 12
_ENDS = {"succeeds": _SUCCEEDED, "fails": _FAILED, "hangs": _DEADLINE}
_KILLED, _TERMINATED = -9, -15
_STARTUP_SECONDS = 5.0
"""In which SIGTERM may come before the launcher handles it."""


class Launch(msgspec.Struct, kw_only=True):
    """One launcher.

    Attributes:
        started: When its process was started.
        ended: When it had ended; None = it never did, and was killed by the soak.
        code: Its exit code, negative for a signal.
        signal: What the plan sent to it: KILL, TERM; empty = nothing, or it had ended.
        signalled: When; 0 = never.
        last_words: The end of what it printed.
    """

    started: float
    ended: float | None = None
    code: int | None = None
    signal: Literal["", "KILL", "TERM"] = ""
    signalled: float = 0.0
    last_words: str = ""


class JobRecord(msgspec.Struct, kw_only=True):
    """What happened to a job of the plan.

    Attributes:
        plan: The job.
        launches: Its launchers, in order.
        released: When its Workflow was ended; None = it has none.
        how: How it was ended.
    """

    plan: PlannedJob
    launches: list[Launch] = []
    released: float | None = None
    how: Literal["", "deleted", "shut down"] = ""


class ObjectRecord(msgspec.Struct, kw_only=True):
    """One object with the labels of tfsteps.

    Attributes:
        kind: Its kind.
        name: Its name.
        uid: Its uid.
        run: The id of its run.
        role: `job` = the job object, `tensorboard` = the Job of one, `part` = everything else.
        first: When it was seen first.
        last: When it was seen last.
        gone: When it was missed; None = it is there.
        unfinished: When it was last seen before its end.
        ended: When it was first seen after its end; None = it has not ended.
        succeeded: It ended so.
    """

    kind: str
    name: str
    uid: str
    run: str
    role: Literal["job", "tensorboard", "part"]
    first: float
    last: float
    gone: float | None = None
    unfinished: float = 0.0
    ended: float | None = None
    succeeded: bool = False

    def __str__(self) -> str:
        """Return it as people read it."""
        return f"{self.kind} {self.name}"


def problems(jobs: Sequence[JobRecord], objects: Sequence[ObjectRecord], now: float) -> list[str]:
    """Return a sentence for each thing that is not as it must be; nothing = the soak has passed."""
    runs = {job.plan.run: job for job in jobs}
    by_run: dict[str, list[ObjectRecord]] = {run: [] for run in runs}
    listed = []
    for item in objects:
        if item.run in runs:
            by_run[item.run].append(item)
        elif item.gone is None:
            listed.append(f"orphan: {item} has the labels of tfsteps, but the run {item.run!r} is none of this soak")
    for run, job in runs.items():
        listed += [f"{run} on {job.plan.system}: {text}" for text in _of_job(job, by_run[run], now)]
    return listed


def settled_at(jobs: Sequence[JobRecord], objects: Sequence[ObjectRecord], now: float) -> float:
    """Return when everything that is to be removed must be gone; `now` = it is."""
    runs = {job.plan.run: job for job in jobs}
    by_run: dict[str, list[ObjectRecord]] = {}
    for item in objects:
        if item.role == "job":
            by_run.setdefault(item.run, []).append(item)
    left = [item for item in objects if item.run in runs and item.gone is None]
    dues = [_due(item, runs[item.run], _last(by_run.get(item.run, []))) for item in left]
    return max((due + GRACE_SECONDS for due in dues if due is not None), default=now)


def _of_job(job: JobRecord, objects: Sequence[ObjectRecord], now: float) -> Iterator[str]:
    for launch in job.launches:
        yield from _of_launch(job, launch)
    own_jobs = sorted((item for item in objects if item.role == "job"), key=lambda item: item.first)
    if len(own_jobs) > 1 and not _retried(own_jobs, job):
        yield f"it had {len(own_jobs)} job objects: {', '.join(map(str, own_jobs))}"
    reported = [launch for launch in job.launches if launch.code in _ENDS.values()]
    if reported and not own_jobs and job.plan.on_end != "delete":
        yield f"a launcher ended with {reported[0].code}, but there never was a job object"
    for item in objects:
        if item.gone is not None:
            yield from _too_early(item, job)
        else:
            due = _due(item, job, _last(own_jobs))
            if due is not None and now > due + GRACE_SECONDS:
                yield f"orphan: {item} is left, {now - due:.0f} s after it was due"


def _retried(own_jobs: Sequence[ObjectRecord], job: JobRecord) -> bool:
    """Tell whether a second job object is right: `tfsteps run --adopt` starts again what had ended before it came."""
    first, second = own_jobs[0], own_jobs[-1]
    adopted = len(job.launches) == 2 and not job.plan.step
    return len(own_jobs) == 2 and adopted and first.ended is not None and first.unfinished <= second.first


def _last(own_jobs: Sequence[ObjectRecord]) -> ObjectRecord | None:
    """Return the job object of a run that is there longest; None = there was none."""
    return max(own_jobs, key=lambda item: float("inf") if item.gone is None else item.gone, default=None)


# --- launchers


def _of_launch(job: JobRecord, launch: Launch) -> Iterator[str]:
    if launch.ended is None:
        yield f"a launcher hung until it was killed; it said: {launch.last_words}"
    elif launch.code not in (allowed := _allowed(job, launch)):
        expected = " or ".join(map(str, sorted(allowed)))
        yield (
            f"a launcher ended with {launch.code}, not {expected}; the program {job.plan.program}; "
            f"disturbance: {job.plan.disturbance or 'none'}; it said: {launch.last_words}"
        )


def _allowed(job: JobRecord, launch: Launch) -> set[int]:
    """Return the exit codes that are right for a launcher."""
    allowed = {_ENDS[job.plan.program]}
    if launch.signal == "KILL":
        allowed.add(_KILLED)  # or it ended at the same moment
    if launch.signal == "TERM":
        allowed.add(_CANCELLED)
        if launch.signalled < launch.started + _STARTUP_SECONDS:
            allowed.add(_TERMINATED)
    if job.released is not None and (launch.ended or 0) > job.released:  # its Workflow was shut down under it
        allowed.add(_CANCELLED)
    return allowed


# --- removed too early


def _too_early(item: ObjectRecord, job: JobRecord) -> Iterator[str]:
    if item.role != "job":
        return  # pods and parts come and go with their job; a TensorBoard ends by itself
    allowed = min(_reasons(item, job), default=None)
    if allowed is None:
        yield f"wrongly removed: {item}, which must be kept"
    elif item.gone is not None and item.gone < allowed - EARLY_SECONDS:
        yield f"wrongly removed: {item}, {allowed - item.gone:.0f} s too early"


def _reasons(item: ObjectRecord, job: JobRecord) -> Iterator[float]:
    """Yield since when a job object may be removed, for each reason that applies to it."""
    plan = job.plan
    end = max(item.unfinished, item.first + plan.seconds) if plan.program != "hangs" else item.unfinished
    yield from (launch.signalled for launch in job.launches if launch.signal == "TERM")
    if job.released is not None and (job.how == "deleted" or item.ended is None or item.ended > job.released):
        yield job.released
    if item.ended is None:
        yield item.first + TOTAL_SECONDS
    if plan.on_end == "delete":
        yield end
    if plan.keep_for is not None:
        yield end + plan.keep_for
    else:
        yield end + RETENTION_SECONDS


# --- left behind


def _due(item: ObjectRecord, job: JobRecord, owner: ObjectRecord | None) -> float | None:
    """Return when an object that is there must be gone at the latest, without grace; None = never."""
    if item.role == "tensorboard":
        life = sum(TENSORBOARD.values())
        return item.ended + TENSORBOARD_TTL_SECONDS if item.ended else item.first + TOTAL_SECONDS + life
    if item.role == "part":
        return item.last if owner is None else owner.gone
    return min((due for due in _dues(item, job)), default=None)


def _dues(item: ObjectRecord, job: JobRecord) -> Iterator[float]:
    """Yield when a job object must be gone, for each reason that applies to it."""
    plan, released = job.plan, job.released
    if job.how == "deleted" and released is not None:
        yield released  # Kubernetes removes what the Workflow owns
    if any(launch.signal == "TERM" and launch.code == _CANCELLED for launch in job.launches):
        yield max(launch.ended or 0 for launch in job.launches)
    abandoned = [] if released is None else [released]
    unneeded = min([*abandoned, item.first + TOTAL_SECONDS + PATIENCE_SECONDS])
    if item.ended is None:
        yield unneeded
        return
    if plan.on_end == "delete":
        yield max(item.ended, unneeded)
    after = max(item.ended, *abandoned) if abandoned else item.ended
    if plan.keep_for is None:
        yield after + RETENTION_SECONDS
    elif plan.keep_for < KEPT_SECONDS:
        yield item.ended + plan.keep_for


def figures(jobs: Sequence[JobRecord], objects: Sequence[ObjectRecord]) -> Mapping[str, int]:
    """Return what a soak consisted of, by the words for it."""
    launches = [launch for job in jobs for launch in job.launches]
    return {
        "jobs": len(jobs),
        "launchers": len(launches),
        "launchers killed with SIGKILL": sum(launch.signal == "KILL" for launch in launches),
        "launchers stopped with SIGTERM": sum(launch.signal == "TERM" for launch in launches),
        "jobs that got another launcher": sum(len(job.launches) > 1 for job in jobs),
        "Workflows shut down under their launcher": sum(job.plan.disturbance == "shut down" for job in jobs),
        "job objects": sum(item.role == "job" for item in objects),
        "TensorBoards": sum(item.role == "tensorboard" for item in objects),
        "TensorBoards that ended by themselves": sum(
            item.role == "tensorboard" and item.ended is not None for item in objects
        ),
        "other objects: pods, Services, Jobs of roles": sum(item.role == "part" for item in objects),
        "objects removed": sum(item.gone is not None for item in objects),
        "objects that were to be kept, and are there": sum(item.gone is None for item in objects),
    }

"""What must hold after each run of a scenario, whatever fault a request has met."""

from tests.unknown.environment import Environment
from tests.unknown.faults import OUTAGE_SECONDS
from tests.unknown.scenarios import Scenario

_REQUESTS, _RATE = 60, 12.0  # of one launcher: to begin with, and a second
_REFUSED = 100  # connections of all launchers in an outage
_NOT_MADE = ("Nothing was created", "Stopped before the job was created", "Stopped before the task was created",
             "was not created", "HAI did not take the task")  # fmt: skip
"""What launchers say of a job that does not exist."""

_STAYS = ("was not stopped", "is not known", "still there", "is kept", "adopts it")
"""What launchers say of a job that is, or may be, still there."""

_REPORTS = ("finalizer", "user")
"""Actors whose failure a person reads."""


def problems(scenario: Scenario, w: Environment, *, transient: bool) -> list[str]:
    """Return each thing that is wrong after a run; `transient`: its fault must have changed nothing."""
    messages = [*_healthy_jobs(w), *_asked_to_stop(w), *_owners(w)]
    for launcher in w.launchers:
        messages += _words(w, launcher)
    if (refused := sum(server.refused for server in w.servers)) > _REFUSED:
        messages.append(f"{refused} connections in an outage of {OUTAGE_SECONDS:.0f} s; {_REFUSED} are enough")
    messages += _codes(scenario, w, transient=transient)
    return messages


def _healthy_jobs(w):
    """Yield each job that was deleted, or stopped, though it had not ended and nobody asked for it."""
    for actor, job in w.jobs.stopped_by():
        if "tfsteps.dev/unfinished" in job["metadata"]["annotations"]:  # its creator takes back what it cannot finish
            continue
        if actor and job["metadata"]["uid"] not in w.jobs.results and w.task_of(job) not in w.asked | w.unneeded:
            yield f"{actor} has deleted the healthy job of {w.task_of(job)}"
    for task in {w.task_of(job) for job in w.jobs.jobs()}:
        jobs = [job for job in w.jobs.jobs() if w.task_of(job) == task and job["metadata"]["uid"] not in w.jobs.results]
        if len(jobs) > 1:
            yield f"{len(jobs)} jobs of {task} run at once"


def _asked_to_stop(w):
    """Yield each job that was asked to stop, is still there, and is not reported."""
    for job in w.jobs.jobs():
        task = w.task_of(job)
        if task not in w.asked or job["metadata"]["uid"] in w.jobs.results:
            continue
        if not any(map(_says_so, w.launchers)):
            ends = ", ".join(f"{launcher.actor} {launcher.code}: {launcher.message[:200]}" for launcher in w.launchers)
            yield f"the job of {task} was to stop and is still there, and nobody says so ({ends})"


def _says_so(launched):
    """Tell whether a launcher ended with the words that a job is, or may be, still there."""
    if launched.actor in _REPORTS:
        return launched.code in (2, 13)
    return launched.code == 13 and any(words in launched.message for words in _STAYS)


def _owners(w):
    """Yield each job that nothing will remove, and that no output mentions."""
    outputs = " ".join(launcher.output for launcher in w.launchers)
    for job in w.jobs.jobs():
        if not w.jobs.owned(job) and "owner" not in outputs:
            yield f"the job of {w.task_of(job)} has no owner"


def _words(w, launched):
    """Yield what a launcher says and does that is not true, or too much."""
    message, code = launched.message, launched.code
    if "Traceback" in launched.output:
        yield f"{launched.actor}: {launched.output[launched.output.index('Traceback') :][-600:]}"
    if w.task(launched) in launched.left and any(words in message for words in _NOT_MADE):
        yield f"{launched.actor} says {message[:300]!r}, but its job exists"
    if code == 12 and w.task(launched) not in w.asked:
        yield f"{launched.actor} ended with 12, but nobody asked it to stop: {message[:200]}"
    results = [w.jobs.results.get(job["metadata"]["uid"]) for job in w.jobs.ever(w.task(launched))]
    if launched.trains:
        if code == 0 and "succeeded" not in results:
            yield f"{launched.actor} ended with 0, but its job has not succeeded: {message[:200]}"
        if code in (10, 11) and "failed" not in results:
            yield f"{launched.actor} ended with {code}, but its job has not failed: {message[:200]}"
    sent = sum(request.actor == launched.actor for request in w.requests)
    if sent > (most := _REQUESTS + _RATE * launched.took):
        yield f"{launched.actor} sent {sent} requests in {launched.took:.0f} s; {most:.0f} are enough"


def _codes(scenario, w, *, transient):
    """Yield each exit code that cannot be. Who stops or sweeps may give up early if it says so."""
    for launched, expected in zip(w.launchers, scenario.codes, strict=False):
        may_fail = expected == 12 or launched.actor in (*_REPORTS, "janitor")
        allowed = {expected}
        allowed |= {13} if may_fail or not transient else set()
        allowed |= set() if transient else {2}
        if scenario.play.__name__ == "_stop" and launched.actor == "first":
            allowed |= {-9}  # the command has failed
        if expected is not None and launched.code not in allowed:
            yield f"{launched.actor} ended with {launched.code}, not {expected}: {launched.message[:300]}"

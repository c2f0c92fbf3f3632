"""Jobs on a cluster for the commands: watched, explained, stopped."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from tfsteps.cli.outputs import verdict
from tfsteps.cli.watch import POLL_SECONDS
from tfsteps.digest import digest
from tfsteps.lifecycle import Observer
from tfsteps.records import Status
from tfsteps.systems.base import ReplicaState, State

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.runs import Job, Runs

_TAIL_LINES = 60  # enough for a traceback
_LOGS_READ = 8  # of failed replicas: who failed first is among the first that are listed as failed


def explained(runs: "Runs", job: "Job") -> Status:
    """Return the status of a job, with a digest if it has failed."""
    status = job.status
    if status.state in (State.FAILED, State.LOST):
        status.digest = digest(status, _tails(runs, job))
    return status


def _tails(runs: "Runs", job: "Job") -> dict[str, list[str]]:
    """Return the last lines of the replicas that failed, as far as their pods are still there."""
    failed = [each for each in job.pods if each.pod.state is ReplicaState.FAILED]
    failed.sort(key=lambda each: each.ended or each.created)
    tails = {}
    for each in failed[:_LOGS_READ]:
        lines = runs.log(job, each, tail=_TAIL_LINES)
        tails[str(each.replica)] = [text.decode(errors="replace") for _, text in lines]
    return tails


def follow_jobs(runs: "Runs", jobs: Sequence["Job"], observers: Sequence[Observer]) -> list["Job"]:
    """Tell `observers` of every change of some jobs until all have ended or are gone; return them as they were last."""
    last = {job.status.uid: job for job in jobs}
    shown: dict[str, bytes] = {}
    for found in runs.follow(jobs[0].status.identity.run):
        there = {job.status.uid: job for job in found}
        last = {uid: there.get(uid) or job.deleted() for uid, job in last.items()}
        for uid, job in last.items():
            if shown.get(uid) != (now := msgspec.json.encode(job.status)):
                shown[uid] = now
                for each in observers:
                    each.changed(job.status)
        if all(job.status.state.terminal for job in last.values()):
            break
    return list(last.values())


def stop_jobs(runs: "Runs", jobs: Sequence["Job"], *, now: bool) -> None:
    """Delete those jobs that have not ended, and wait until their pods are gone."""
    running = [job for job in jobs if not job.status.state.terminal]
    for job in jobs:
        if job not in running:
            print(f"already ended: {verdict(job.status)}")
    for job in running:
        runs.stop(job, now=now)
    for job in running:
        _wait(runs, job)


def _wait(runs: "Runs", job: "Job") -> None:
    told = ""
    while left := runs.left(job):
        text = f"stopping {job.status.identity.task}: waiting for {', '.join(str(each.replica) for each in left)}"
        if text != told:
            print(text, flush=True)
            told = text
        time.sleep(POLL_SECONDS)
    stopped = job.deleted(stopped=True).status
    stopped.ended = time.time()
    print(verdict(stopped))

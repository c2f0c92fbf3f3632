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
    from tfsteps.systems.kubernetes.pods import Pod
    from tfsteps.systems.kubernetes.runs import Job, Runs
    from tfsteps.systems.kubernetes.status import JobPod

_TAIL_LINES = 400  # enough for a traceback of TensorFlow's
_LOGS_READ = 8  # of failed replicas: who failed first is among the first that are listed as failed


def explained(runs: "Runs", job: "Job") -> Status:
    """Return the status of a job, with a digest if it has failed."""
    status = job.status
    if status.state in (State.FAILED, State.LOST):
        tails = _tails(runs, job)
        status.digest = digest(status, lambda source, _: tails.get(source, []))
    return status


def _tails(runs: "Runs", job: "Job") -> dict[str, list[str]]:
    """Return the last lines of the replicas that failed, as far as their pods are still there.

    Of one that was started again, those of the incarnation that failed.
    """
    tails = {}
    for each in sorted(filter(_failure, job.pods), key=_failed_at)[:_LOGS_READ]:
        failed_one = next((own for own in each.pod.containers if own.name == each.pod.failed), None)
        again = each.pod.state is ReplicaState.RUNNING
        blocks = runs.log(job, each, tail=_TAIL_LINES, previous=again, current=not again, container=failed_one)
        source = f"{each.replica}/{each.pod.failed}" if each.pod.failed else str(each.replica)
        tails[source] = [text.decode(errors="replace") for block in blocks for text in block.texts]
    return tails


def _failure(item: "JobPod") -> "Pod | None":
    """Return a pod as it was when its replica failed last; None = it has not failed."""
    seen = item.pod if item.pod.state is ReplicaState.FAILED else item.pod.earlier
    return seen if seen and seen.state is ReplicaState.FAILED else None


def _failed_at(item: "JobPod") -> float:
    failure = _failure(item)
    return (failure and failure.finished) or item.created


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
    for job in running:  # before anything is printed: standard output may be closed
        runs.stop(job, now=now)
    for job in jobs:
        if job not in running:
            print(f"already ended: {verdict(job.status)}")
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

"""Jobs on a cluster for the commands: watched, explained, stopped."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from tfsteps.cli.watch import POLL_SECONDS
from tfsteps.console.outputs import verdict
from tfsteps.launcher.failure import failure_summary
from tfsteps.launcher.lifecycle import Observer
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.status import Status

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.follow.pods import Pod
    from tfsteps.systems.kubernetes.query.runs import Job, Runs
    from tfsteps.systems.kubernetes.query.status import JobPod

_TAIL_LINES = 400  # enough for a traceback of TensorFlow's
_LOGS_READ = 8  # of failed replicas: who failed first is among the first that are listed as failed


def explained(runs: "Runs", job: "Job") -> Status:
    """Return the status of a job, with a failure summary if it has failed."""
    status = job.status
    if status.state in (State.FAILED, State.LOST):
        tails = _tails(runs, job)
        status.failure = failure_summary(status, lambda source, _: tails.get(source, []))
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


class ClusterBackend:
    """Jobs on a cluster, for the commands."""

    def __init__(self, runs: "Runs") -> None:
        """Work on what has been launched on one cluster."""
        self.runs = runs

    @property
    def where(self) -> str:
        """For messages."""
        return self.runs.where

    def jobs(self, run: str = "") -> "list[Job]":
        """Return the jobs of a run, or of all of them if it is empty, the oldest first."""
        return self.runs.jobs(run)

    def explained(self, job: "Job") -> Status:
        """Return the status of a job, with why it failed if it did."""
        return explained(self.runs, job)

    def follow(self, jobs: Sequence["Job"], observers: Sequence[Observer]) -> list[Status]:
        """Tell `observers` of every change until all jobs have ended or are gone; return their last statuses."""
        last = {job.status.uid: job for job in jobs}
        shown: dict[str, bytes] = {}
        for found in self.runs.follow(jobs[0].status.identity.run):
            there = {job.status.uid: job for job in found}
            last = {uid: there.get(uid) or job.deleted() for uid, job in last.items()}
            for uid, job in last.items():
                if shown.get(uid) != (now := msgspec.json.encode(job.status)):
                    shown[uid] = now
                    for observer in observers:
                        observer.changed(job.status)
            if all(job.status.state.terminal for job in last.values()):
                break
        return [self.explained(job) for job in last.values()]

    def stop(self, jobs: Sequence["Job"], *, now: bool) -> None:
        """Delete those jobs that have not ended, and wait until their pods are gone."""
        running = [job for job in jobs if not job.status.state.terminal]
        for job in running:
            self.runs.stop(job, now=now)
        for job in jobs:
            if job not in running:
                print(f"already ended: {verdict(job.status)}")
        for job in running:
            _wait(self.runs, job)

    def print_log(
        self,
        jobs: Sequence["Job"],
        wanted: Callable[[str], bool],
        *,
        timestamps: bool,
        tail: int | None,
        follow: Callable[[Sequence["Job"]], Sequence["Job"]] | None,
    ) -> None:
        """Print what the pods of some jobs have printed."""
        from tfsteps.cli.backends.kubernetes_log import ClusterLog  # noqa: PLC0415

        log = ClusterLog(self.runs, jobs, wanted, timestamps=timestamps)
        log.print(tail)
        if follow:
            log.follow(follow)


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

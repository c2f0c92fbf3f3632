"""The janitor's pass: jobs are stopped whose deadline has passed."""

import time
from collections.abc import Callable

from tfsteps.janitor.rules import Reason, overdue
from tfsteps.janitor.sweep import Count
from tfsteps.kube.client import Api
from toybox import platform


def sweep_of(api: Api, namespace: str, say: Callable[[str], object], *, dry_run: bool) -> Callable[[], Count] | None:
    """Return what makes a pass; None = there is no toybox."""
    if (box := platform.home()) is None:
        return None

    def run() -> Count:
        count = Count(what="jobs in the toybox", act="stops", served=1)
        for job in platform.jobs(box):
            count.jobs += 1
            if job.status.state.terminal or not overdue(job.request.deadline, job.status.created, time.time()):
                continue
            count.due += 1
            if not dry_run:
                platform.stop(job.folder)
                count.deleted("ToyboxJob", Reason.DEADLINE)
            say(f"job {job.status.job} in the toybox {'would be ' * dry_run}stopped")
        return count

    return run

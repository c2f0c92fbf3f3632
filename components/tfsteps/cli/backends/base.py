"""Where jobs outlive the process that launched them, a cluster or HAI Platform: one interface for the commands."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from tfsteps.cli.backends.find import choose_attempts, match_run
from tfsteps.cli.backends.place import On, Place, cluster
from tfsteps.cli.errors import CommandError
from tfsteps.launcher.lifecycle import Observer
from tfsteps.runs.status import Status


class RemoteJob(Protocol):
    """A job there, as it was when it was looked at."""

    @property
    def status(self) -> Status:
        """Its status, without why it failed."""

    @property
    def workflow(self) -> str:
        """The name of the Workflow that it belongs to; empty = it belongs to none."""


class Backend(Protocol):
    """What the commands ask of such a place. Jobs that are passed in are those that `jobs` returned."""

    @property
    def where(self) -> str:
        """For messages: `in namespace ml of minikube`, `on HAI at http://hai.example`."""

    def jobs(self, run: str = "") -> Sequence[Any]:
        """Return the jobs of a run, or of all of them if it is empty, the oldest first."""

    def explained(self, job: Any) -> Status:
        """Return the status of a job, with why it failed if it did."""

    def follow(self, jobs: Sequence[Any], observers: Sequence[Observer]) -> list[Status]:
        """Tell `observers` of every change of some jobs until all have ended; return their last statuses, explained."""

    def stop(self, jobs: Sequence[Any], *, now: bool) -> None:
        """Stop those jobs that have not ended, and wait until their replicas are gone. `now` = without a grace period.

        Nothing is printed before all have been told: standard output may be closed.
        """

    def print_log(
        self,
        jobs: Sequence[Any],
        wanted: Callable[[str], bool],
        *,
        timestamps: bool,
        tail: int | None,
        follow: Callable[[Sequence[Any]], Sequence[Any]] | None,
    ) -> None:
        """Print what the replicas of some jobs have printed.

        Args:
            jobs: Of one run.
            wanted: Tells whether a source's lines are wanted: `worker-1`, or its container `worker-1/init-data`.
            timestamps: Begin each line with its time.
            tail: The last lines alone, as many as this; None = all.
            follow: Returns those of all jobs of the run that are meant; lines are printed until these have ended.
                None = only what is there.
        """


@contextlib.contextmanager
def backend(place: Place) -> Iterator[Backend]:
    """Yield the backend of a place other than this machine; what it refuses ends the command."""
    if place.on is On.HAI:
        from tfsteps.cli.backends.hai import hai  # noqa: PLC0415  local runs need no HTTP

        with hai() as there:
            yield there
    else:
        from tfsteps.cli.backends.kubernetes import ClusterBackend  # noqa: PLC0415

        with cluster(place) as runs:
            yield ClusterBackend(runs)


def find_jobs(
    there: Backend, place: Place, run: str, task: str | None = None, attempt: int | None = None
) -> Sequence[Any]:
    """Return the jobs of a run: the attempt `attempt` of each task, None = the newest; or of one task.

    Raises:
        CommandError: There is no such run, task or attempt; names the nearest.
        ApiError: The backend does not answer.
    """
    jobs = jobs_of(there, place, run)
    return choose_attempts(jobs[0].status.identity.run, jobs, lambda job: job.status.identity, task, attempt)


def jobs_of(there: Backend, place: Place, run: str) -> Sequence[Any]:
    """Return all jobs of the run called `run`: its id, the beginning of one, or its Workflow's name.

    Raises:
        CommandError: There is no such run; names the nearest.
        ApiError: The backend does not answer.
    """
    every = there.jobs()
    known = list(dict.fromkeys(job.status.identity.run for job in every))
    named: dict[str, list[str]] = {}
    for job in every:
        ids = named.setdefault(job.workflow, [])
        ids += [id_ for id_ in [job.status.identity.run] if id_ not in ids]
    named.pop("", None)
    ids = named.get(run, []) if run not in known else []
    if len(ids) > 1:  # Workflows of one name in several namespaces, or steps with run ids of their own
        raise CommandError(f"Workflow {run!r} has several runs: {', '.join(ids)}; write the id of one")
    name = ids[0] if ids else match_run(run, known, there.where, place.options, named)
    return [job for job in every if job.status.identity.run == name]


def meant(jobs: Sequence[Any], task: str | None, attempt: int | None) -> Sequence[Any]:
    """Return those of a run's jobs that were asked for, as `find_jobs` does; none is no error."""
    of_task = [job for job in jobs if task in (None, job.status.identity.task)]
    if attempt is not None:
        return [job for job in of_task if job.status.identity.attempt == attempt]
    return [*{job.status.identity.task: job for job in of_task}.values()]

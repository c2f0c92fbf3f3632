"""What the commands and the Python functions ask of a backend alike."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tfsteps.backends.base import LogOptions, RunBackend
from tfsteps.backends.find import FoundRun, Job, ReplicaFilter, Selection
from tfsteps.console.errors import CommandError
from tfsteps.console.outputs import links
from tfsteps.report.comparison import Compared
from tfsteps.runs.graph import Node, graph
from tfsteps.runs.status import ABANDONED, Status

_FEWEST = 2


def run_graph(
    backend: RunBackend[Any], target: FoundRun[Any], selection: Selection, statuses: Sequence[Status], *, again: bool
) -> tuple[Node, Sequence[str]]:
    """Return the graph of the run, or of the selected task or attempt, and what could not be read of it.

    Args:
        backend: Where the run is.
        target: The run.
        selection: What of it is shown.
        statuses: Of the selected attempts, explained.
        again: Whether the jobs are read again, because time has passed.
    """
    jobs = [job for job in (backend.jobs(target.id) if again else target.jobs) if selection.includes(job)]
    around = backend.surroundings(target.id, jobs)
    known = {job.status.identity: job.status for job in jobs} | {status.identity: status for status in statuses}
    paths = {identity: links(status) for identity, status in known.items()}
    return graph(target.id, known.values(), around, paths), around.notes


def compared_runs(backend: RunBackend[Any], runs: Sequence[str], task: str | None) -> list[Compared]:
    """Return the newest attempts of runs, to be compared.

    Args:
        backend: Where the runs are.
        runs: What the user calls them.
        task: The task to compare; None = the newest that all runs have, or if there is none, the newest of each run.

    Raises:
        CommandError: They are fewer than two, or one is unknown or named twice.
    """
    if len(runs) < _FEWEST:
        got = f", got {runs[0]!r}" if runs else ""
        raise CommandError(f"a comparison needs two runs or more{got}; add another, or use `tfsteps show`")
    return [_compared(backend, job, others) for job, others in _chosen(backend, runs, task)]


def _chosen(backend: RunBackend[Any], texts: Sequence[str], task: str | None) -> list[tuple[Job, list[str]]]:
    """Return for each run its newest attempt at one task, and its other tasks.

    Without `task`, it is the newest task that all runs have; if there is none, the newest of each run.
    """
    names: dict[str, str] = {}
    newest: list[dict[str, Job]] = []
    for text in texts:
        run = backend.find(text)
        if run.id in names:
            raise CommandError(f"{names[run.id]!r} and {text!r} are both run {run.id}; write different runs")
        names[run.id] = text
        newest.append({job.status.identity.task: job for job in Selection(text, task).certain(run)})
    shared = [name for name in newest[0] if all(name in jobs for jobs in newest)]
    common = max(shared, key=lambda name: max(_created(jobs[name]) for jobs in newest), default=None)
    chosen = [max(jobs.values(), key=_created) if common is None else jobs[common] for jobs in newest]
    return [
        (job, [name for name in jobs if name != job.status.identity.task])
        for job, jobs in zip(chosen, newest, strict=True)
    ]


def _created(job: Job) -> float:
    return job.status.created


def _compared(backend: RunBackend[Any], job: Job, other_tasks: Sequence[str]) -> Compared:
    """Return what is known of a job: where it is, and by its record."""
    record = backend.record(job)
    status = job.status
    if record and record.status.state.terminal and record.status.reason != ABANDONED:
        status = record.status
    notes = [f"Its other tasks are not compared: {', '.join(other_tasks)}; use --task."] if other_tasks else []
    return Compared.of(status, record.attempt if record else None, notes, b"" if record else backend.recorded(job))


def pass_log(
    backend: RunBackend[Any],
    selection: Selection,
    names: Sequence[str],
    options: LogOptions,
    since: Callable[[float], float] | None,
) -> tuple[str, int]:
    """Print the log lines of a run, or pass them on as the options say.

    Args:
        backend: Where the run is.
        selection: The run, and which of its tasks and attempts.
        names: Only these roles, replicas and containers; empty = all.
        options: Which lines otherwise; `wanted` and `since` are set here.
        since: Returns the time of the first line for the time of the server, in seconds; None = whenever.

    Returns:
        The id of the run, and the number of lines.

    Raises:
        CommandError: The run, a task, the attempt or a replica is unknown.
    """
    chosen = ReplicaFilter(names)
    target = backend.find(selection.run)
    selection = msgspec.structs.replace(selection, run=target.id)
    jobs, _ = selection.parts(target)
    known = [replica.name for job in jobs for replica in job.status.replicas]
    named = any("/" in name for name in names)
    chosen.check(target.id, known, [source for job in jobs if named for source in backend.containers(job)])
    start = since(backend.now()) if since else None  # the server's clock is known only after its first answer
    options = msgspec.structs.replace(options, accepts=chosen.matches, since=start)
    return target.id, backend.print_log(jobs, selection, options)

"""`tfsteps report`: the reports of a run as HTML files, written again, and opened in a browser."""

import pathlib
from typing import Annotated

import typer

from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.find import Selection
from tfsteps.backends.local.backend import LocalBackend
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.output_files import open_page
from tfsteps.cli.place_options import Context, From, Namespace, OnOption
from tfsteps.cli.run_options import AttemptNumber, RunId, Task
from tfsteps.console.errors import CommandError
from tfsteps.os_errors import next_step
from tfsteps.runs import store
from tfsteps.runs.location import Location


def report(
    run: RunId,
    *,
    task: Task = None,
    attempt: AttemptNumber = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the first one in a browser.")] = False,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    from_: From = "",
) -> None:
    """Write the report of a run again.

    Prints the path of each report. A run with several attempts, or a pipeline of this machine, has a report of its own,
    which links those of its attempts; it comes first. Of a run that was launched elsewhere, the stored reports are
    copied to this machine.
    """
    selection = Selection(run, task, attempt)
    location = located(selection, on, context, namespace, records=from_)
    paths = (
        _write(selection)
        if location.on != Location.KUBERNETES and not location.records
        else _copied(selection, location)
    )
    for path in paths:
        print(path)
    if open_browser:
        open_page(paths[0])


def _copied(selection: Selection, location: BackendLocation) -> list[pathlib.Path]:
    """Return the reports that launchers have recorded of the selected attempts. CommandError if there are none."""
    with open_backend(location, gone=True) as backend:
        run = backend.find(selection.run)
        records = [backend.record(job) for job in selection.of(run)]
    paths = [record.attempt.report for record in records if record and record.attempt.report.exists()]
    if not paths:
        raise CommandError(f"run {run.id}: no report of it is recorded on this machine, or stored elsewhere")
    return paths


def _write(selection: Selection) -> list[pathlib.Path]:
    """Write the selected reports, and those of other attempts that the report of the run has to link."""
    from tfsteps.report import has_report, write, write_run  # noqa: PLC0415  this command alone needs it

    target = LocalBackend().find(selection.run)
    whole = selection.task is None and selection.attempt is None and has_report(target.id)
    path = store.run_report(target.id)
    try:
        chosen = [] if whole and not target.jobs else [job.attempt for job in selection.of(target)]
        if whole:
            folders = {attempt.folder for attempt in chosen}
            others = [job.attempt for job in target.jobs if job.attempt.folder not in folders]
            chosen += [attempt for attempt in others if not attempt.report.exists()]
        paths = []
        for attempt in chosen:
            path = attempt.report
            paths.append(write(attempt))
        path = store.run_report(target.id)
        return [write_run(target.id), *paths] if whole else paths
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error}; {next_step(error)}") from error

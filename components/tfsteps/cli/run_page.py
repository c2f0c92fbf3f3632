"""Writes the page of the runs that `tfsteps runs` lists."""

import os
import pathlib
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfsteps.api.run_list import Entry
from tfsteps.backends.base import RunBackend
from tfsteps.cli.pages import write_page
from tfsteps.report import runs_page
from tfsteps.report.runs_page import ListedRun
from tfsteps.runs import store
from tfsteps.runs.inputs import flatten, read_inputs

REPORTS = 200
"""So many reports are copied to this machine, if those of the runs are stored elsewhere."""


def write(
    file: pathlib.Path, backend: RunBackend[Any], entries: Sequence[Entry], metrics: Sequence[str], now: float
) -> None:
    """Write a page of the entries, in their order. CommandError if that fails.

    Args:
        file: The page; links to reports are relative to its folder.
        backend: Where the entries are from.
        entries: What is listed; of more than `runs_page.MOST` the first.
        metrics: Names of the metrics that have a column; empty = those that most runs have.
        now: The current time, in seconds since the epoch.
    """
    jobs = [entry.job for entry in entries[: runs_page.MOST] if entry.job]
    reports = dict(zip(map(id, jobs), backend.reports(jobs, REPORTS), strict=True))
    folder = file.absolute().parent
    listed = [
        ListedRun(
            status=entry.status,
            is_job=entry.is_job,
            seconds=entry.seconds(now),
            workflow=entry.workflow,
            report=_address(reports.get(id(entry.job)) if entry.job else _of_pipeline(entry), folder),
            options=dict(_options(backend.recorded(entry.job))) if entry.job else {},
        )
        for entry in entries
    ]
    notes = []
    if any(not run.report and run.status.state.terminal for run in listed):
        notes.append("A run without a link has no report on this machine; `tfsteps report RUN` writes or copies it.")
    write_page(file, runs_page.page(listed, metrics, now, backend.where.removeprefix("in "), notes))


def _of_pipeline(entry: Entry) -> pathlib.Path | None:
    report = store.run_report(entry.status.identity.run)
    return report if report.exists() else None


def _address(report: pathlib.Path | None, folder: pathlib.Path) -> str:
    return urllib.parse.quote(os.path.relpath(report.absolute(), folder)) if report else ""


def _options(recorded: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the options of a job's command lines by name: `args --lr`."""
    job: Mapping[str, Any] = read_inputs(recorded) or {}
    return ((path, value) for path, value in flatten(job) if " -" in path)

"""What the shell completes: runs with state and age, their names, tasks and replicas, from records of this machine.

A completion must be quick and must never print an error: few records are read, and what cannot be read is left out.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import ParamSpec

import msgspec
import typer

from tfsteps import typed_json
from tfsteps.console.text import duration
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs import store
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.store import LATEST, AttemptFolder
from tfsteps.spec import RoleName

_READ = 100  # runs whose records are read: the newest; of older ones only the ids are known
Offer = tuple[str, str]
"""A text that the shell may complete, and its explanation; bash shows no explanations."""

_P = ParamSpec("_P")


class _CompletedReplica(msgspec.Struct):
    """The fields of a replica's status that are shown."""

    role: RoleName
    index: int
    state: ReplicaState = ReplicaState.PENDING


class StatusSummary(msgspec.Struct):
    """The fields of a status that are shown; the others are skipped, which is quicker."""

    identity: Identity
    job: str
    state: State
    created: float
    replicas: list[_CompletedReplica] = []

    @property
    def names(self) -> dict[str, str]:
        """What its run can be called beside its id, and what that is the name of."""
        stem, pipeline = Identity.stem(self.job), self.identity.pipeline
        names = {pipeline: "pipeline", stem: "job", self.identity.task: "task"}
        return {name: what for name, what in names.items() if name}


def suppress_errors(complete: Callable[_P, Iterator[Offer]]) -> Callable[_P, list[Offer]]:
    """Return a completion that offers nothing instead of raising an error."""

    @functools.wraps(complete)
    def safe(*args: _P.args, **kwargs: _P.kwargs) -> list[Offer]:
        offers: list[Offer] = []
        with contextlib.suppress(Exception):  # a traceback would garble the command line that is being typed
            offers.extend(complete(*args, **kwargs))
        return offers

    return safe


@suppress_errors
def complete_run(incomplete: str) -> Iterator[Offer]:
    """Yield what begins with `incomplete`: ids of runs, the newest first, `latest`, and names of the newest runs."""
    runs = [*reversed(store.runs())]
    offers: dict[str, str] = {}
    names: dict[str, str] = {LATEST: "the newest run"}
    for run in runs[:_READ]:
        offers[run], own_names = _described(run)
        for name, what in own_names.items():
            names.setdefault(name, f"{what}; newest run {run}")
    offers |= dict.fromkeys(runs[_READ:], "")
    for text, why in {**offers, **names, **offers}.items():
        if text.startswith(incomplete) and text.isprintable():
            yield text, why


@suppress_errors
def complete_replica(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """Yield the roles and replicas of the run that was typed before; those that were typed too are left out."""
    typed = ctx.params.get("replicas") or []
    glances = _status_summaries(_run(str(ctx.params.get("run") or "")))
    replicas = [replica for summary in glances for replica in summary.replicas]
    offers = {f"{replica.role}-{replica.index}": replica.state.value for replica in replicas}
    for role in dict.fromkeys(replica.role for replica in replicas) if ctx.info_name == "logs" else ():
        offers[role] = f"{sum(replica.role == role for replica in replicas)} replicas"
    yield from ((name, why) for name, why in offers.items() if name.startswith(incomplete) and name not in typed)


@suppress_errors
def complete_task(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """Yield the tasks of the run that was typed before, with their states."""
    for summary in _status_summaries(_run(str(ctx.params.get("run") or ""))):
        if summary.identity.task.startswith(incomplete):
            yield summary.identity.task, summary.state.value


def _run(text: str) -> str:
    """Return the id of the run that is called `text`, the newest that matches; empty = none."""
    if text and text != LATEST and store.attempts(text):
        return text
    runs = [*reversed(store.runs())]
    if text == LATEST:
        return runs[0] if runs else ""
    for run in runs[:_READ]:
        for summary in _status_summaries(run):
            if text in (summary.identity.task, summary.identity.pipeline, summary.job, Identity.stem(summary.job)):
                return run
    return next((run for run in runs if text and run.startswith(text)), "")


def _status_summaries(run: str) -> list[StatusSummary]:
    """Return the newest attempt of each task of a run, as far as they can be read."""
    newest = {attempt.folder.parent: attempt for attempt in (store.attempts(run) if run else [])}
    return [summary for attempt in newest.values() if (summary := _status_summary(attempt))]


def _status_summary(attempt: AttemptFolder) -> StatusSummary | None:
    try:
        summary = typed_json.decode((attempt.folder / "status.json").read_bytes(), StatusSummary)
    except (OSError, *NOT_READABLE):
        return None
    if not summary.state.terminal and not (alive := attempt.alive()).yes:
        summary.state = State.LOST if alive.no else State.UNKNOWN
    return summary


def _described(run: str) -> tuple[str, dict[str, str]]:
    """Return `failed, 2h ago` for a run, and what it can be called beside its id: `{"mnist": "task"}`.

    The state is that of the first task that did not succeed, else of all; of a pipeline without jobs, its own.
    """
    if glances := _status_summaries(run):
        worst = next((summary.state for summary in glances if summary.state is not State.SUCCEEDED), State.SUCCEEDED)
        names = {name: what for summary in glances for name, what in summary.names.items()}
        return f"{worst}, {_age(min(summary.created for summary in glances))}", names
    if record := PipelineRecord.read(run):
        return f"{record.state}, {_age(record.created)}", {record.pipeline: "pipeline"}
    return "", {}


def _age(created: float) -> str:
    return f"{duration(time.time() - created)} ago"

"""`tfsteps tune`: recommends CPU and memory from what earlier runs used, and writes them into the job file."""

import difflib
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
import typer

from tfsteps import typed_json
from tfsteps.api.job_input import read_file
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.base import RunBackend
from tfsteps.backends.find import Job
from tfsteps.backends.open import open_backend
from tfsteps.backends.records import record_of
from tfsteps.cli.output_files import write_output
from tfsteps.cli.place_options import Context, From, ListOn, Namespace
from tfsteps.cli.run_options import OutputOption
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.outputs import OutputFormat, print_json, print_table
from tfsteps.console.text import clean, iso, local_time
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.identity import Identity, label_value
from tfsteps.runs.location import Location
from tfsteps.runs.status import CLOCK_SECONDS, Status
from tfsteps.settings import find
from tfsteps.settings.apply import apply
from tfsteps.settings.types import Layer
from tfsteps.spec import SpecError, TrainingJob
from tfsteps.systems import registry
from tfsteps.text.streams import takes_any
from tfsteps.tuning import recommendation
from tfsteps.tuning.job_file import EditError, tuned_text
from tfsteps.tuning.recommendation import (
    COMPARED,
    DAYS,
    Advice,
    RecordedAttempt,
    Rule,
    Standing,
    TaskTuning,
    good_runs,
    range_of,
    rounded_use,
    written,
)
from tfsteps.whole_file import write_whole

_DAY_SECONDS = 86400.0
_BAR = 40  # characters
_DRAWN = 20  # runs


def tune(
    pipeline: Annotated[
        str | None,
        typer.Argument(
            metavar="PIPELINE",
            help="Name of a pipeline; outside of pipelines that of a job.",
            show_default="the name in the job file",
        ),
    ] = None,
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="One of its tasks.", show_default="all")] = None,
    *,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", "-f", metavar="JOB", help="The job file to tune.", show_default="the job of the newest run"
        ),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print the difference of the job file, and no table.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Write the job file; comments and layout stay.")] = False,
    headroom: Annotated[
        float | None,
        typer.Option(min=0, max=10, help="Added to the largest use, as a share of it.", show_default="0.4"),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Good runs that are needed.", show_default="10")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD",
            help=f"Also count runs with another value of this field: {', '.join(COMPARED)}. Repeatable.",
        ),
    ] = None,
    html: Annotated[
        pathlib.Path | None, typer.Option(metavar="FILE", help="Also write a page with the pictures.")
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
    on: ListOn = Location.LOCAL.value,
    context: Context = "",
    namespace: Namespace = "",
    from_: From = "",
) -> None:
    """Recommend CPU and memory for the replicas of a job, from what they used in earlier runs.

    A recommendation needs ten good runs of the last 30 days: they succeeded, their use is known, and their program is
    that of the job. It is the largest use and 40 % more, for each role, and never below a limit at which a replica ran
    out of memory. Pictures show the use of each run beside the request.

    Nothing is changed without --write. The variable NO_RESOURCE_CHECK of a job switches recommendations off.
    """
    if (diff or write) and (file is None or file == "-"):
        raise CommandError(f"{'--diff' if diff else '--write'} needs the job file; add -f job.yaml")
    if wrong := [field for field in ignore or () if field not in COMPARED]:
        raise CommandError(f"--ignore {wrong[0]!r} is not a compared field; allowed: {', '.join(COMPARED)}")
    job = read_file(file).job if file is not None else None
    if pipeline is None and job is None:
        raise CommandError("which pipeline is not known; write its name, or the job file: -f job.yaml")
    name = pipeline if pipeline is not None else job.name if job else ""
    location = BackendLocation(on, context, namespace, records=from_)
    layers = _layers(location)
    rule, launched = Rule.of(layers, headroom, runs), _with_settings(job, layers)
    with open_backend(location, gone=True) as backend:
        tasks = _attempts(backend, name, task)
        if job and len(tasks) > 1:
            raise CommandError(f"{name} has several tasks: {', '.join(tasks)}; write that of {file}: TASK")
        tunings = [
            recommendation.tune(
                job or _newest_job(task_attempts),
                task_attempts,
                rule,
                pipeline=name,
                task=of,
                ignored=ignore or (),
                launched=launched,
            )
            if job or any(attempt.job for attempt in task_attempts)
            else TaskTuning(pipeline=name, task=of, rule=rule, off="the job of no run is recorded")
            for of, task_attempts in tasks.items()
        ]
    if html:
        from tfsteps.report import tuning_page  # noqa: PLC0415  only pages need it

        write_output(html, tuning_page.page(name, tunings))
    if file is not None and (diff or write):
        _edit(file, tunings[0], diff=diff, write=write)
        return
    if output is OutputFormat.JSON:
        print_json([_plain(tuning) for tuning in tunings])
        return
    for tuning in tunings:
        _print(tuning)
    if html:
        print(f"page {html}")


def _layers(location: BackendLocation) -> list[tuple[str, Layer]]:
    """Return the platform settings that count where the runs are."""
    lookup = find.of_file(registry.options())
    namespace = location.namespace
    if location.on == Location.KUBERNETES and (lookup is None or not namespace):
        from tfsteps.backends.kubernetes.backend import cluster  # noqa: PLC0415  others need no cluster

        with cluster(location) as runs:
            namespace = runs.namespace  # of it are the project's settings, in a file, too
            lookup = lookup or find.of_namespace(runs.api, namespace, registry.options())
    if lookup and lookup.warning:
        warn(lookup.warning)
    return lookup.settings.layers(namespace) if lookup and lookup.settings else []


def _with_settings(job: TrainingJob | None, layers: Sequence[tuple[str, Layer]]) -> TrainingJob | None:
    """Return a job as it is launched under these settings; None = they refuse it, for its resources for example."""
    try:
        return apply(job, layers, os.environ, options=registry.options()).job if job and layers else None
    except SpecError:
        return None


def _attempts(backend: RunBackend[Any], name: str, task: str | None) -> dict[str, list[RecordedAttempt]]:
    """Return the attempts of the last days at each task of a pipeline, or of a job outside of pipelines, by task."""
    now = backend.now()
    since = now - DAYS * _DAY_SECONDS
    known: dict[str, None] = {}
    future: list[Status] = []
    tasks: dict[str, list[RecordedAttempt]] = {}
    for job in backend.jobs():
        status: Status = job.status
        identity = status.identity
        names = {identity.pipeline} if identity.pipeline else {identity.task, Identity.stem(status.job)}
        known |= dict.fromkeys(sorted(names - {""}))
        if not names & {name, label_value(name)} or task not in (None, identity.task):
            continue
        if status.created > now + CLOCK_SECONDS:
            future.append(status)
        elif status.created >= since:
            tasks.setdefault(identity.task, []).append(RecordedAttempt(_whole(status), _recorded(backend, job)))
    if future:
        more = f" and {len(future) - 1} more" if future[1:] else ""
        why = f"created in the future, {local_time(future[0].created)}: check the clock of the machine that launched it"
        warn(f"not counted: {clean(future[0].identity.run)}{more}: {why}")
    if not tasks:
        what = f"task {task!r} of {name!r}" if task else repr(name)
        names_there = f"; names that have runs: {', '.join([*known][:5])}" if known else ""
        raise CommandError(f"{what} has no runs of the last {DAYS:.0f} days {backend.where}{names_there}")
    return tasks


def _whole(status: Status) -> Status:
    """Return the status as a launcher on this machine recorded it, if it did: objects of a cluster have no use."""
    record = None if status.usage else record_of(status)
    return record.status if record and record.status.state.terminal else status


def _recorded(backend: RunBackend[Any], job: Job) -> TrainingJob | None:
    try:
        return typed_json.decode(backend.recorded(job), TrainingJob)
    except NOT_READABLE:
        return None


def _newest_job(attempts: Sequence[RecordedAttempt]) -> TrainingJob:
    newest = max((attempt for attempt in attempts if attempt.job), key=lambda attempt: attempt.status.created)
    assert newest.job
    return newest.job


def _edit(file: str, tuning: TaskTuning, *, diff: bool, write: bool) -> None:
    """Print the difference of a job file, or write it. CommandError if nothing is known, or it cannot be changed."""
    if tuning.off:
        raise CommandError(f"{tuning.task}: no recommendation: {tuning.off}")
    path = pathlib.Path(file)
    try:
        with path.open(encoding="utf-8", newline="") as opened:
            text = opened.read()
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        new = mark + tuned_text(text.removeprefix(mark), file, tuning.advices, registry.options())
        if write and new != text:
            write_whole(path, new.encode())
    except EditError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error}; choose another file, or use --diff") from error
    if diff:
        lines = difflib.unified_diff(
            text.splitlines(keepends=True), new.splitlines(keepends=True), file, f"{file} (tuned)"
        )
        print(
            "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines),
            end="",
        )
    elif write:
        print(f"{file}: {'written' if new != text else 'nothing to change'}")


# --- what is printed


def _print(tuning: TaskTuning) -> None:
    title = tuning.pipeline if tuning.task == tuning.pipeline else f"{tuning.pipeline} {tuning.task}"
    print(f"{clean(title)}: {good_runs(tuning.good)} of {len(tuning.runs)} in the last {DAYS:.0f} days")
    for line in _not_counted(tuning):
        print(f"  {line}")
    if tuning.off:
        print(f"no recommendation: {tuning.off}")
    if not tuning.advices:
        return
    print()
    rows = [
        [
            advice.role,
            advice.resource,
            range_of(advice.resource, advice.now),
            rounded_use(advice.resource, advice.most),
            "keep" if advice.new == advice.now else range_of(advice.resource, advice.new),
            "; ".join(advice.reasons) or "-",
        ]
        for advice in tuning.advices
    ]
    print_table(("ROLE", "RESOURCE", "REQUEST~LIMIT", "LARGEST USE", "RECOMMENDED", "WHY"), rows)
    lower = frozenset(run.attempt.status.identity.run for run in tuning.runs if run.standing is Standing.LOWER_BOUND)
    for advice in tuning.advices:
        if advice.used:
            print("\n" + "\n".join(_picture(advice, lower)))
    print()


def _not_counted(tuning: TaskTuning) -> Iterator[str]:
    """Yield why runs do not count, the most frequent reason first."""
    runs: dict[str, list[str]] = {}
    for run in tuning.runs:
        if run.reason:
            text = f"{run.reason}: use is a lower bound" if run.standing is Standing.LOWER_BOUND else run.reason
            runs.setdefault(text, []).append(run.attempt.status.identity.run)
    for reason, ids in sorted(runs.items(), key=lambda item: -len(item[1])):
        more = f" and {len(ids) - 1} more" if ids[1:] else ""
        yield f"not counted: {clean(ids[0])}{more}: {clean(reason)}"


def _picture(advice: Advice, lower: frozenset[str]) -> Iterator[str]:
    """Yield the use of each run as a bar, the newest first, with marks at what is requested and recommended."""
    full, at_limit, at_new, at_request = ("█", "│", "╎", "┆") if takes_any(sys.stdout) else ("#", "|", ":", "'")
    now = advice.now
    marks = [
        (at_limit, "limit", now.limit),
        (at_new, "recommended", advice.new and advice.new.limit),
        (at_request, "request", None if now.request == now.limit else now.request),
    ]
    known = [(mark, word, amount) for mark, word, amount in marks if amount]
    scale = max([*advice.used.values(), *(amount for _, _, amount in known)]) or 1.0
    legend = ", ".join(f"{mark} {word} {written(advice.resource, amount)}" for mark, word, amount in known)
    yield f"{advice.resource} of {advice.role}, by run, the newest first{f': {legend}' if legend else ''}"
    drawn = [*advice.used.items()][:_DRAWN]
    width = max(len(clean(run)) for run, _ in drawn)
    for run, used in drawn:
        cells = list((full * max(round(used / scale * _BAR), 1)).ljust(_BAR + 1))
        for mark, _, amount in reversed(known):
            cells[round(amount / scale * _BAR)] = mark
        bound = "at least " if run in lower else ""
        yield f"  {clean(run):{width}}  {''.join(cells)}  {bound}{rounded_use(advice.resource, used)}"
    if more := len(advice.used) - len(drawn):
        yield f"  and {more} older runs"


def _plain(tuning: TaskTuning) -> dict[str, object]:
    return {
        "pipeline": tuning.pipeline,
        "task": tuning.task,
        "needed_runs": tuning.rule.runs,
        "good_runs": tuning.good,
        "headroom": tuning.rule.headroom,
        "off": tuning.off,
        "runs": [
            {
                "run": run.attempt.status.identity.run,
                "attempt": run.attempt.status.identity.attempt,
                "created": iso(run.attempt.status.created),
                "standing": run.standing.value,
                "reason": run.reason,
            }
            for run in tuning.runs
        ],
        "recommendations": [msgspec.to_builtins(advice) for advice in tuning.advices],
    }

"""The report of a run: all its steps, and links to the reports of their attempts."""

import os
import pathlib
import urllib.parse
from collections.abc import Iterator, Sequence

import msgspec

from tfsteps.report import charts, sections
from tfsteps.report.document import document, save
from tfsteps.report.formats import UNKNOWN, badge, duration, icon, moment, natural, plural
from tfsteps.report.html import Html, join, tag
from tfsteps.report.logs import plain, tails
from tfsteps.report.replicas import last_lines
from tfsteps.report.timeline import TimelineRange, axis, row
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.pipeline_record import STEP, PipelineRecord
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder

_MOST = 500  # tries
_BAD = (State.FAILED, State.LOST)
_WORST_FIRST = (State.FAILED, State.LOST, State.CANCELLED)


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a step: an attempt at a job, or the process of a step that launched none.

    Attributes:
        step: The name of the task.
        attempt: Number of the attempt at the job; None = the step launched no job.
        state: Its state.
        started: When it was created, in seconds since the epoch.
        ended: When it ended; None = it has not.
        message: Why it failed, or what its state means, in one sentence; empty = nothing is known.
        replicas: Number of its replicas.
        metrics: The metrics of the job.
        report: Address of its report, relative to the run's report; empty = there is none.
        log: File of its output, of a step that launched no job; None = there is none.
    """

    step: str
    attempt: int | None = None
    state: State
    started: float
    ended: float | None
    message: str = ""
    replicas: int = 0
    metrics: dict[str, float] = {}
    report: str = ""
    log: pathlib.Path | None = None


class RunSteps(msgspec.Struct, frozen=True, kw_only=True):
    """A run.

    Attributes:
        run: Its id.
        pipeline: Name of its pipeline; empty = none.
        state: State of the run as a whole.
        message: Why it failed, or what its state means; empty = nothing is known.
        created: When it began, in seconds since the epoch.
        ended: When it ended; None = it has not, or nobody recorded it.
        tries: The tries of all steps: the steps in the order of their starts, the tries of each in their order.
        unread: Sentences about attempts whose status cannot be read.
    """

    run: str
    pipeline: str
    state: State
    message: str
    created: float
    ended: float | None
    tries: list[Try]
    unread: list[str]


def run_steps(run: str) -> RunSteps:
    """Read the records of a run."""
    record, statuses, unread = PipelineRecord.read(run), [], []
    for attempt in store.attempts(run):
        try:
            statuses.append((attempt, attempt.status()))
        except OSError as error:
            unread.append(str(error))
    jobs = [_job(attempt, status) for attempt, status in statuses]
    tries = _ordered([*jobs, *_other_steps(record, jobs)])
    state, message = _state(run, record, tries)
    ends = [item.ended for item in tries if item.ended is not None]
    return RunSteps(
        run=run,
        pipeline=record.pipeline if record else next((s.identity.pipeline for _, s in statuses), ""),
        state=state,
        message=message,
        created=record.created if record else min((item.started for item in tries), default=0.0),
        ended=record.ended if record else max(ends, default=None) if state.terminal else None,
        tries=tries,
        unread=unread,
    )


def _job(attempt: AttemptFolder, status: Status) -> Try:
    relative = f"{attempt.folder.parent.name}/{attempt.folder.name}/{attempt.report.name}"
    return Try(
        step=status.identity.task,
        attempt=status.identity.attempt,
        state=status.state,
        started=status.created,
        ended=status.ended,
        message=status.failure.summary if status.failure else status.message,
        replicas=len(status.replicas),
        metrics=status.metrics,
        report=urllib.parse.quote(relative) if attempt.report.exists() else "",
    )


def _other_steps(record: PipelineRecord | None, jobs: Sequence[Try]) -> Iterator[Try]:
    """Yield the steps that launched no job, and those that failed although their job succeeded."""
    last = {job.step: job.state for job in jobs}
    for step in record.without_job(last) if record else []:
        code, _, exception = step.why.partition(": ")
        after = ", after its job had succeeded" if step.why and step.name in last else ""
        yield Try(
            step=step.name,
            state=step.state,
            started=step.started,
            ended=step.ended,
            message=code + after + (f": {exception}" if exception else ""),
            log=record.log_of(step) if record else None,
        )


def _ordered(tries: Sequence[Try]) -> list[Try]:
    first: dict[str, float] = {}
    for item in tries:
        first[item.step] = min(item.started, first.get(item.step, item.started))
    return sorted(
        tries,
        key=lambda item: (first[item.step], natural(item.step), item.attempt is None, item.attempt or 0, item.started),
    )


def _state(run: str, record: PipelineRecord | None, tries: Sequence[Try]) -> tuple[State, str]:
    """Return the state of the run and what it means; without a pipeline, it follows from the last try of each step."""
    if record:
        return record.state, record.message
    folder = store.pipeline_folder(run)
    if folder.exists():
        alive = AttemptFolder(folder).alive()
        if alive.yes:
            return State.RUNNING, ""
        if alive.unknown:
            return State.UNKNOWN, f"It is not known whether its pipeline runs: {alive.why}."
        return State.LOST, "The process of the pipeline was killed: its end, and steps without a job, are not recorded."
    last = list({item.step: item.state for item in tries}.values())
    current = next((state for state in last if not state.terminal), None)
    worst = next((state for state in _WORST_FIRST if state in last), None)
    return current or worst or (State.SUCCEEDED if last else State.UNKNOWN), ""


def has_report(run: str) -> bool:
    """Return whether a run has a report of its own: it has several attempts, or is a pipeline of this machine."""
    return len(store.attempts(run)) > 1 or store.pipeline_folder(run).exists() or PipelineRecord.read(run) is not None


def write_run(run: str) -> pathlib.Path:
    """Write the report of a run from its records, and return its path.

    Attempts without a report of their own are not linked.

    Raises:
        OSError: The report cannot be written; an earlier report is kept then.
    """
    path = store.run_report(run)
    before = path.parent.stat()
    save(_page(run_steps(run)), path)
    os.utime(path.parent, ns=(before.st_atime_ns, before.st_mtime_ns))  # runs are ordered by the times of their folders
    return path


def _page(run: RunSteps) -> str:
    shown = run.tries[-_MOST:]
    parts = [
        ("failure", "Why it failed", _failures(run)),
        ("warnings", "Warnings", _warnings(run, len(run.tries) - len(shown))),
        ("timeline", "Timeline", _timeline(run, shown) if shown else None),
        ("steps", "Steps", _steps(run, shown)),
        ("output", "Output of steps", _output(shown)),
    ]
    body = [_header(run), *sections.contents(parts)]
    title = f"{run.state.capitalize()}: {run.pipeline or run.run} · tfsteps"
    return document(title, sections.colour(run.state), body, [])


def _header(run: RunSteps) -> Html:
    jobs = [item for item in run.tries if item.attempt is not None]
    last = list({item.step: item.state for item in run.tries}.values())
    failed = sum(state in _BAD for state in last)
    length = None if run.ended is None else run.ended - run.created
    about = [
        ("Run", run.run),
        ("Pipeline", run.pipeline),
        ("Created", moment(run.created)),
        ("Ended", moment(run.ended)),
    ]
    tiles = [
        ("Duration", duration(length), ""),
        ("Steps", str(len(last)), f"{failed} failed" if failed else ""),
        ("Jobs", str(len({item.step for item in jobs})), ""),
        ("Attempts", str(len(jobs)), "at all jobs" if jobs else ""),
    ]
    return tag(
        "header",
        tag("p", "tfsteps pipeline report" if run.pipeline else "tfsteps run report", class_="kind"),
        tag("p", icon(run.state), run.state.capitalize(), class_="verdict", role="status"),
        tag("h1", run.pipeline or run.run),
        tag("p", plain(run.message), class_="message") if run.message else None,
        sections.definitions([(term, text) for term, text in about if text], "about"),
        tag("ul", *[sections.tile(*tile) for tile in tiles], class_="tiles"),
        class_=f"is-{run.state}",
    )


def _failures(run: RunSteps) -> Html | None:
    """Return the steps whose last try failed, with their reasons; None if there are none."""
    last = {item.step: item for item in run.tries}
    failed = [item for item in last.values() if item.state in _BAD]
    if not failed:
        return None
    items = [tag("li", tag("b", _link(item, item.step)), f": {plain(item.message) or item.state}") for item in failed]
    return tag("ul", *items, class_="warnings failure")


def _warnings(run: RunSteps, hidden: int) -> Html | None:
    texts = run.unread + ([f"{plural(hidden, 'earlier attempt')} not shown."] if hidden else [])
    return tag("ul", *[tag("li", text) for text in texts], class_="warnings") if texts else None


def _link(item: Try, text: str) -> Html | str:
    return tag("a", text, href=item.report) if item.report else text


def _timeline(run: RunSteps, tries: Sequence[Try]) -> Html:
    known = [at for item in tries for at in (item.started, item.ended) if at is not None]
    whole = TimelineRange(run.created, max([0.1, *[at - run.created for at in [*known, run.ended or run.created]]]))
    rows = [axis(whole), *[_row(item, whole) for item in tries]]
    dense = " dense" if len(tries) > 16 else ""
    return tag("div", *rows, class_=f"timeline of-steps{dense}", role="region", aria_label="Timeline", tabindex=0)


def _row(item: Try, whole: TimelineRange) -> Html:
    name = item.step + (f" ({item.attempt})" if item.attempt else "")
    label = tag(
        "span", icon(item.state), tag("span", _link(item, name), class_="text"), class_=f"is-{item.state}", title=name
    )
    end = whole.start + whole.length if item.ended is None else item.ended
    length = f"{item.state} after {duration(end - item.started)}" if item.ended else f"{item.state}"
    started = f"started at {duration(item.started - whole.start)} ({moment(item.started)})"
    tip = "\n".join(filter(None, [name, length, started, plain(item.message)]))
    bar = tag(
        "a" if item.report else "span",
        tag("span", length),
        href=item.report or None,
        style=whole.place(item.started, end),
        class_=f"bar is-{item.state}",
        data_tip=tip,
        tabindex=0,
        role=None if item.report else "img",
        aria_label=tip.replace("\n", ". "),
    )
    return row(label, bar, kind="step")


def _steps(run: RunSteps, tries: Sequence[Try]) -> Html:
    if not tries:
        return tag("p", "No step of this run was recorded on this machine.", class_="note")
    heads = ["Step", "Attempt", "State", "Started", "Duration", "Replicas", "Metrics", "Why"]
    rows = [_cells(item, run, first=i == 0 or tries[i - 1].step != item.step) for i, item in enumerate(tries)]
    head = tag("thead", tag("tr", *[tag("th", text, scope="col") for text in heads]))
    table = tag("table", head, tag("tbody", *rows), class_="steps")
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Table of steps")


def _output(tries: Sequence[Try]) -> Html | None:
    """Return the last lines of the steps that launched no job, those of failed ones open; None if there are none."""
    panels = []
    for item in tries:
        if item.log:
            summary = tag("summary", tag("span", item.step, class_="name"), badge(item.state))
            inside = tag("div", last_lines(item.step, tails(item.log, [STEP])[STEP]), class_="inside")
            panels.append(tag("details", summary, inside, class_="replica", open=item.state in _BAD))
    return tag("div", *panels, class_="replicas") if panels else None


def _cells(item: Try, run: RunSteps, *, first: bool) -> Html:
    attempt = "no job" if item.attempt is None else str(item.attempt)
    metrics = ", ".join(f"{name} {charts.label(value)}" for name, value in item.metrics.items())
    cells: list[str | None] = [
        join([attempt, " ", _link(item, "Report") if item.report else None]),
        badge(item.state),
        duration(item.started - run.created),
        UNKNOWN if item.ended is None else duration(item.ended - item.started),
        str(item.replicas) if item.replicas else UNKNOWN,
        metrics or UNKNOWN,
        plain(item.message) if item.state is not State.SUCCEEDED and item.message else UNKNOWN,
    ]
    name = tag("th", item.step if first else None, scope="row")
    return tag("tr", name, *[tag("td", cell) for cell in cells])

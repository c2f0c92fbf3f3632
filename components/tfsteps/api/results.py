"""What the Python functions return: frozen objects, which notebooks show as HTML and other places as text."""

import copy
import dataclasses
import datetime as dt
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import msgspec

from tfsteps.api import notebook_page
from tfsteps.console.outputs import REPLICA_COLUMNS, outputs, replica_row, verdict
from tfsteps.console.text import clean, columns, duration
from tfsteps.report import charts, comparison, curves
from tfsteps.report.comparison import Compared
from tfsteps.report.curves import Charts
from tfsteps.report.description import Description
from tfsteps.report.html import Child, Html, tag
from tfsteps.runs import store
from tfsteps.runs.demo import Mark
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.status import FailureSummary, Status

_SHOWN_LINES = 1000
"""Lines of a log that a notebook shows; the object has all."""


class Replica(msgspec.Struct, frozen=True):
    """A replica, after its newest incarnation.

    Attributes:
        name: `worker-1`.
        state: Its state.
        restarts: Number of restarts.
        exit_code: 128 + n for signal n; None while it runs, or not known.
        reason: OOMKilled, PeerLost, ...; empty = none.
        place: `pid 4711 port 40123`, or a pod's name; empty = it has not started.
    """

    name: str
    state: ReplicaState
    restarts: int
    exit_code: int | None
    reason: str
    place: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a task; in a list also a pipeline, which has its state and times alone.

    Attributes:
        run: Id of the run.
        task: Name of the task; empty = it is a pipeline.
        attempt: Number of the attempt, from 0; None = it is a pipeline.
        pipeline: Name of the pipeline; empty = the run is none.
        state: State of the job.
        reason: Reason of that state, one CamelCase word; empty = none.
        message: Message about that state, one sentence; empty = none.
        system: The job system's name; empty = it is a pipeline.
        namespace: The job's namespace; empty = the system has none.
        job: The job object's name in its system.
        created: When the job was created, in UTC.
        started: When the last replica started; None = not yet, or not known.
        ended: When the job ended; None = it has not, or not known.
        metrics: Metrics by name; only those that were found.
        metric_notes: By metric: why it is not set, or what is not known of its value.
        failure: Why the job failed; None = it did not, or it is not known.
        replicas: In the order chief, worker, ps, evaluator.
        warnings: Settings without effect, and lost data.
        notes: What was decided while the job was launched, such as the files that were packed; empty for other calls.
        demo: In a list, the mark of a demo, with the address of its `picture`; None = it is no demo, or in no list.
        model: Folder of the model; empty = there is none here.
        event_files: Folder of the event files; empty = there is none here.
        output: The output folder, as the replicas see it.
        folder: Folder of the records on this machine; empty = there is none.
        report: Path of the report on this machine; empty = there is none.
        tensorboard_url: Address of the TensorBoard; empty = none is running.
    """

    run: str
    task: str
    attempt: int | None
    pipeline: str
    state: State
    reason: str
    message: str
    system: str
    namespace: str
    job: str
    created: dt.datetime
    started: dt.datetime | None
    ended: dt.datetime | None
    metrics: Mapping[str, float]
    metric_notes: Mapping[str, str]
    failure: FailureSummary | None
    replicas: tuple[Replica, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()
    demo: Mark | None = None
    model: str
    event_files: str
    output: str
    folder: str
    report: str
    tensorboard_url: str
    status: Status
    """The whole status, as `status.json` has it. A copy: changes have no effect."""

    @classmethod
    def of(
        cls, status: Status, *, is_job: bool = True, notes: Sequence[str] = (), demo: Mark | None = None
    ) -> "Attempt":
        """Return an attempt with this status, or a pipeline."""
        identity = status.identity
        paths = outputs(status) if is_job else {"model": "", "logs": "", "report": ""}
        folder = store.AttemptFolder.of(identity).folder if is_job else None
        return cls(
            run=identity.run,
            task=identity.task,
            attempt=identity.attempt if is_job else None,
            pipeline=identity.pipeline,
            state=status.state,
            reason=status.reason,
            message=status.message,
            system=status.system,
            namespace=status.namespace,
            job=status.job,
            created=_moment(status.created),
            started=None if status.started is None else _moment(status.started),
            ended=None if status.ended is None else _moment(status.ended),
            metrics=dict(status.metrics),
            metric_notes=dict(status.metric_notes),
            failure=status.failure,
            replicas=tuple(map(_replica, status.replicas)),
            warnings=tuple(status.warnings),
            notes=tuple(notes),
            demo=demo,
            model=paths["model"],
            event_files=paths["logs"],
            output=status.output,
            folder=str(folder) if folder and folder.is_dir() else "",
            report=paths["report"],
            tensorboard_url=status.tensorboard_url,
            status=copy.deepcopy(status),
        )

    @property
    def succeeded(self) -> bool:
        """Whether it ended well. False also while it runs, and if its end is not known."""
        return self.state is State.SUCCEEDED

    @property
    def seconds(self) -> float | None:
        """From the creation to the end, or to now if it runs; None = it ended, and it is not known when."""
        if self.ended is None and self.state.terminal:
            return None
        return ((self.ended or dt.datetime.now(dt.UTC)) - self.created).total_seconds()

    @property
    def verdict(self) -> str:
        """The state as one sentence: `mnist succeeded after 12s.`."""
        return verdict(self.status) if self.attempt is not None else f"{clean(self.pipeline)} {self.state}"

    def curves(self) -> Charts | None:
        """Return the curves so far, a chart for each tag; None = its event files are not on this machine."""
        attempt = store.AttemptFolder.of(self.status.identity)
        preferred = Description.read(attempt.folder / "job.json").metrics
        return curves.of_attempt(attempt, self.status, preferred) if self.attempt is not None else None

    def __str__(self) -> str:
        """Return the run, the replicas and the verdict as lines."""
        now = time.time()
        rows = [list(REPLICA_COLUMNS), *(replica_row(replica, now) for replica in self.status.replicas)]
        return "\n".join([f"run {clean(self.run)}", *columns(rows), self.verdict])

    def __repr__(self) -> str:
        """Return the run, the task and the state."""
        return f"<Attempt {self.attempt} at {self.task!r} of run {self.run!r}: {self.state.value}>"

    def _repr_html_(self) -> str:
        """Return the state, the replicas, the results and the curves, for notebooks."""
        return notebook_page.frame(notebook_page.attempt(self.status, self.curves(), self.notes))


def _replica(status: Any) -> Replica:
    newest = status.incarnations[-1] if status.incarnations else None
    return Replica(
        status.name,
        status.state,
        status.restarts,
        newest.exit_code if newest else None,
        newest.reason if newest else "",
        newest.place if newest else "",
    )


def _moment(seconds: float) -> dt.datetime:
    """Return a time in UTC; the epoch's beginning for one that no calendar has, from a garbled record."""
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return dt.datetime.fromtimestamp(0, dt.UTC)


@dataclasses.dataclass(frozen=True, repr=False)  # msgspec has no sequences
class RunList(Sequence[Attempt]):
    """Attempts and pipelines of several runs, in the order that was asked for.

    Attributes:
        entries: The attempts and pipelines.
        notes: What could not be read.
    """

    entries: tuple[Attempt, ...]
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Attempt: ...
    @overload
    def __getitem__(self, index: slice) -> "RunList": ...
    def __getitem__(self, index: int | slice) -> "Attempt | RunList":
        """Return an entry, or a list of some."""
        if isinstance(index, slice):
            return dataclasses.replace(self, entries=self.entries[index])
        return self.entries[index]

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.entries)

    def _rows(self) -> list[list[str]]:
        names = list(dict.fromkeys(name for entry in self.entries for name in entry.metrics))
        header = ["RUN", "PIPELINE", "TASK", "ATTEMPT", "STATE", "SYSTEM", "CREATED", "DURATION", *map(clean, names)]
        return [
            header,
            *(
                [
                    clean(entry.run),
                    clean(entry.pipeline) or "-",
                    clean(entry.task) or "-",
                    "-" if entry.attempt is None else str(entry.attempt),
                    entry.state.value,
                    entry.system or "-",
                    entry.created.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
                    duration(entry.seconds),
                    *(f"{entry.metrics[name]:.6g}" if name in entry.metrics else "-" for name in names),
                ]
                for entry in self.entries
            ),
        ]

    def __str__(self) -> str:
        """Return a table."""
        return "\n".join(columns(self._rows())) if self.entries else "There are no such runs."

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, *rows = self._rows()
        if not rows:
            return notebook_page.frame(tag("p", "There are no such runs."), notebook_page.notes(self.notes))
        shown: list[list[Child]] = [[*row] for row in rows]
        if any(entry.demo for entry in self.entries):
            header = ["DEMO", *header]
            shown = [[_demo(entry.demo), *row] for entry, row in zip(self.entries, shown, strict=True)]
        return notebook_page.frame(notebook_page.table(header, shown), notebook_page.notes(self.notes))


def _demo(mark: Mark | None) -> Child:
    """Return the picture of a demo, whose address `Mark` has checked; a word if it has none."""
    if mark and mark.picture:
        return tag("img", src=mark.picture, alt="demo", loading="lazy", referrerpolicy="no-referrer")
    return "demo" if mark else "-"


class Run(msgspec.Struct, frozen=True):
    """A run.

    Attributes:
        id: Its id.
        attempts: The newest attempt at each task, or those that were asked for; the oldest first.
        pipeline: How its pipeline ended, one sentence; empty = it has none, or a task or attempt was asked for.
        tree: What the run consists of, as lines: pipeline, steps, tasks, launchers, jobs, replicas.
        notes: What could not be read of it.
    """

    id: str
    attempts: tuple[Attempt, ...]
    pipeline: str
    tree: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the tree, and each attempt, as lines."""
        verdicts = [attempt.verdict for attempt in self.attempts]
        notes = [f"note: {clean(note)}" for note in self.notes]
        return "\n".join([f"run {clean(self.id)}", *self.tree, *verdicts, *filter(None, [self.pipeline]), *notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        attempts = [notebook_page.attempt(attempt.status, attempt.curves()) for attempt in self.attempts]
        tree = tag("details", tag("summary", "What the run consists of"), tag("pre", "\n".join(self.tree)))
        pipeline = tag("p", self.pipeline) if self.pipeline else Html("")
        return notebook_page.frame(*attempts, pipeline, tree, notebook_page.notes(self.notes))


class Line(msgspec.Struct, frozen=True):
    """A line of a log.

    Attributes:
        at: When it was printed, in UTC.
        task: The task of its job, or the step of a pipeline.
        source: `worker-1`, or `worker-1/init-data` for another container; empty = a step that launched no job.
        incarnation: Number of the incarnation that printed it, from 0.
        text: The line, as printed; bytes that are not UTF-8 are replaced.
    """

    at: dt.datetime
    task: str
    source: str
    incarnation: int
    text: str


@dataclasses.dataclass(frozen=True, repr=False)  # msgspec has no sequences
class Log(Sequence[Line]):
    """Log lines in the order of time.

    Attributes:
        run: Id of the run.
        lines: The lines.
        notes: What could not be read, such as the log of pods that are gone.
    """

    run: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> "Log": ...
    def __getitem__(self, index: int | slice) -> "Line | Log":
        """Return a line, or a log of some lines."""
        if isinstance(index, slice):
            return dataclasses.replace(self, lines=self.lines[index])
        return self.lines[index]

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.lines)

    def __str__(self) -> str:
        """Return the lines as `[worker-1] text`; with the task before the replica if there are several tasks."""
        return "\n".join(self._texts(self.lines))

    def __repr__(self) -> str:
        """Return the run and the number of lines."""
        return f"<Log of run {self.run!r}: {len(self.lines)} lines>"

    def _texts(self, lines: Sequence[Line]) -> Iterator[str]:
        several = len({line.task for line in self.lines}) > 1
        for line in lines:
            source = f"{line.task}/{line.source}" if several and line.source else line.source or line.task
            yield f"[{clean(source)}] {clean(line.text)}"

    def _repr_html_(self) -> str:
        more = len(self.lines) - _SHOWN_LINES
        cut = tag("p", f"{more} earlier lines are not shown; `print(log)` prints all.") if more > 0 else Html("")
        text = "\n".join(self._texts(self.lines[-_SHOWN_LINES:]))
        return notebook_page.frame(cut, tag("pre", text or "no lines"), notebook_page.notes(self.notes))


class Comparison(msgspec.Struct, frozen=True):
    """Runs beside each other; all values are in the order of `attempts`.

    Attributes:
        attempts: The attempts that are compared, one of each run.
        rows: Facts, metrics and inputs that differ, as text by their names: `state`, `metric loss`, `input env.LR`;
            None = not known, or the run has none.
        inputs: The inputs that differ, by dotted path, `env.LR`: a value for each run. Secrets are hidden.
        notes: What is not known or not shown.
    """

    attempts: tuple[Attempt, ...]
    rows: Mapping[str, Sequence[str | None]]
    inputs: Mapping[str, Sequence[Any]]
    notes: tuple[str, ...]
    compared: Sequence[Compared]
    """The records that were read, with their curves."""

    @classmethod
    def of(cls, compared: Sequence[Compared], notes: Sequence[str] = ()) -> "Comparison":
        """Return a comparison of these records."""
        return cls(
            tuple(Attempt.of(run.status) for run in compared),
            {row.name: row.values for row in comparison.table_rows(compared)},
            comparison.differences(compared),
            (*notes, *comparison.notes(compared)),
            compared,
        )

    def __str__(self) -> str:
        """Return a table and the notes."""
        return "\n".join([*columns(self._rows()), *self.notes])

    __repr__ = __str__

    def _rows(self) -> list[list[str]]:
        header = ["RUN", *(clean(attempt.run) for attempt in self.attempts)]
        return [
            header,
            *([clean(name), *("-" if v is None else clean(v) for v in row)] for name, row in self.rows.items()),
        ]

    def _repr_html_(self) -> str:
        names = [attempt.run for attempt in self.attempts]
        of_runs = {run.run: run.charts for run in self.compared if run.charts}
        overlay = curves.overlay(of_runs, [*itertools.chain.from_iterable(run.metric_tags for run in self.compared)])
        drawn = [charts.figure(chart, place, names) for place, chart in enumerate(overlay.charts)]
        header, *rows = self._rows()
        return notebook_page.frame(
            notebook_page.table(header, rows), notebook_page.charts(drawn), notebook_page.notes(self.notes)
        )

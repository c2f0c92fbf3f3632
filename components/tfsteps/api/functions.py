"""`run`, `runs`, `show`, `logs` and `compare` as functions, and what a notebook shows of a job while it runs."""

import collections
import contextlib
import contextvars
import datetime as dt
import importlib
import os
import pathlib
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from tfsteps import spec
from tfsteps.api import notebook_page, run_list
from tfsteps.api.arguments import checked
from tfsteps.api.job_input import COMMAND_LINE, JobInput, JobOptions, read, set_by
from tfsteps.api.plan import choose, launch_failed, launch_plan, make_plan
from tfsteps.api.queries import compared_runs, pass_log, run_graph
from tfsteps.api.results import Attempt, Comparison, Line, Log, Run, RunList
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.base import MOST_LINES, LogLine, LogOptions
from tfsteps.backends.find import Selection
from tfsteps.backends.log_printer import compile_grep
from tfsteps.backends.open import located, open_backend
from tfsteps.console import run_tree
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import collected
from tfsteps.console.outputs import pipeline_verdict, verdict
from tfsteps.console.text import clean
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import exit_code
from tfsteps.report import curves
from tfsteps.runs import store
from tfsteps.runs.events import LogLines, PartialLine, State
from tfsteps.runs.location import Location
from tfsteps.runs.status import Status
from tfsteps.spec import Problem, SpecError
from tfsteps.spec.decode import flow
from tfsteps.spec.problems import shown
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError

_REDRAW_SECONDS = 1.0
_LINES = 12
_CURVES_SHARE = 10  # reading the event files may take a tenth of the time


def in_notebook() -> bool:
    """Return whether this is the kernel of a notebook. A program that has not imported IPython is none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


class Watcher:
    """An observer of one job, as long as its `with` block lasts."""

    def __init__(
        self,
        notes: list[str],
        preferred: Sequence[str],
        on_change: Callable[[Attempt], object] | None,
        *,
        display: bool,
    ) -> None:
        """Get ready.

        Args:
            notes: Notes, which are shown. A failure of `on_change` is added.
            preferred: Tags whose curves come first.
            on_change: Called with the attempt after each change; None = nothing is.
            display: Whether to show the job by IPython.
        """
        self._notes = notes
        self._preferred = preferred
        self._on_change = on_change
        self._status: Status | None = None
        self._lines: collections.deque[str] = collections.deque(maxlen=_LINES)
        self._changed, self._closed = threading.Event(), threading.Event()
        self._curves: curves.Charts | None = None
        self._curves_due = 0.0
        self._shown: Any = None
        # Reading event files must not delay the job. The context has the cell that the output belongs to.
        draw = contextvars.copy_context().run
        self._thread = threading.Thread(target=draw, args=[self._draw], daemon=True) if display else None

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._thread:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Draw no more."""
        self._closed.set()
        self._changed.set()
        if self._thread:
            self._thread.join()

    def changed(self, status: Status) -> None:
        """Keep the status, and call the user's function."""
        self._status = status
        self._changed.set()
        if self._on_change:
            try:
                self._on_change(Attempt.of(status))
            except Exception as error:  # noqa: BLE001  the job goes on
                self._on_change = None
                self._notes.append(f"on_change is not called any more: {type(error).__name__}: {error}")

    def lines(self, lines: LogLines) -> None:
        """Keep the last lines."""
        self._lines.extend(f"[{lines.source}] {clean(text)}" for text in lines.texts[-_LINES:])
        self._changed.set()

    def partial(self, line: PartialLine) -> None:
        """Ignore a line that has not ended: it would be drawn again and again."""

    def end(self, attempt: Attempt) -> None:
        """Show the end of the attempt."""
        self.__exit__()
        if self._thread:
            self._show(attempt._repr_html_())

    def _draw(self) -> None:
        while not self._closed.is_set():
            self._changed.wait()
            self._changed.clear()
            if status := self._status:
                page = notebook_page.attempt(status, self._read_curves(status), self._notes, [*self._lines])
                self._show(notebook_page.frame(page))
            self._closed.wait(_REDRAW_SECONDS)

    def _read_curves(self, status: Status) -> curves.Charts | None:
        start = time.monotonic()
        if start >= self._curves_due:
            self._curves = curves.of_attempt(store.AttemptFolder.of(status.identity), status, self._preferred)
            self._curves_due = time.monotonic() + _CURVES_SHARE * (time.monotonic() - start)
        return self._curves

    def _show(self, page: str) -> None:
        ipython = importlib.import_module("IPython.display")  # a notebook has it
        if self._shown is None:
            self._shown = ipython.display(ipython.HTML(page), display_id=True)
        else:
            self._shown.update(ipython.HTML(page))


# --- the functions

Since = str | dt.timedelta | dt.datetime | None


class RunFailed(CommandError):  # noqa: N818  as the state of a job is called
    """A job that did not succeed.

    Attributes:
        attempt: The attempt.
        code: What `tfsteps run` would have exited with.
    """

    def __init__(self, attempt: Attempt) -> None:
        """Say how the job ended."""
        self.attempt = attempt
        super().__init__(verdict(attempt.status), exit_code(attempt.status))


class RunStopped(RunFailed):
    """A job that was stopped: by an interrupt of the notebook, by Ctrl-C, or by `tfsteps stop`."""


@checked("job", "command", "workers", "ps", "name", "image")
def run(
    job: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    command: Sequence[str | os.PathLike[str] | float] | None = None,
    workers: int | None = None,
    ps: int | None = None,
    chief: bool = False,
    name: str | None = None,
    image: str | None = None,
    code: str | os.PathLike[str] | None = None,
    code_bucket: str | None = None,
    overrides: Sequence[str] = (),
    on: str | None = None,
    system: str | None = None,
    context: str = "",
    namespace: str = "",
    run_id: str | None = None,
    task: str | None = None,
    check: bool = True,
    display: bool | None = None,
    on_change: Callable[[Attempt], object] | None = None,
) -> Attempt:
    """Run a job to its end, and return the attempt.

    An interrupt of the notebook, Ctrl-C and SIGTERM stop the job, as they do with `tfsteps run`; a second one kills its
    replicas. In another thread than the main one no signal comes: use `tfsteps stop`. A `tensorboard:` of the job
    starts on a cluster only; `tfsteps tensorboard RUN` shows the event files of a job elsewhere.

    Args:
        job: A job file, or a job with the fields of one, whose relative paths start from the current folder. None = the
            job is described by `command` and the arguments until `code`.
        command: Program and arguments that every replica runs: texts, paths and numbers.
        workers: Number of workers; None = 1, or none beside a chief.
        ps: Number of parameter servers; None = none.
        chief: Whether there is a chief.
        name: The job's name; None = that of the program.
        image: Container image of every role, on a cluster.
        code: Folder with the files of the program; None = none are shipped.
        code_bucket: The URL of a folder of a bucket by which they reach the replicas; None = a ConfigMap.
        overrides: Fields of the job to override, each `PATH=VALUE` as for `--set`.
        on: local, kubernetes, or a platform's name; None = local.
        system: The job system; None = local, or on a cluster what fits it.
        context: Context of the kubeconfig; empty = the current one.
        namespace: Namespace on the cluster; empty = that of the context.
        run_id: Id of the run; None = a new one. The id of an ended run makes another attempt.
        task: Name of the task within the run; None = the job's.
        check: Raise RunFailed if the job does not succeed. False = return the failed attempt.
        display: Show status, last lines and curves while it runs; None = in notebooks only.
        on_change: Called with the attempt after each change of the job or of a replica. It must be quick.

    Raises:
        SpecError: The job is wrong, or cannot run on this system. Nothing was created.
        RunStopped: The job was stopped; also with `check=False`, so that an interrupt ends a loop over jobs.
        RunFailed: The job did not succeed.
        CommandError: It could not be launched, or could not be followed to its end.
    """
    options = JobOptions(workers, ps, chief, name, image, None if code is None else os.fspath(code), code_bucket)
    with _commands() as notes:
        source = _job_input(job, command, options, overrides)
        chosen, location = choose(on, system, context, namespace)
        plan = make_plan(source, chosen, location, run_id, task)
        notes.extend(plan.warnings)
        metrics = [*plan.job.outputs.metrics.values()]
        with Watcher(notes, metrics, on_change, display=in_notebook() if display is None else display) as watcher:
            try:
                status = launch_plan(plan, [watcher])
            except LaunchError as error:
                raise launch_failed(plan.identity.task, error) from error
            attempt = Attempt.of(status, notes=notes)
            watcher.end(attempt)
    if attempt.state is State.CANCELLED:
        raise RunStopped(attempt)
    if check and not attempt.succeeded:
        raise RunFailed(attempt)
    return attempt


def _job_input(
    job: str | os.PathLike[str] | Mapping[str, Any] | None,
    command: Sequence[str | os.PathLike[str] | float] | None,
    options: JobOptions,
    overrides: Sequence[str],
) -> JobInput:
    if not isinstance(job, str | os.PathLike | Mapping | None):
        raise CommandError(
            f"job is a {type(job).__name__}; give a job file's path, or a mapping with the fields of one"
        )
    if isinstance(command, str):
        raise CommandError(f"command is the text {command!r}; give a list: {shlex.split(command, comments=False)}")
    if not isinstance(command, Sequence | None) or isinstance(command, bytes):
        raise CommandError(f'command is {command!r:.80}; give a list, such as ["python", "train.py"]')
    if not isinstance(job, Mapping):
        words = None if command is None else [*map(_word, command)]
        return read(None if job is None else os.fspath(job), words, options, overrides)
    if command is not None or options.used:
        raise CommandError("a job as a mapping has all fields of a job file; leave out command, workers and the others")
    source = "the job"
    parsed = spec.from_plain(dict(job), source, registry.options(), overrides)
    return JobInput(parsed, source, pathlib.Path.cwd(), set_by(overrides))


def _word(word: str | os.PathLike[str] | float) -> str:
    """Return a word of a command as text, as a job file takes it. SpecError if it is none."""
    match word:
        case str():
            return word
        case os.PathLike():
            return os.fspath(word)
        case bool() | int() | float():
            with contextlib.suppress(ValueError):  # it has more digits than Python writes
                return flow(word)
    fix = "Write a text, a path or a number"
    raise SpecError([Problem(path=("command",), value=shown(word), wrong="is not a word", fix=fix)], COMMAND_LINE)


@checked("since")
def runs(
    run: str | None = None,
    *,
    state: str | Sequence[str] = (),
    task: str | None = None,
    pipeline: str | None = None,
    labels: Mapping[str, str] | None = None,
    since: Since = None,
    limit: int | None = None,
    sort: str = "created",
    on: str = "local",
    context: str = "",
    namespace: str = "",
    all_namespaces: bool = False,
    records: str = "",
) -> RunList:
    """Return runs, the newest first: an entry for each attempt at a task, and one for each pipeline of this machine.

    Args:
        run: Only this run, named as for `show`; None = all.
        state: Only in this state, or one of these; empty = any.
        task: Only this task; None = all.
        pipeline: Only this pipeline; None = all, and jobs outside of pipelines.
        labels: Only jobs with all of these labels.
        since: Only created since then: a time, how long ago, or text such as `2h`; None = whenever.
        limit: At most so many; None = all.
        sort: created, duration, task, or the name of a metric, the highest value first.
        on: local, kubernetes, or a platform's name.
        context: Context of the kubeconfig; empty = the current one.
        namespace: Namespace on the cluster; empty = that of the context.
        all_namespaces: Look in all of them.
        records: Look in the stored records at this address, and nowhere else; empty = do not.

    Raises:
        CommandError: An argument is wrong, the run is unknown, or a server does not answer.
    """
    if limit is not None and limit < 1:
        raise CommandError(f"limit {limit} lists nothing: give 1 or more, or leave it out")
    texts = [f"{key}={value}" for key, value in (labels or {}).items()]
    now = time.time()
    selects = run_list.Filter(
        run_list.parse_states([state] if isinstance(state, str) else state), task, pipeline, _since(since, now)
    )
    with (
        _commands() as notes,
        open_backend(BackendLocation(on, context, namespace, all_namespaces, records), gone=True) as backend,
    ):
        entries = run_list.entries(backend, run, run_list.parse_labels(texts), here=on == Location.LOCAL)
        run_list.check_sort(sort, entries, [])
        chosen = run_list.ordered([entry for entry in entries if selects.matches(entry)], sort, now)[:limit]
        shown = (Attempt.of(entry.status, is_job=entry.is_job, demo=entry.demo) for entry in chosen)
        return RunList(tuple(shown), tuple(notes))


@checked()
def show(
    run: str,
    *,
    task: str | None = None,
    attempt: int | None = None,
    on: str | None = None,
    context: str = "",
    namespace: str = "",
    all_namespaces: bool = False,
    records: str = "",
) -> Run:
    """Return what a run consists of, and the status of its attempts.

    Args:
        run: Id of the run, the beginning of one, or `latest`; the name of a task, a job or a pipeline: its newest run.
        task: Only this task; None = all.
        attempt: The number of the attempt; None = the newest of each task.
        on: local, kubernetes, or a platform's name; None = local, or the platform of a run that this machine records.
        context: Context of the kubeconfig; empty = the current one.
        namespace: Namespace on the cluster; empty = that of the context.
        all_namespaces: Look in all of them.
        records: Look in the stored records at this address, and nowhere else; empty = do not.

    Raises:
        CommandError: The run, task or attempt is unknown, or a server does not answer.
    """
    selection = Selection(run, task, attempt)
    with _commands() as collected_notes:
        location = located(selection, on, context, namespace, everywhere=all_namespaces, records=records)
        with open_backend(location, gone=True) as backend:
            target = backend.find(run)
            whole = target.pipeline if selection.whole else None
            jobs = selection.choose(target.jobs) if whole else selection.parts(target)[0]
            statuses = sorted(map(backend.explain, jobs), key=lambda status: status.created)
            root, notes = run_graph(backend, target, selection, statuses, again=False)
            return Run(
                target.id,
                tuple(map(Attempt.of, statuses)),
                pipeline_verdict(whole) if whole else "",
                tuple(map(str, run_tree.tree(root, any_character=True))),
                (*collected_notes, *notes),
            )


@checked("since")
def logs(
    run: str,
    replicas: str | Sequence[str] = (),
    *,
    task: str | Sequence[str] = (),
    attempt: int | None = None,
    grep: str | None = None,
    ignore_case: bool = False,
    around: int = 0,
    since: Since = None,
    tail: int | None = None,
    on: str | None = None,
    context: str = "",
    namespace: str = "",
    all_namespaces: bool = False,
    records: str = "",
) -> Log:
    """Return the log lines of a run so far.

    Args:
        run: The run, named as for `show`.
        replicas: Only these: a role, `worker`; a replica, `worker-1`; a container, `worker-1/init-data`; empty = all.
        task: Only this task, or these; empty = all.
        attempt: The number of the attempt; None = the newest of each task.
        grep: Only lines in which this regular expression is found; None = all.
        ignore_case: `grep` ignores upper and lower case.
        around: With `grep`: also so many lines of the same replica before and after each line found.
        since: Only lines since then: a time, how long ago, or text such as `10m`; None = whenever.
        tail: Only the last lines, as many as this, of those that the other arguments choose; None = all.
        on: local, kubernetes, or a platform's name; None = local, or the platform of a run that this machine records.
        context: Context of the kubeconfig; empty = the current one.
        namespace: Namespace on the cluster; empty = that of the context.
        all_namespaces: Look in all of them.
        records: Look in the stored records at this address, and nowhere else; empty = do not.

    Raises:
        CommandError: The run, task, attempt or replica is unknown, an argument is wrong, or a server does not answer.
    """
    if grep is None and (ignore_case or around):
        raise CommandError("ignore_case and around are about grep; add grep, or leave them out")
    if not all(0 <= lines <= MOST_LINES for lines in (around, tail or 0)):
        wrong = f"around={shown(around)} and tail={shown(tail)} are numbers of lines"
        raise CommandError(f"{wrong}: give 0 or more, at most {MOST_LINES}, or leave them out")
    pattern = None if grep is None else compile_grep(grep, ignore_case=ignore_case)
    names = [replicas] if isinstance(replicas, str) else list(dict.fromkeys(replicas))
    selection = Selection(run, None, attempt, (task,) if isinstance(task, str) else tuple(task))
    _since(since, time.time())  # a wrong time is refused before anything is read
    lines: list[LogLine] = []
    options = LogOptions(lambda _: True, tail=tail, grep=pattern, around=around, receive=lines.append)
    with _commands() as notes:
        location = located(selection, on, context, namespace, everywhere=all_namespaces, records=records)
        with open_backend(location, gone=True) as backend:
            run_id, _ = pass_log(backend, selection, names, options, lambda now: _since(since, now) or 0.0)
    return Log(run_id, tuple(map(_line, lines)), tuple(notes))


@checked()
def compare(
    *runs: str | Attempt,
    task: str | None = None,
    on: str = "local",
    context: str = "",
    namespace: str = "",
    all_namespaces: bool = False,
    records: str = "",
) -> Comparison:
    """Compare the newest attempts of two runs or more: states, durations, metrics, curves, and the inputs that differ.

    Args:
        *runs: The runs, named as for `show`, or attempts of them.
        task: The task to compare; None = the newest that all runs have.
        on: local, kubernetes, or a platform's name.
        context: Context of the kubeconfig; empty = the current one.
        namespace: Namespace on the cluster; empty = that of the context.
        all_namespaces: Look in all of them.
        records: Look in the stored records at this address, and nowhere else; empty = do not.

    Raises:
        CommandError: There are fewer than two runs, one is unknown or named twice, or a server does not answer.
    """
    names = [run.run if isinstance(run, Attempt) else run for run in runs]
    with (
        _commands() as notes,
        open_backend(BackendLocation(on, context, namespace, all_namespaces, records), gone=True) as backend,
    ):
        return Comparison.of(compared_runs(backend, names, task), notes)


def _line(line: LogLine) -> Line:
    at = dt.datetime.fromisoformat(line.stamp)
    return Line(at, line.task, line.source, line.incarnation, line.text.decode(errors="replace"))


def _since(since: Since, now: float) -> float | None:
    match since:
        case None:
            return None
        case dt.timedelta():
            return run_list.bounded(now - since.total_seconds())
        case dt.datetime():
            with contextlib.suppress(ValueError, OverflowError, OSError):
                return run_list.bounded(since.timestamp())
        case str():
            return run_list.parse_since(since, now)
    raise CommandError(f"since is {since!r}; give text such as 2h, a datetime, a timedelta, or None")


@contextlib.contextmanager
def _commands() -> Iterator[list[str]]:
    """Yield a list that gets what the commands would print to standard error; a LaunchError becomes a CommandError."""
    try:
        with collected() as notes:
            yield notes
    except LaunchError as error:
        raise CommandError(str(error), ExitCode.PLATFORM if error.retryable else ExitCode.USAGE) from error

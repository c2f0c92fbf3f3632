"""`tfsteps clear`: removes everything of one run, wherever it is."""

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer

from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.find import KnownRun, Selection, match_id
from tfsteps.backends.local.backend import LocalBackend, known_runs
from tfsteps.backends.local.log import LocalAttempt
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.commands import rm
from tfsteps.cli.commands.rm import DryRun
from tfsteps.cli.completion import complete_run
from tfsteps.cli.place_options import Context, Namespace, OnOption
from tfsteps.console.errors import CommandError
from tfsteps.console.inputs import confirmed
from tfsteps.console.messages import say, warn
from tfsteps.console.text import clean
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.report import write_run
from tfsteps.runs import removal, store
from tfsteps.runs.identity import name_problem
from tfsteps.runs.location import Location
from tfsteps.runs.removal import read_records
from tfsteps.runs.store import LATEST
from tfsteps.runs.survivors import survivors
from tfsteps.spec import format_bytes

if TYPE_CHECKING:
    from tfsteps.cli.clearing import Clearing


def clear(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Id of the run, or its beginning; no name.", autocompletion=complete_run),
    ],
    *,
    task: Annotated[
        str | None, typer.Option(help="Only what is of this task; what does not name its task is left.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: DryRun = False,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
) -> None:
    """Remove everything of a run, or of one task of it, ended or not: jobs, pods, services, TensorBoards and records.

    Running jobs are stopped. Without --on, the records of this machine say where the run is. Workflows of an engine,
    and output outside of the run folder, are not touched. Demos are read-only.
    """
    named = bool(on or context or namespace)
    explicit = located(Selection(run, task), on or Location.KUBERNETES, context, namespace) if named else None
    if explicit and explicit.on == Location.LOCAL:
        explicit = None
    if task is not None and (wrong := name_problem(task)):
        raise CommandError(f"--task {task!r} {wrong}")
    scope = Scope(_resolved(run, explicit), task or "")
    words = ["tfsteps", "clear", scope.run, *(["--task", scope.task] if scope.task else [])]
    command = f"{shlex.join(words)}{explicit.options if explicit else ''}"
    clear_scope(scope, explicit, on, context, command, yes=yes, dry_run=dry_run)


class Scope(NamedTuple):
    """What is to be removed.

    Attributes:
        run: Id of the run.
        task: The task; empty = all tasks.
        whole_run: Whether the run is the task's own: then what names no task is the task's, too.
    """

    run: str
    task: str = ""
    whole_run: bool = False

    def __str__(self) -> str:
        """Return `run r1, task train`, for messages."""
        return clean(f"run {self.run}, task {self.task}" if self.task and not self.whole_run else f"run {self.run}")


def clear_scope(
    scope: Scope,
    explicit: BackendLocation | None,
    on: str | None,
    context: str,
    command: str,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Show everything in a scope, and remove it with the user's consent; arguments as for `contents`.

    `command` is what the user wrote, for a message; without `--yes`.

    Raises:
        CommandError: There is no consent, or something is left.
    """
    with contents(scope, explicit, on, context) as there:
        with rm.reading():
            lines = there.lines()
        if not lines:
            print(f"{scope}: nothing to clear {there.where}")
        else:
            heading = f"{scope}: {'would be' if dry_run else 'to be'} removed"
            print(heading, *(line.strip() for line in lines), sep="\n  ")
        for warning in there.warnings():
            warn(warning)
        if dry_run or not lines:
            return
        instead = f"nothing was removed: without a terminal, add --yes: `{command} --yes`"
        if not confirmed("Remove all of this?", yes=yes, without_terminal=instead):
            say("nothing was removed")
            return
        there.remove()
    print(f"{scope} cleared")


@contextlib.contextmanager
def contents(scope: Scope, explicit: BackendLocation | None, on: str | None, context: str) -> "Iterator[Contents]":
    """Yield what is in a scope.

    Args:
        scope: The run, or one task of it.
        explicit: Where to look beside this machine; None = only where its records say that it is.
        on: The option `--on`: LOCAL = look at no other place; None = not used.
        context: Context of the kubeconfig for the places of the records; empty = as recorded, else the current one.

    Raises:
        CommandError: A place cannot be asked, or a part of the run is a demo.
    """
    run, task, whole_run = scope
    with rm.reading():
        try:
            removal.check_changeable(run)
        except removal.InUseError as error:
            raise CommandError(str(error)) from error
        unread = list[str]()
        jobs = [job for job in LocalBackend(warn=unread.append).jobs(run) if task in ("", job.status.identity.task)]
        if unread and not explicit and on is None:
            why = f"{'; '.join(unread)}: where its jobs are is not known"
            fix = f"say so by --on, or remove only the records by `tfsteps rm {shlex.quote(run)}`"
            raise CommandError(f"run {run}: {why}; {fix}; nothing was removed", ExitCode.PLATFORM)
        for text in unread:
            warn(text)
    from tfsteps.cli.clearing import clearing  # noqa: PLC0415  it imports the client of clusters

    recorded = [] if on == Location.LOCAL else _recorded_places(jobs, context)
    locations = list(dict.fromkeys([*([explicit] if explicit else []), *recorded]))
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(clearing(location, run, task, whole_run=whole_run)) for location in locations]
        yield Contents(scope, jobs, locations, parts)


class Contents(NamedTuple):
    """What is in a scope, on this machine and in other places.

    Attributes:
        scope: The run, or one task of it.
        jobs: What this machine records.
        locations: The other places.
        parts: What is there, in the same order.
    """

    scope: Scope
    jobs: Sequence[LocalAttempt]
    locations: Sequence[BackendLocation]
    parts: "Sequence[Clearing]"

    @property
    def where(self) -> str:
        """The locations as a user names them."""
        return " or ".join([*(f"with{location.options}" for location in self.locations), f"in {store.home()}"])

    def lines(self) -> list[str]:
        return [*_launchers(self.jobs), *(line for part in self.parts for line in part.lines()), *_records(self.scope)]

    def warnings(self) -> list[str]:
        run, task, _ = self.scope
        pipeline = task and store.pipeline_folder(run).exists()
        left = [f"left: the files of the pipeline in {store.pipeline_folder(run)}"] if pipeline else []
        return list(dict.fromkeys([*(text for part in self.parts for text in part.warnings()), *left]))

    def remove(self) -> None:
        """Stop and remove everything, the records last. CommandError if something is left; the records are kept."""
        run, task, _ = self.scope
        if task:
            try:
                removal.check_pipeline(run)
            except removal.InUseError as used:
                raise CommandError(f"{used}; nothing was removed") from used
        if running := [job for job in self.jobs if not (job.alive.no and survivors(job.attempt, job.status).left.no)]:
            LocalBackend().stop(running, now=False)  # through their launchers, and wait until these have ended
        if errors := [error for part in self.parts for error in part.clear()]:
            raise CommandError("; ".join([*errors, "the rest was removed; fix the cause and retry"]), ExitCode.PLATFORM)
        rm.fail([error] if (error := rm.remove(run, task)) else [])
        if task and store.attempts(run):
            with contextlib.suppress(OSError):  # `tfsteps report` writes it again
                write_run(run)


def _resolved(text: str, location: BackendLocation | None) -> str:
    """Return the id of the run; `text` itself if no job and no record of such a run is known.

    Raises:
        CommandError: Several ids begin with it, or it is a name.
    """
    if text == LATEST or not text:
        raise CommandError(f"{text!r} cannot be cleared: write the id of the run, or its beginning")
    known = known_runs().known
    if location:
        with open_backend(location) as backend:
            known = [*known, *(KnownRun.of(job) for job in backend.jobs())]
    names = {name for item in known for name in (*item.names, item.run_object)}
    if text not in names and not any(item.id.startswith(text) for item in known):
        return text
    return match_id(text, known, "here")


def _recorded_places(jobs: Sequence[LocalAttempt], context: str) -> list[BackendLocation]:
    """Return where launchers of this machine have started jobs of the run."""
    recorded = [BackendLocation.of(job.status) for job in jobs]
    known = [location for location in recorded if location.on != Location.LOCAL]
    return list(
        dict.fromkeys(location.by(context) if location.on == Location.KUBERNETES else location for location in known)
    )


def _launchers(jobs: Sequence[LocalAttempt]) -> list[str]:
    return [f"running job {clean(job.status.job)} on {job.status.system}" for job in jobs if job.running]


def _records(scope: Scope) -> list[str]:
    run, task, _ = scope
    extent = removal.extent(run, task)
    folder = store.task_folder(run, task) if task else store.run_folder(run)
    if not (extent.attempts or extent.size or folder.is_dir()):
        return []
    attempts = f"{extent.attempts} attempt{'s' * (extent.attempts != 1)}"
    records = read_records(run)
    statuses = [status for status in records.statuses if task in ("", status.identity.task)]
    notes = rm.notes(msgspec.structs.replace(records, statuses=statuses))
    return [f"records on this machine: {attempts}, {format_bytes(extent.size)}", *notes]

"""What a user names: a run, its jobs, and their replicas and containers; and commands in these.

Replicas and containers are named as `worker`, `worker-1`, `worker-1/init-data`.
"""

import contextlib
import difflib
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Generic, NoReturn, Protocol, TypeVar
from urllib.parse import unquote

import msgspec

from tfsteps.console.errors import CommandError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.demo import Mark
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.identity import Identity, name_problem
from tfsteps.runs.pipeline_record import PipelineRecord, StepRecord
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.runs.store import LATEST, AttemptFolder, quote

_SHOWN = 3  # suggestions in a message
_NEAR = 0.6  # similarity from which a suggestion is made
_NAMED = 10  # replicas in a message


class Job(Protocol):
    """One attempt at a task, as it was when it was looked at."""

    @property
    def status(self) -> Status:
        """Its status; a failure summary may be missing."""

    @property
    def run_object(self) -> str:
        """The name of the object of its run on a cluster, such as a Workflow; empty = none."""

    @property
    def demo(self) -> Mark | None:
        """The mark of a demo; None = it is none."""


JobT = TypeVar("JobT", bound=Job)


class FoundRun(msgspec.Struct, Generic[JobT], frozen=True):
    """A run.

    Attributes:
        id: Its id.
        jobs: All attempts at all its tasks, the oldest first.
        pipeline: The record of its pipeline: on this machine, or on a cluster, without a job; None = there is none.
        unread: The folders of attempts whose status cannot be read, so that they are not among `jobs`.
        unread_pipeline: The file of the record of its pipeline, if it cannot be read.
    """

    id: str
    jobs: Sequence[JobT]
    pipeline: PipelineRecord | None = None
    unread: Sequence[AttemptFolder] = ()
    unread_pipeline: pathlib.Path | None = None

    @property
    def steps(self) -> list[StepRecord]:
        """The tries of the pipeline's steps that launched no job, or failed though their job succeeded."""
        states = {job.status.identity.task: job.status.state for job in self.jobs}
        return self.pipeline.without_job(states) if self.pipeline else []


class KnownRun(msgspec.Struct, frozen=True):
    """What a run can be called.

    Attributes:
        id: Its id.
        run_object: The name of its object on a cluster, such as a Workflow; empty = none.
        names: Names of its tasks, jobs and pipeline.
    """

    id: str
    run_object: str = ""
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, job: Job, run: str = "") -> "KnownRun":
        """Return what the run of a job can be called after this job; `run` is its id, empty = that of the status."""
        status = job.status
        names = {status.identity.task, status.identity.pipeline, status.job, Identity.stem(status.job)}
        return cls(run or status.identity.run, job.run_object, frozenset(names - {""}))

    @classmethod
    def of_pipeline(cls, record: PipelineRecord) -> "KnownRun":
        """Return what a run without a job can be called."""
        return cls(record.run, record.run_object, frozenset({record.pipeline} - {""}))


class Selection(msgspec.Struct, frozen=True):
    """Which jobs of which run a command is about, as the user typed it.

    Attributes:
        run: An id, the beginning of one, `latest`, or the name of an object of a run, a task, job or pipeline.
        task: The one task; None = all tasks, or those of `tasks`.
        attempt: The number of the attempt; None = the newest of each task.
        tasks: Several tasks; empty = as `task` says.
    """

    run: str
    task: str | None = None
    attempt: int | None = None
    tasks: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether no task and no attempt is selected."""
        return self.attempt is None and not self._tasks()

    def includes(self, job: Job) -> bool:
        """Return whether a job of the run is of the selected task and attempt; without an attempt, all are."""
        identity = job.status.identity
        return self.task in (None, identity.task) and self.attempt in (None, identity.attempt)

    def choose(self, jobs: Sequence[JobT]) -> list[JobT]:
        """Return the selected ones among all jobs of the run, ordered by task; there may be none."""
        attempts = sorted(self._of_task(jobs), key=_task_and_attempt)
        if self.attempt is None:
            return list({job.status.identity.task: job for job in attempts}.values())
        return [job for job in attempts if job.status.identity.attempt == self.attempt]

    def of(self, run: FoundRun[JobT]) -> list[JobT]:
        """Return the selected jobs of the run, of those that can be read. CommandError if there are none."""
        known = {job.status.identity.task for job in run.jobs}
        unknown = next((task for task in self.tasks if run.jobs and task not in known), None)
        if unknown is not None:
            raise CommandError(f"run {run.id}: task {unknown!r} is unknown; it has {_some(sorted(known))}")
        if jobs := self.choose(run.jobs):
            return jobs
        self.check_read(run)
        if attempts := self._of_task(run.jobs):
            numbers = sorted({job.status.identity.attempt for job in attempts})
            there = ", ".join(map(str, numbers))
            raise CommandError(f"run {run.id}: attempt {self.attempt} is unknown; there is {there}")
        if self.task is None:
            raise CommandError(
                f"run {run.id} has no jobs; `tfsteps show {run.id}` with the same options says how it ended"
            )
        raise CommandError(f"run {run.id}: task {self.task!r} is unknown; it has {_some(sorted(known)) or 'none'}")

    def certain(self, run: FoundRun[JobT]) -> list[JobT]:
        """Return the selected jobs of the run, for a command that acts on them, or reports how they ended.

        CommandError if there are none, or if another attempt may be selected whose status cannot be read.
        """
        jobs = self.of(run)
        self.check_read(run)
        return jobs

    def check_read(self, run: FoundRun[JobT]) -> None:
        """Raise CommandError if an attempt, or the pipeline, may be selected that cannot be read; names the file."""
        if run.unread_pipeline and self.whole:
            why = f"{run.unread_pipeline} cannot be read; --task selects a job"
            raise CommandError(f"run {run.id}: the state of its pipeline is not known: {why}", ExitCode.PLATFORM)
        newest = {
            quote(job.status.identity.task): job.status.identity.attempt
            for job in sorted(run.jobs, key=_task_and_attempt)
        }
        tasks = [quote(task) for task in self._tasks()]
        for unread in run.unread:
            task, number = unread.folder.parent.name, int(unread.folder.name)
            later = number > newest.get(task, -1) if self.attempt is None else number == self.attempt
            if later and (not tasks or task in tasks):
                what = f"run {run.id}: the state of task {unquote(task)}, attempt {number}, is not known"
                raise CommandError(f"{what}: {unread.unreadable}", ExitCode.PLATFORM)

    def parts(self, run: FoundRun[JobT]) -> tuple[list[JobT], list[StepRecord]]:
        """Return the selected jobs of the run, and the tries of its pipeline's selected steps that launched no job.

        CommandError if there is neither; it names what exists.
        """
        if not (chosen := self.steps(run)):
            return self.of(run), []
        known = {job.status.identity.task for job in run.jobs} | {step.name for step in run.steps}
        if unknown := [task for task in self.tasks if task not in known]:
            raise CommandError(f"run {run.id}: task {unknown[0]!r} is unknown; it has {_some(sorted(known))}")
        return self.choose(run.jobs), chosen

    def steps(self, run: FoundRun[JobT]) -> list[StepRecord]:
        """Return the tries of the selected steps that launched no job; none if an attempt at a job is selected."""
        tasks = self._tasks()
        return [step for step in run.steps if self.attempt is None and (not tasks or step.name in tasks)]

    def _tasks(self) -> tuple[str, ...]:
        return self.tasks or ((self.task,) if self.task is not None else ())

    def _of_task(self, jobs: Sequence[JobT]) -> list[JobT]:
        tasks = self._tasks()
        return [job for job in jobs if not tasks or job.status.identity.task in tasks]


def _task_and_attempt(job: Job) -> tuple[str, int]:
    return job.status.identity.task, job.status.identity.attempt


def run_among(
    jobs: Sequence[JobT],
    text: str,
    where: str,
    options: str,
    pipelines: Callable[[], Sequence[PipelineRecord]] = lambda: (),
) -> FoundRun[JobT]:
    """Return the run that is called `text`, from the jobs of all runs; see `match_run`.

    Args:
        jobs: Of all runs.
        text: What the user typed.
        where: As for `match_run`.
        options: As for `match_run`.
        pipelines: Reads the runs that have no job; not called if `text` is the id of a run that has one.
    """
    known = [(job.status.created, KnownRun.of(job)) for job in jobs]
    records: dict[str, PipelineRecord] = {}
    if not any(run.id == text for _, run in known):
        records = {record.run: record for record in pipelines()}
        known += [(record.created, KnownRun.of_pipeline(record)) for record in records.values()]
        known.sort(key=itemgetter(0))
    run = match_run(text, [run for _, run in known], where, options)
    return FoundRun(run, [job for job in jobs if job.status.identity.run == run], records.get(run))


def run_id_problem(run_id: str) -> str:
    """Return why a user cannot give a new run this id, and what to do; empty = it can be used.

    The names of jobs and tasks are free: a job called `latest` is found by the id of its run.
    """
    return "cannot be used: it means the newest run; give another name" if run_id == LATEST else task_problem(run_id)


def task_problem(task: str) -> str:
    """Return why a user cannot give a task this name, and what to do; empty = it can be used."""
    is_option = "cannot be used: commands read it as an option; give another name"
    return name_problem(task) or (is_option if task.startswith("-") else "")


def match_run(text: str, known: Sequence[KnownRun], where: str, options: str = "") -> str:
    """Return the id of the run that is called `text`.

    The first of these that matches: an id, `latest`, a Workflow's name, the beginning of one id, a name. A name means
    the newest run that has it. It also does if ids begin with it, as new ids do, and one of these runs has the name.

    Args:
        text: What the user typed.
        known: The runs, the newest last; a run may occur several times, once for each of its jobs.
        where: The place they were looked for, for messages.
        options: The options of that place, with a space before each.

    Raises:
        CommandError: No run matches, or more than one; names the nearest.
    """
    runs = list(dict.fromkeys(run.id for run in known))
    if not runs:
        raise CommandError(f"run {text!r} is unknown: there are no runs {where}; start one with `tfsteps run{options}`")
    if text in runs:
        return text
    if text == LATEST:
        return runs[-1]
    of_object = list(dict.fromkeys(run.id for run in known if text and run.run_object == text))
    if len(of_object) > 1:  # objects of one name in several namespaces, or steps with run ids of their own
        raise CommandError(f"{text!r} has several runs: {', '.join(of_object)}; write the id of one")
    matches = of_object or [run for run in runs if text and run.startswith(text)]
    named = [run.id for run in known if text in run.names]
    if named and (not matches or (not of_object and not set(matches).isdisjoint(named))):
        return named[-1]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise CommandError(f"run {text!r} is ambiguous: {_some(matches)}; write more of the id")
    near = _nearest(text, known) if text else []
    listed = f"nearest: {_some(near)}" if near else f"newest: {_some(runs[: -_SHOWN - 1 : -1])}"
    raise CommandError(f"run {text!r} is unknown; {listed}; `tfsteps runs{options}` lists all")


def match_id(text: str, known: Sequence[KnownRun], where: str) -> str:
    """Return the id of the run whose id is `text` or begins with it; of `latest`, the newest. For removals.

    Args:
        text: What the user typed.
        known: The runs, as for `match_run`.
        where: The place they were looked for, for messages.

    Raises:
        CommandError: No id matches, or more than one; a name is refused with the id that it means.
    """
    ids = list(dict.fromkeys(run.id for run in known))
    matches = [run for run in ids if text and run.startswith(text)]
    if text in ids or (text == LATEST and ids) or len(matches) == 1:
        return match_run(text, [KnownRun(run) for run in ids], where)
    if matches:
        raise CommandError(f"run {text!r} is ambiguous: {_some(matches)}; write more of the id")
    newest = match_run(text, known, where)  # raises if it is no name either
    raise CommandError(f"{text!r} is a name, and what it means may change: write the id, such as {newest}")


def _nearest(text: str, known: Sequence[KnownRun]) -> list[str]:
    """Return the names and ids that are spelled like `text`, or that begin so; the most similar first."""
    names = sorted({name for run in known for name in run.names})
    ids = [name for run in reversed(known) for name in (run.id, run.run_object) if name]
    scores = {name: _similarity(text.lower(), name.lower()) for name in dict.fromkeys([*names, *ids, LATEST])}
    near = [name for name, score in scores.items() if score >= _NEAR]
    return sorted(near, key=lambda name: -scores[name])[:_SHOWN]


def _similarity(text: str, name: str) -> float:
    """Return how similar two texts are, 0 to 1: as a whole, or `text` and as much of the beginning of `name`."""
    matcher = difflib.SequenceMatcher(b=text, autojunk=False)  # which keeps what it computes of `b`

    def ratio(other: str) -> float:
        matcher.set_seq1(other)
        return matcher.ratio() if matcher.quick_ratio() >= _NEAR else 0.0

    return max(ratio(name), ratio(name[: len(text)]))


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


class ReplicaFilter:
    """Matches the sources of log lines: a replica's program, `worker-1`, and its other containers, `worker-1/init`."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Take names as typed; each is a role, a replica, or a container of either. None = match all sources.

        The name of a role or of a replica also matches all its containers.
        """
        self._names = [(name, *name.partition("/")[::2]) for name in dict.fromkeys(names)]

    def check(self, run: str, replicas: Iterable[str], containers: Iterable[str]) -> None:
        """Raise CommandError for a name that matches nothing; it lists what exists.

        Args:
            run: Id of the run, for the message.
            replicas: Names of all replicas, `worker-1`; none = they are not known, and all names are accepted.
            containers: The other sources, `worker-1/init-data`.
        """
        known, others = list(dict.fromkeys(replicas)), list(dict.fromkeys(containers))
        for name, replica, container in self._names if known else ():
            matching = [candidate for candidate in known if _is_of(candidate, replica)]
            if not matching:
                raise CommandError(f"run {run}: replica {name!r} is unknown; it has {some(known)}")
            beside = [source for source in others if source.partition("/")[0] in matching]
            if "/" in name and not any(source.partition("/")[2] == container for source in beside):
                problem = f"run {run}: {replica} has no container {container!r} beside its program"
                raise CommandError(f"{problem}; there is {some(beside) or 'no other container'}")

    def matches(self, source: str) -> bool:
        """Tell whether a source is selected."""
        if not self._names:
            return True
        of, _, container = source.partition("/")
        return any(
            _is_of(of, replica) and container_name in ("", container) for _, replica, container_name in self._names
        )


def _is_of(replica: str, name: str) -> bool:
    """Tell whether a replica is called `name`, or has the role `name`."""
    return name in (replica, replica.rpartition("-")[0])


def running_replica(status: Status, name: str | None) -> ReplicaStatus:
    """Return the replica that a user names; None = the one that decides how the job ends.

    Raises:
        CommandError: There is no such replica, or it does not run. The message lists those that run.
    """
    replica = named_replica(status, name)
    if replica.state is not ReplicaState.RUNNING:
        running = [other.name for other in status.replicas if other.state is ReplicaState.RUNNING]
        who = f"run {status.identity.run}: {replica.name} of {status.identity.task} is {replica.state}"
        raise CommandError(f"{who}; running: {some(running) or 'none'}")
    return replica


def named_replica(status: Status, name: str | None) -> ReplicaStatus:
    """Return the replica that a user names; None = the one that decides how the job ends.

    A role names its only replica. CommandError if there is no such replica; it lists those that exist.
    """
    name = name or status.decisive_replica
    matching = [replica for replica in status.replicas if replica.name == name]
    matching = matching or [replica for replica in status.replicas if replica.role == name]
    if len(matching) == 1:
        return matching[0]
    who = f"run {status.identity.run}: replica {name!r} is {'ambiguous' if matching else 'unknown'}"
    names = [replica.name for replica in matching or status.replicas]
    raise CommandError(f"{who}; {'choose one of' if matching else 'it has'} {some(names) or 'no replicas'}")


def some(names: Sequence[str]) -> str:
    """Return names with commas between; of many, the first and the last."""
    return ", ".join(names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"... {names[-1]}"])


def replace_process(argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: str = "") -> NoReturn:
    """Run `argv` in place of this process.

    Args:
        argv: Program, which is looked up in PATH of `env`, and arguments.
        env: The whole environment; None = that of this process.
        cwd: Folder to start in; empty = the current one.

    Raises:
        CommandError: The program or the folder cannot be used.
    """
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    try:
        if cwd:
            os.chdir(cwd)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], [*argv], os.environ if env is None else env)  # noqa: S606  the user's own command
    except (OSError, ValueError) as error:  # ValueError: a null byte
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"{argv[0]!r} cannot be started: {reason}; correct the command after `--`") from error

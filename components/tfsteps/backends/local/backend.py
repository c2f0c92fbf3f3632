"""Runs launched from this machine: read from their run folders, stopped through their launchers.

Also a command or a shell in the folder and with the environment of one of their replicas.
"""

import collections
import contextlib
import os
import pathlib
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NoReturn

import msgspec

from tfsteps import typed_json
from tfsteps.answer import Answer
from tfsteps.backends.base import NO_LABELS, EventFolder, LogOptions, Section
from tfsteps.backends.find import (
    FoundRun,
    KnownRun,
    Selection,
    match_id,
    match_run,
    named_replica,
    replace_process,
)
from tfsteps.backends.local import log as local_log
from tfsteps.backends.local import tensorboard as local_tensorboard
from tfsteps.backends.local.log import LocalAttempt
from tfsteps.backends.records import Record, pipeline_node, recorded_job, recorded_launcher, reports_of
from tfsteps.backends.waiting import POLL_SECONDS, Changes, wait
from tfsteps.backends.whole_runs import pause_run
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say, warn
from tfsteps.console.outputs import verdict
from tfsteps.console.text import local_time
from tfsteps.json_errors import NOT_READABLE
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.recorder import Observer
from tfsteps.runs import removal, store, survivors
from tfsteps.runs.events import ReplicaName, ReplicaState, State
from tfsteps.runs.graph import Node, NodeKind, Surroundings
from tfsteps.runs.location import HomeCluster, Location
from tfsteps.runs.log_file import LogReader, segments
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import ABANDONED, CLOCK_SECONDS, ReplicaStatus, Status, may_continue
from tfsteps.runs.store import LATEST, AttemptFolder, UnreadableError
from tfsteps.spec import TrainingJob

_HINT_SECONDS = 15.0  # longer than the default grace period
_TAIL_LINES = 20

_MOMENT_SECONDS = 1.0  # for what a replica that has just been started still lacks


class LocalBackend:
    """The `RunBackend` of this machine: run folders, also of jobs elsewhere that a launcher on this machine records."""

    def __init__(self, warn: Callable[[str], None] = warn) -> None:
        """Report each record that cannot be read once, by `warn`."""
        self._warn = warn
        self._unreadable: set[pathlib.Path] = set()

    @property
    def where(self) -> str:
        unread = f", except {len(self._unreadable)} that cannot be read" if self._unreadable else ""
        return f"in {store.home()}{unread}"

    def jobs(self, run: str = "", labels: Mapping[str, str] = NO_LABELS) -> list[LocalAttempt]:
        """Return the attempts with a readable status; warn of the others. Labels are those of the recorded job.

        Of all runs, one without any record is only warned of. OSError if the folder of the one run cannot be read.
        """
        attempts = (
            store.attempts(run) if run else [attempt for name in store.runs() for attempt in self._attempts(name)]
        )
        jobs = [job for attempt in attempts if (job := self._job(attempt))]
        jobs = [job for job in jobs if not labels or labels.items() <= _labels(job).items()]
        return sorted(jobs, key=lambda job: (job.status.created, job.status.identity.attempt))

    def pipelines(self, jobs: Sequence[LocalAttempt]) -> list[PipelineRecord]:  # noqa: ARG002  all have a line
        return [record for run in store.runs() if (record := PipelineRecord.read(run))]

    def resolve(self, text: str) -> str:
        """Return the id of the run that a user calls `text`. CommandError if there is none; it names the nearest."""
        if text == LATEST:
            return self._latest()
        if text and _recorded(text):
            return text
        runs = known_runs()
        run = match_run(text, runs.known, self.where)
        if run.startswith(text):
            return run
        for why in runs.unread.values():
            self._warn(f"{why}; it may be a newer run that is called {text!r}")
        if wrong := runs.future.get(run):
            do = "write the id of the run that you mean"
            raise CommandError(f"which run is the newest that is called {text!r} is not known: {wrong}; {do}")
        return run

    def resolve_id(self, text: str) -> str:
        """Return the id of the run that is to be removed. CommandError unless `text` is an id, or begins only one."""
        if text == LATEST:
            return self._latest()
        return text if text and _recorded(text) else match_id(text, known_runs().known, self.where)

    def _latest(self) -> str:
        """Return the id of the newest run. CommandError if there is none, it cannot be read, or its time is wrong."""
        runs = store.runs()
        run = match_run(LATEST, [KnownRun(name) for name in runs], self.where)
        changed = store.run_folder(run).stat().st_mtime
        why = _unread(run) or _of_future(run, changed)
        if why and run != LATEST:
            others = (
                name
                for name in reversed(runs)
                if not _unread(name) and not _of_future(name, store.run_folder(name).stat().st_mtime)
            )
            other = next(others, "")
            do = f"write the id of another run, such as {other}" if other else "fix the cause and retry"
            raise CommandError(f"{LATEST} is run {run}, and {why}; {do}", ExitCode.PLATFORM)
        return run

    def find(self, text: str) -> FoundRun[LocalAttempt]:
        run = self.resolve(text)
        if why := _unread(run):
            raise CommandError(f"run {run}: {why}", ExitCode.PLATFORM)
        file = PipelineRecord.file(run)
        recorded = file.exists()  # first: it may be written in between
        attempts, jobs, pipeline = store.attempts(run), self.jobs(run), PipelineRecord.read(run)
        if attempts and not jobs:
            raise CommandError(attempts[-1].unreadable, ExitCode.PLATFORM)
        if not (attempts or recorded):
            raise CommandError(f"run {run}: {_unrecorded(run)}", ExitCode.PLATFORM)
        read = {job.attempt.folder for job in jobs}
        unread = [attempt for attempt in attempts if attempt.folder not in read]
        if pipeline or not recorded:
            return FoundRun(run, jobs, pipeline, unread)
        if file not in self._unreadable:
            self._unreadable.add(file)
            self._warn(f"{file} cannot be read: the state of the pipeline is not known")
        return FoundRun(run, jobs, None, unread, file)

    def recorded(self, job: LocalAttempt) -> bytes:
        return recorded_job(job.attempt)

    def record(self, job: LocalAttempt) -> Record:
        return Record(job.attempt, job.status)

    def reports(self, jobs: Sequence[LocalAttempt], most: int) -> list[pathlib.Path | None]:  # noqa: ARG002  they are here
        return reports_of(map(self.record, jobs))

    def explain(self, job: LocalAttempt) -> Status:
        return job.status

    def surroundings(self, run: str, jobs: Sequence[LocalAttempt]) -> Surroundings:
        """Return the launchers, and the pipeline if one of this machine runs or ran the jobs."""
        names = {job.status.identity.pipeline for job in jobs} - {""}
        whole = FoundRun(run, self.jobs(run), PipelineRecord.read(run))
        running = bool(names) and AttemptFolder(store.pipeline_folder(run)).alive().yes
        return Surroundings(
            pipelines=[pipeline_node(whole.pipeline, whole.steps)]
            if whole.pipeline
            else [
                Node(kind=NodeKind.PIPELINE, name=name, state="running" if running else "") for name in sorted(names)
            ],
            launchers={job.status.identity: node for job in jobs if (node := recorded_launcher(job.status))},
        )

    def follow(self, jobs: Sequence[LocalAttempt], selection: Selection, observers: Sequence[Observer]) -> list[Status]:
        """Follow the attempts until their launchers have ended: a launcher writes the report last.

        If the whole run is selected, until its pipeline has ended too.
        """
        changes = Changes(observers)
        run = self.find(jobs[0].status.identity.run if jobs else selection.run)
        while True:
            for job in jobs:
                changes.report(job.status)
            if not (any(job.running for job in jobs) or (selection.whole and _runs(run.pipeline))):
                return [job.status for job in jobs]
            time.sleep(POLL_SECONDS)
            run = self.find(run.id)
            jobs = selection.choose(run.jobs)

    def now(self) -> float:
        return time.time()

    def containers(self, job: LocalAttempt) -> list[str]:
        return local_log.containers(job)

    def print_log(self, jobs: Sequence[LocalAttempt], selection: Selection, options: LogOptions) -> int:
        run = self.find(selection.run)
        for status in [job.status for job in jobs if may_continue(job.status) and job.status.where]:
            until = "its launcher ended before it" if status.reason == ABANDONED else "no launcher follows it"
            command = shlex.join(["tfsteps", "logs", status.identity.run, *status.where])
            self._warn(f"{status.job}: {until}, so lines may be missing here; `{command}` prints those of its pods")
        with local_log.LocalLog(options) as log:
            log.print(jobs, run.pipeline, selection.steps(run), options.tail)
            while options.follow and (any(job.running for job in jobs) or _runs(run.pipeline)):
                time.sleep(POLL_SECONDS)
                run = self.find(run.id)  # `latest` may be another run by now
                jobs = selection.choose(run.jobs)
                log.print(jobs, run.pipeline, selection.steps(run))
            return log.printer.printed

    def shell(self, job: LocalAttempt, replica: str | None, command: Sequence[str]) -> NoReturn:
        replace_by(job, replica, command)

    def stop(self, jobs: Sequence[LocalAttempt], *, now: bool) -> None:
        """Send SIGTERM to the launchers on this machine, with `now` until they exit; end what a killed one left."""
        answers = [(job, job.attempt.terminate() if job.running else job.alive) for job in jobs]
        printer = Printer()  # if standard output is closed, it discards what is printed: `--now` goes on to kill
        for job, answer in answers:
            if job.running and not answer.unknown:
                self._wait(job, printer, now=now)
        problems = [_not_stopped(job, answer) for job, answer in answers if answer.unknown]
        ended = [job for job in jobs if job.alive.no]
        for job in ended:
            ends = [(item, survivors.end(item.attempt, item.status, now=now)) for item in self._and_earlier(job)]
            for item, rest in ends:
                if not rest.left.no:
                    problems.append(_may_be_left(item, rest))
                elif rest.sessions:
                    printer.say(f"ended {rest} of {job.status.identity.task}, which its killed launcher had left")
            if job.status.state.terminal and not any(rest.sessions or not rest.left.no for _, rest in ends):
                printer.say(f"already ended: {verdict(job.status)}")
        if left := [job.status for job in ended if may_continue(job.status)]:
            problems.append(_left_elsewhere(left))
        if problems:
            raise CommandError("; ".join(problems))

    def _and_earlier(self, job: LocalAttempt) -> list[LocalAttempt]:
        """Return an attempt, and the earlier ones at its task that have ended."""
        identity = job.status.identity
        attempts = [item for item in store.attempts(identity.run, identity.task) if item.folder != job.attempt.folder]
        return [job, *(item for item in map(self._job, attempts) if item and item.alive.no)]

    def set_paused(self, jobs: Sequence[LocalAttempt], selection: Selection, *, paused: bool) -> None:
        """Leave it to the job systems: processes of this machine cannot be paused."""
        run = jobs[0].status.identity.run
        if any(job.status.location == Location.KUBERNETES for job in jobs):
            raise CommandError(f"run {run}: its jobs are on a cluster; add --on kubernetes")
        pause_run(run, {job.status.system for job in jobs}, selection.task, paused=paused)

    def tensorboard(self, jobs: Sequence[LocalAttempt], port: int) -> contextlib.AbstractContextManager[str]:
        if remote := next((job.status for job in jobs if job.status.location == Location.KUBERNETES), None):
            raise CommandError(f"run {remote.identity.run}: its event files are on a cluster; add --on kubernetes")
        return local_tensorboard.opened([job.status for job in jobs], port)

    def tensorboard_at(self, folder: EventFolder, port: int) -> contextlib.AbstractContextManager[str]:
        return local_tensorboard.opened_folder(folder, port)

    def sections(self, job: LocalAttempt) -> Iterator[Section]:
        status = job.status
        yield "changes", [[local_time(item.at), item.state, item.reason, item.message] for item in status.transitions]
        if status.failure is None and job.attempt.log.exists():  # a failure summary has the lines that matter
            with LogReader(job.attempt.log) as log:
                lines = collections.deque(log.read(), maxlen=_TAIL_LINES)
            yield "last lines", [[f"[{source}]", text.decode(errors="replace")] for _, source, text in lines]

    def commands(self, job: LocalAttempt) -> list[str]:
        follow = "" if job.status.state.terminal else " --follow"
        running = [replica for replica in job.status.replicas if replica.state is ReplicaState.RUNNING]
        places = [replica.incarnations[-1].place.split() for replica in running]
        here = job.attempt.lives_here
        pids = [place[1] for place in places if here and place[:1] == ["pid"]]
        return [
            f"tfsteps logs {shlex.quote(job.status.identity.run)}{follow}",
            shlex.join(["less", str(job.attempt.log), *[str(segment.path) for segment in segments(job.attempt.log)]]),
            *(f"tr '\\0' '\\n' < /proc/{pid}/environ  # environment of the first replica" for pid in pids[:1]),
        ]

    def _attempts(self, run: str) -> list[AttemptFolder]:
        """Return the attempts of a run; none if its folder cannot be read, or has no record, with a warning once."""
        attempts, why = list[AttemptFolder](), ""
        try:
            attempts = store.attempts(run)
        except OSError as error:
            why = _unreadable(run, error)
        folder = store.run_folder(run)
        if not (attempts or PipelineRecord.read(run) or folder in self._unreadable):
            self._unreadable.add(folder)
            self._warn(why or _unrecorded(run))
        return attempts

    def _job(self, attempt: AttemptFolder) -> LocalAttempt | None:
        """Return the attempt; None if its status cannot be read, with a warning the first time."""
        try:
            alive = attempt.alive()  # first: a launcher that ends in between has written its last status before
            return LocalAttempt(attempt, alive, attempt.status())
        except OSError as error:
            if attempt.folder not in self._unreadable:
                self._unreadable.add(attempt.folder)
                file = attempt.folder / "status.json"
                self._warn(str(error) if isinstance(error, UnreadableError) else f"{file} cannot be read: {error}")
        return None

    def _wait(self, job: LocalAttempt, printer: Printer, *, now: bool) -> None:
        """Wait until the launcher of an attempt has ended, and print which replicas are still up."""
        identity = job.status.identity

        def waiting_for() -> str:
            if not job.attempt.alive().yes:
                return ""
            if now:  # a second signal kills; sent once only, it could be merged with the first
                job.attempt.terminate()
            current = self._job(job.attempt) or job
            replicas = current.status.replicas
            up = [replica.name for replica in replicas if replica.state is ReplicaState.RUNNING]
            return f"stopping {identity.task}: waiting for {', '.join(up) or 'the launcher'}"

        hint = "" if now else f"still waiting; `tfsteps stop {identity.run} --now` kills it"
        wait(waiting_for, printer.say, hint, _HINT_SECONDS)
        if ended := self._job(job.attempt):
            printer.say(verdict(ended.status))


def _unread(run: str) -> str:
    """Return that the folder of a run cannot be read, and why; empty = it can."""
    try:
        store.attempts(run)
    except OSError as error:
        return _unreadable(run, error)
    return ""


def _recorded(run: str) -> bool:
    """Return whether there is a run of this id, also one that cannot be read. A long id is cut in the folder's name."""
    try:
        return bool(store.attempts(run))
    except OSError:
        return True


def _of_future(run: str, at: float) -> str:
    """Return that a time of a run has not come yet; empty = it has. Such a run may be older than the others."""
    if at <= time.time() + CLOCK_SECONDS:
        return ""
    return f"the time of run {run}, {local_time(at)}, is in the future: check the clock of the machine that launched it"


def _unreadable(run: str, error: OSError) -> str:
    return f"{store.run_folder(run)} cannot be read: {(error.strerror or str(error)).lower()}"


def _unrecorded(run: str) -> str:
    """Return what is known of a run without a status and without a pipeline."""
    folder = store.run_folder(run)
    try:
        removal.check_unused(run, demos=True)
    except removal.InUseError as error:
        return f"{folder} has no status yet: {error.why}"
    except OSError as error:
        return f"{folder} has no status, and cannot be read: {error}"
    why = "its launcher ended before it could write one, as on a full disk"
    return f"{folder} has no status: {why}; `tfsteps rm {shlex.quote(run)}` removes it"


def _runs(pipeline: PipelineRecord | None) -> bool:
    return pipeline is not None and pipeline.state is State.RUNNING


class _Labelled(msgspec.Struct):
    """The part of `job.json` that filters need."""

    labels: dict[str, str] = {}


def _labels(job: LocalAttempt) -> dict[str, str]:
    """Return the labels of a job as on a cluster; only those that tfsteps sets if `job.json` cannot be read."""
    try:
        recorded = typed_json.decode((job.attempt.folder / "job.json").read_bytes(), _Labelled).labels
    except (OSError, *NOT_READABLE):
        recorded = {}
    return {**recorded, **job.status.identity.labels()}


class KnownRuns(msgspec.Struct):
    """The runs of this machine.

    Attributes:
        known: What they can be called: by their folders in their order, then by their jobs and pipelines.
        unread: Why a run, or a status in it, cannot be read, by its id: not all that it can be called is known.
        future: Why it is not known when a run was created, by its id.
    """

    known: list[KnownRun]
    unread: dict[str, str]
    future: dict[str, str]


def known_runs() -> KnownRuns:
    """Read the record of each run once, and return what the runs can be called."""
    runs, problems = store.runs(), list[str]()
    backend = LocalBackend(warn=problems.append)
    named, unread, future = list[tuple[float, KnownRun]](), dict[str, str](), dict[str, str]()
    for run in runs:
        try:
            named += [(job.status.created, KnownRun.of(job, run)) for job in backend.jobs(run)]
        except OSError as error:
            problems.append(_unreadable(run, error))
        if problems:
            unread[run] = "; ".join(problems)
            problems.clear()
        if record := PipelineRecord.read(run):
            named.append((record.created, KnownRun(run, names=frozenset({record.pipeline}))))
    named.sort(key=itemgetter(0))
    for created, known in named:
        if why := _of_future(known.id, created):
            future[known.id] = why
    return KnownRuns([*map(KnownRun, runs), *(known for _, known in named)], unread, future)


def left_at(selection: Selection) -> set[str]:
    """Return where killed launchers left the jobs of selected tasks; nowhere if a launcher of one of them may run."""
    try:
        run = LocalBackend(warn=lambda _: None).find(selection.run)
        jobs = Selection(run.id, selection.task, tasks=selection.tasks).of(run)
    except (CommandError, OSError):  # the command itself reports it
        return set()
    if not all(job.alive.no for job in jobs):
        return set()
    return {job.status.location for job in jobs if may_continue(job.status)}


def homes_of(run: str, cluster: str) -> set[HomeCluster]:
    """Return from where jobs of a run were launched to another cluster of this name, by the records of this machine."""
    try:
        statuses = [job.status for job in LocalBackend(warn=lambda _: None).find(run).jobs]
    except (CommandError, OSError):  # the run may be one of the cluster alone
        return set()
    return {status.home for status in statuses if status.home and status.cluster == cluster}


def _left_elsewhere(left: Sequence[Status]) -> str:
    """Return where the jobs of killed launchers are to be stopped."""
    first = left[0]
    run = shlex.quote(first.identity.run)
    tasks = ", ".join(status.identity.task for status in left)
    why = "it was left running" if first.detached else "its launcher was killed"
    how = f"`{shlex.join(['tfsteps', 'stop', first.identity.run, *first.where])}` stops it"
    if not first.where:
        how = f"`tfsteps attach {run}` follows it on {first.system}, and meanwhile `tfsteps stop {run}` stops it"
    return f"run {run}: {tasks} may go on, {why}; {how}"


def _may_be_left(job: LocalAttempt, rest: survivors.Survivors) -> str:
    """Return which processes of a killed launcher may still run, and what to do."""
    run, task = job.status.identity.run, f"{job.status.identity.task}, attempt {job.status.identity.attempt}"
    if rest.left.yes:
        end = f"`kill -9 {' '.join(f'-{leader}' for leader in rest.sessions.values())}` as root may end them"
        return f"run {run}: {task}, still has processes of its killed launcher, which do not end: {rest}; {end}"
    why = f"their launcher was killed, {rest.left.why}"
    end = f"`tfsteps stop {shlex.quote(run)}` there, by their user, ends them"
    fix = f"{end}; or delete {job.attempt.folder} if none runs"
    return f"run {run}: whether replicas of {task}, still run is not known: {why}; {fix}"


def _not_stopped(job: LocalAttempt, answer: Answer) -> str:
    """Return why a launcher was not signalled, and what to do."""
    run, launcher = job.status.identity.run, job.attempt.launcher
    do = f"run `tfsteps stop {shlex.quote(run)}` where it lives"
    if launcher and not launcher.elsewhere:
        do = "stop it as that user"
    elif launcher is None:
        do = f"press Ctrl-C in its terminal, or end process {job.status.launcher} of its machine"
    elif job.alive.unknown:
        do += f", or delete {job.attempt.folder} if that machine is gone"
    return f"run {run}: task {job.status.identity.task} was not stopped: {answer.why}; {do}"


def replace_by(job: LocalAttempt, replica: str | None, command: Sequence[str]) -> NoReturn:
    """Replace this process by a command beside a replica, or where one ran that has ended.

    Raises:
        CommandError: There is no such replica, or it is not one of this machine.
    """
    status = job.status
    if not status.on_this_machine:
        raise CommandError(_elsewhere(status))
    if not (job.alive.no or job.attempt.lives_here):  # a process id of the record is another process here
        launcher = job.attempt.launcher
        where = launcher.name if launcher else f"pid {status.launcher}, and an older version did not record where"
        run = shlex.quote(status.identity.run)
        raise CommandError(f"run {run}: its launcher is {where}; use `tfsteps shell {run}` there")
    target = named_replica(status, replica)
    env, cwd = None, ""
    if job.running:
        target = _recorded_start(job, target)
        env, cwd = _running(target)
    if env is None:
        env, cwd = _recorded_environment(job, target)
        say(f"{target.name} is {target.state}; this is the environment it would start with, in {cwd}")
    replace_process(command or [os.environ.get("SHELL", "sh")], env, cwd)


def _elsewhere(status: Status) -> str:
    run = shlex.quote(status.identity.run)
    problem = f"run {run}: its replicas are not on this machine, but on {status.system}"
    if not status.where:
        return f"{problem}, where tfsteps cannot start a shell; use the tools of {status.system}"
    return f"{problem}; use `{shlex.join(['tfsteps', 'shell', status.identity.run, *status.where])}`"


def _recorded_start(job: LocalAttempt, replica: ReplicaStatus) -> ReplicaStatus:
    """Return a replica once its start is recorded, which is a moment after the launcher has printed it."""
    give_up = time.monotonic() + _MOMENT_SECONDS
    while not replica.incarnations and time.monotonic() < give_up:
        time.sleep(0.05)
        replica = named_replica(job.attempt.status(), replica.name)
    return replica


def _running(replica: ReplicaStatus) -> tuple[Mapping[str, str] | None, str]:
    """Return the environment and the folder of a replica's process; None if it does not run."""
    words = replica.incarnations[-1].place.split() if replica.incarnations else []
    if replica.state not in (ReplicaState.PENDING, ReplicaState.RUNNING) or words[:1] != ["pid"]:
        return None, ""
    process = pathlib.Path("/proc", words[1])
    try:
        entries = _environ(process / "environ").split(b"\0")
        cwd = os.readlink(process / "cwd")  # noqa: PTH115  text, which may not exist any more
    except OSError:  # it has just ended
        return None, ""
    return dict(os.fsdecode(entry).partition("=")[::2] for entry in entries if b"=" in entry), cwd


def _environ(file: pathlib.Path) -> bytes:
    """Return the content of /proc/PID/environ; a process that is just executing its program has none for a moment."""
    give_up = time.monotonic() + _MOMENT_SECONDS
    while not (content := file.read_bytes()) and time.monotonic() < give_up:
        time.sleep(0.01)
    return content


def _recorded_environment(job: LocalAttempt, replica: ReplicaStatus) -> tuple[Mapping[str, str], str]:
    """Return what a replica would start with, by the records of the run; its ports are those that it had."""
    from tfsteps.systems.local.job_system import LocalSystem  # noqa: PLC0415  only here, and slow

    status = job.status
    file = job.attempt.folder / "job.json"
    try:
        described = typed_json.decode(file.read_bytes(), TrainingJob)
    except (OSError, *NOT_READABLE) as error:
        raise CommandError(f"{file} cannot be read: {error}; choose another run") from error
    folder = pathlib.Path(status.base_dir or pathlib.Path.cwd())
    paths = OutputPaths(output=status.output, model=status.model, logs=status.logs, base_dir=folder)
    commands = LocalSystem().commands(described, status.identity, paths, lambda count: _ports(status)[:count])
    command = commands[ReplicaName(replica.role, replica.index)]
    return command.env, str(command.cwd)


def _ports(status: Status) -> list[int]:
    """Return the last port of each member of the cluster, in order; a placeholder for one that never had a port."""
    members = [replica for replica in status.replicas if replica.role != "evaluator"]
    places = [replica.incarnations[-1].place.split() if replica.incarnations else [] for replica in members]
    return [int(words[3]) if len(words) > 3 else 2222 + i for i, words in enumerate(places)]

"""Decides which ended runs of this machine are kept, by age and number, and removes all that it keeps of a run.

That is `runs/<run>`, and `pipelines/<run>` of the local pipeline engine. Of one task it removes `runs/<run>/<task>`.

A folder is renamed before it is removed. Therefore an interrupted removal leaves no incomplete run, and the next
removal deletes what is left.
"""

import contextlib
import os
import pathlib
import shutil
import stat
import time
from collections.abc import Iterator, Sequence

import msgspec

from tfsteps.runs import demo, store
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import CLOCK_SECONDS, Status, may_continue
from tfsteps.runs.store import AttemptFolder
from tfsteps.runs.survivors import Survivors, survivors

_PIPELINE = "its pipeline is running; press Ctrl-C in its terminal, or wait for its end"
_REMOVED = ".removed-"  # `store.quote` returns no name that begins with a dot


class InUseError(Exception):
    """A run cannot be removed: a process uses it, or may use it on another machine, or it is a demo.

    Attributes:
        run: Id of the run.
        why: What uses it, and how to stop that, or how to remove a demo; a clause.
    """

    def __init__(self, run: str, why: str) -> None:
        """Keep both; the message is made of them."""
        self.run, self.why = run, why
        super().__init__(f"run {run} cannot be removed: {why}")


class Extent(msgspec.Struct, frozen=True):
    """What would be removed of a run.

    Attributes:
        attempts: Number of attempts with a status.
        size: Bytes of all regular files; symbolic links are not followed.
    """

    attempts: int
    size: int


def extent(run: str, task: str = "") -> Extent:
    """Return what would be removed of a run, or of a task of it; files that cannot be examined count as empty."""
    return Extent(len(store.attempts(run, task or None)), sum(map(_size, _folders(run, task))))


def contains(run: str, path: str) -> bool:
    """Return whether `path`, a local path or a URI, would be removed with the run."""
    return any(pathlib.Path(path).is_relative_to(folder) for folder in _folders(run))


def check_unused(run: str, *, demos: bool) -> None:
    """Raise InUseError if a launcher or the local pipeline engine uses the run, or may use it on another machine.

    Unless `demos`, also if it is a demo. OSError if a file cannot be read.
    """
    if not demos:
        check_changeable(run)
    _check(run, *_folders(run))


def check_changeable(run: str) -> None:
    """Raise InUseError if the run is a demo. OSError if that cannot be read."""
    if demo.read(store.run_folder(run)):
        raise InUseError(run, f"it is a demo, and demos are read-only; `tfsteps rm --demo {run}` removes it")


def check_pipeline(run: str) -> None:
    """Raise InUseError if the local pipeline engine uses the run, or may use it on another machine."""
    _check_released(run, store.pipeline_folder(run), _PIPELINE)


def remove(run: str, task: str = "", *, demos: bool = False) -> None:
    """Remove a run, and what an interrupted removal left of any run. A run that does not exist is not an error.

    With `task` only the attempts at it, but the whole run if nothing else is left of it. Symbolic links are removed,
    not followed.

    Raises:
        InUseError: A launcher or the pipeline engine uses the run, or may use it, or it is a demo and `demos` is not
            set; nothing was removed.
        OSError: A folder of the run cannot be read, and nothing was removed; or something could not be renamed or
            deleted, and what could be deleted is deleted.
    """
    if not demos:
        check_changeable(run)
    if task:
        check_pipeline(run)
        if not store.pipeline_folder(run).exists() and not _other_tasks(run, task):
            task = ""
    _check(run, *_folders(run, task))
    for folder in _folders(run, task):  # first of the run: an incomplete run is not listed
        parent = (store.run_folder(run) if task else folder).parent  # not among the tasks
        _sweep(parent)
        aside = parent / f"{_REMOVED}{time.time_ns()}-{os.getpid()}"
        try:
            folder.rename(aside)
        except FileNotFoundError:
            continue
        try:
            _check(run, aside)  # a launcher may have started in between
        except InUseError:
            aside.rename(folder)
            raise
        _delete(aside)


def _folders(run: str, task: str = "") -> list[pathlib.Path]:
    return [store.task_folder(run, task)] if task else [store.run_folder(run), store.pipeline_folder(run)]


def _other_tasks(run: str, task: str) -> bool:
    root = store.run_folder(run)
    return root.is_dir() and any(child.is_dir() for child in root.iterdir() if child != store.task_folder(run, task))


def _check(run: str, *folders: pathlib.Path) -> None:
    store.attempts(run)  # raises OSError for a folder that cannot be read, which `glob` passes over
    for folder in folders:
        _check_released(run, folder, _PIPELINE)
        # of a run, or of a task; also of an attempt whose first status is not written yet
        files = [
            file
            for name in ("lock", "status.json")
            for file in (*folder.glob(f"*/*/{name}"), *folder.glob(f"*/{name}"))
        ]
        for attempt in {file.parent for file in files if file.parent.name.isdigit()}:
            _check_attempt(run, AttemptFolder(attempt))


def _check_released(run: str, folder: pathlib.Path, running: str) -> None:
    attempt = AttemptFolder(folder)
    alive = attempt.alive()
    if alive.yes:
        raise InUseError(run, running)
    if alive.unknown:
        there = f"remove it there, or delete {folder} if that machine is gone"
        raise InUseError(run, f"{alive.why}; {there if attempt.launcher else f'delete {folder} if none runs'}")


def _check_attempt(run: str, attempt: AttemptFolder) -> None:
    stop = f"`tfsteps stop {run}`"
    rest: Survivors | None = None
    try:
        rest = survivors(attempt, attempt.status())
    except store.UnreadableError:
        launcher = attempt.launcher
        stop = (
            f"`kill {launcher.pid}`, since its status cannot be read" if launcher and not launcher.elsewhere else stop
        )
    except FileNotFoundError:  # it is not written yet
        pass
    _check_released(run, attempt.folder, f"its launcher is running; stop it by {stop}")
    if rest and rest.left.yes:
        raise InUseError(run, f"its launcher was killed, and left {rest}; {stop} ends that")
    if rest and rest.left.unknown:
        why = f"whether replicas still run is not known: their launcher was killed, {rest.left.why}"
        raise InUseError(run, f"{why}; {stop} there, by their user, ends them; or delete {attempt.folder} if none runs")


def _size(folder: pathlib.Path) -> int:
    counted: set[tuple[int, int]] = set()
    total = 0
    for file in _files(folder):
        with contextlib.suppress(OSError):  # removed meanwhile
            status = file.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in counted:
                total += status.st_size
                if status.st_nlink > 1:
                    counted.add((status.st_dev, status.st_ino))
    return total


def _files(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    if not folder.is_symlink():
        for parent, _, names in os.walk(folder):
            yield from (pathlib.Path(parent, name) for name in names)


def _sweep(parent: pathlib.Path) -> None:
    """Delete what interrupted removals left in `parent`; leave what cannot be deleted."""
    for left in parent.glob(f"{_REMOVED}*"):
        with contextlib.suppress(OSError):
            _delete(left)


def _delete(folder: pathlib.Path) -> None:
    """Delete a renamed folder. After all else has been deleted, raise the first error; it names a file that is left."""
    if folder.is_symlink():
        folder.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:  # another removal deletes it, too
        shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:  # which path it has depends on the version of Python
        shutil.rmtree(folder, ignore_errors=True)
        raise OSError(error.errno, error.strerror, os.fspath(next(_files(folder), folder))) from error


class RunRecords(msgspec.Struct, frozen=True):
    """What the records of a run say.

    Attributes:
        run: Its id.
        statuses: The status of each attempt that can be read.
        pipeline: The record of its pipeline; None = it is no pipeline of this machine.
        problem: Why its records do not show whether it has ended; empty = they do.
        in_use: What uses it on this machine, or that it is a demo; a clause; empty = nothing.
    """

    run: str
    statuses: Sequence[Status] = ()
    pipeline: PipelineRecord | None = None
    problem: str = ""
    in_use: str = ""

    @property
    def ended(self) -> float | None:
        """When its last attempt, or its pipeline, ended, in seconds since the epoch; None = not known."""
        times = [status.ended or status.created for status in self.statuses]
        if self.pipeline:
            times.append(self.pipeline.ended or self.pipeline.created)
        return max(times, default=None)

    @property
    def left_elsewhere(self) -> Status | None:
        """The status of an attempt that no launcher follows and whose job may continue elsewhere; None = none."""
        return next(filter(may_continue, self.statuses), None)


class RetentionDecision(msgspec.Struct, frozen=True):
    """Whether a run is kept.

    Attributes:
        records: What is known of the run.
        kept: Why it is kept, a clause; empty = it is to be removed.
    """

    records: RunRecords
    kept: str = ""


def read_records(run: str, *, demos: bool = False) -> RunRecords:
    """Return the records of a run. A demo counts as in use, unless `demos`."""
    statuses: list[Status] = []
    problem, in_use = "", ""
    try:
        check_unused(run, demos=demos)
        for attempt in store.attempts(run):
            try:
                statuses.append(attempt.status())
            except store.UnreadableError as error:
                problem = problem or str(error)
    except InUseError as error:
        in_use = error.why
    except OSError as error:
        problem = f"{error.filename or store.run_folder(run)} cannot be read: {(error.strerror or str(error)).lower()}"
    pipeline = PipelineRecord.read(run)
    if not (statuses or pipeline or problem or in_use):
        problem = f"{store.run_folder(run)} has no status"
    return RunRecords(run, statuses, pipeline, problem, in_use)


def decide(
    runs: Sequence[RunRecords], now: float, older_than: float | None, keep: int | None
) -> list[RetentionDecision]:
    """Return the decision about each run, the newest first.

    Args:
        runs: All runs of this machine.
        now: Seconds since the epoch.
        older_than: Keep runs that ended less than this many seconds ago; None = the age does not count.
        keep: Keep this many of the ended runs, the newest; None = the number does not count.
    """
    newest_first = sorted(runs, key=lambda records: -(records.ended or 0.0))
    return list(_decisions(newest_first, now, older_than, keep))


def _decisions(
    runs: Sequence[RunRecords], now: float, older_than: float | None, keep: int | None
) -> Iterator[RetentionDecision]:
    position = 0  # among the ended runs
    for records in runs:
        if unfinished := _unfinished(records):
            yield RetentionDecision(records, unfinished)
            continue
        position += 1
        age = now - (records.ended or 0.0)
        if age < -CLOCK_SECONDS:
            yield RetentionDecision(records, "its end is in the future: check the clock of this machine")
        elif keep is not None and position <= keep:
            yield RetentionDecision(records, f"it is one of the newest {keep}")
        elif older_than is not None and age <= older_than:
            yield RetentionDecision(records, "it ended too recently")
        else:
            yield RetentionDecision(records)


def _unfinished(records: RunRecords) -> str:
    """Return why a run does not count as ended; empty = it has ended."""
    if records.in_use:
        return records.in_use
    if records.problem:
        return "its records cannot be read"
    if left := records.left_elsewhere:
        where = f" in namespace {left.namespace}" if left.namespace else ""
        why = "its job was left running" if left.detached else "its launcher was killed, and its job may continue"
        return f"{why}{where}; `tfsteps rm {records.run}` removes it"
    return ""

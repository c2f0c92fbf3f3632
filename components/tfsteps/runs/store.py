"""The files of a run: one folder for each attempt, readable by other processes while the job runs and afterwards.

<home>/pipelines/<run>/           the files of the local pipeline engine, with a lock like that of an attempt
<home>/runs/<run>/pipeline.json   how the pipeline ended, if it ran on this machine
<home>/runs/<run>/report.html     the report of a run with several attempts, or of a pipeline on this machine
<home>/runs/<run>/<task>/output/            the outputs of the job, shared by the attempts of the task
<home>/runs/<run>/<task>/<attempt>/
    job.json      the job with its defaults
    status.json   a `Status`, replaced as a whole at every change
    log           `<UTC time> <replica>[/<container>] <line>`, in the order in which the lines were read
    log.tail-*    the end of the log, if lines in its middle were dropped, see `log_segments`
    log.1         the log of an earlier launcher of this attempt, which was killed
    usage.jsonl   what the replicas used over time, see `usage`
    curves.json   the curves, if the event files were read elsewhere because this machine cannot read them
    report.html   the report, written after the job has ended
    lock          locked by the launcher while it runs
    reserve       keeps space for the last status on a full disk; the last write removes it
"""

import contextlib
import fcntl
import os
import pathlib
import re
import time
import urllib.parse
from collections.abc import Iterator
from typing import IO, cast

import msgspec

from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.identity import Identity, short_hash
from tfsteps.runs.log_segments import segments
from tfsteps.runs.status import Status, Transition

ABANDONED = "LauncherDied"
"""Reason of a status if the launcher was killed. The job's state is unknown then if it outlives its launcher."""

DETACHED = "Detached"
"""Reason of a status if the job was left running without a launcher, on purpose. The job's state is unknown then."""

_NAME_LENGTH = 200  # file systems take 255 bytes
_LOCK_TRIES = 5
_ENDED = {ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.STOPPED}
_RESERVE = 1 << 17
_RESERVE_STATUSES = 4  # the last status is longer than the first, in which no replica has started


class UnreadableError(OSError):
    """A record exists but is damaged, for example by a full disk, a crash or an editor."""


def home() -> pathlib.Path:
    """Return the state folder: $TFSTEPS_HOME, else $XDG_STATE_HOME/tfsteps, else ~/.local/state/tfsteps.

    Raises:
        OSError: None of them is known.
    """
    if folder := os.environ.get("TFSTEPS_HOME"):
        return pathlib.Path(folder).absolute()
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111  see below
    if state.startswith("~"):  # where pathlib raises a RuntimeError
        user = f"user {os.getuid()} has no entry in the password database"
        raise OSError(f"there is no folder for records: neither TFSTEPS_HOME nor HOME is set, and {user}")
    return pathlib.Path(state).absolute() / "tfsteps"


class Attempt:
    """The folder of one attempt.

    Attributes:
        folder: `<home>/runs/<run>/<task>/<attempt>`.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        """Store the path; nothing is read or created."""
        self.folder = folder

    @classmethod
    def of(cls, identity: Identity) -> "Attempt":
        """Return the attempt of `identity`; its folder need not exist."""
        return cls(_task_folder(identity) / str(identity.attempt))

    @property
    def log(self) -> pathlib.Path:
        """The file of all log lines."""
        return self.folder / "log"

    @property
    def report(self) -> pathlib.Path:
        """The HTML report, written after the job has ended."""
        return self.folder / "report.html"

    @property
    def usage(self) -> pathlib.Path:
        """The file of what the replicas used, which `Usage.read(folder)` reads; it need not exist."""
        return self.folder / "usage.jsonl"

    @property
    def curves(self) -> pathlib.Path:
        """The curves that were read elsewhere; usually this file does not exist."""
        return self.folder / "curves.json"

    @property
    def output(self) -> pathlib.Path:
        """The output folder that the attempts of the task share."""
        return self.folder.parent / "output"

    def alive(self) -> bool:
        """Return whether a launcher holds the lock of this attempt."""
        try:
            with (self.folder / "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def status(self) -> Status:
        """Return the status; its state is `lost` if the recorded state is not terminal but no launcher holds the lock.

        Raises:
            FileNotFoundError: There is no such attempt.
            UnreadableError: The status is damaged.
        """
        held = self.alive()  # before reading: a launcher writes its last status before it releases the lock
        try:
            status = msgspec.json.decode((self.folder / "status.json").read_bytes(), type=Status)
        except NOT_READABLE as error:
            raise UnreadableError(f"{self.folder / 'status.json'} cannot be read: {error}") from error
        if not status.state.terminal and not held:
            _abandon(status, self._last_written())
        return status

    def record(self, status: Status, job: bytes) -> None:
        """Write the records of a job that has no launcher: its status, and the job as JSON.

        Raises:
            BlockingIOError: A launcher holds the lock.
            OSError: They cannot be written.
        """
        with self.claim():
            with open_private(self.folder / "job.json", "wb") as file:
                file.write(job)
            self.write(status)

    def _last_written(self) -> float:
        """Return when the launcher last wrote the status or the log, in seconds since the epoch."""
        files = [self.folder / "status.json", self.log, *[segment.path for segment in segments(self.log)]]
        return max(path.stat().st_mtime for path in files if path.exists())

    def write(self, status: Status) -> None:
        """Replace the status as a whole. OSError if that fails; the old status is kept then."""
        data = msgspec.json.encode(status)
        self._replace(data)
        if (self.folder / "reserve").exists():
            with contextlib.suppress(OSError):  # the last status may still fit
                self._reserve(_RESERVE + _RESERVE_STATUSES * len(data))

    def write_last(self, status: Status) -> None:
        """Replace the status for the last time; free the reserved space first, for a full disk."""
        (self.folder / "reserve").unlink(missing_ok=True)
        self._replace(msgspec.json.encode(status))

    def _replace(self, data: bytes) -> None:
        new = self.folder / "status.json.new"
        try:
            with open_private(new, "wb") as file:
                file.write(data)
            new.replace(self.folder / "status.json")
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()
            raise

    def _reserve(self, size: int) -> None:
        """Reserve at least `size` bytes for the last status; grow in large steps, so that writes are rare."""
        with open_private(self.folder / "reserve", "ab") as file:
            if (missing := size - file.tell()) > 0:
                file.write(bytes(missing + _RESERVE))

    def claim(self) -> IO[bytes]:
        """Create the folder and lock it, until the returned file is closed or this process ends.

        Raises:
            BlockingIOError: Another launcher holds the lock.
        """
        make_private(self.folder)
        lock = open_private(self.folder / "lock", "ab")
        for tries_left in range(_LOCK_TRIES, -1, -1):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # perhaps only `alive` of another process, which locks for a moment
                if not tries_left:
                    lock.close()
                    raise
                time.sleep(0.02)
        self._reserve(_RESERVE)
        return lock


def open_private(path: pathlib.Path, mode: str, buffering: int = -1) -> IO[bytes]:
    """Open a binary file; a new file is readable only by its owner."""
    return cast("IO[bytes]", open(path, mode, buffering, opener=lambda name, flags: os.open(name, flags, 0o600)))


def _abandon(status: Status, at: float) -> None:
    """Change the last status of a launcher that ended at about `at`, before its job, to what is known now."""
    if status.detached:
        _leave(status)
        return
    local = status.system == "local"
    where = f" in namespace {status.namespace}" if status.namespace else ""
    rest = "its replicas were stopped too" if local else f"the job may go on{where}"
    status.state, status.reason, status.ended = State.LOST, ABANDONED, max(at, status.created)
    status.message = f"The launcher was killed; {rest}."
    status.transitions.append(
        Transition(at=status.ended, state=status.state, reason=status.reason, message=status.message)
    )
    for replica in status.replicas:
        if replica.state not in _ENDED:
            replica.state = ReplicaState.STOPPED if local else ReplicaState.UNKNOWN
        for incarnation in replica.incarnations:
            if incarnation.ended is None:
                incarnation.ended, incarnation.state = max(at, incarnation.started), replica.state


def _leave(status: Status) -> None:
    """Change the status of a job that was left running to what is known of it now."""
    where = f" in namespace {status.namespace}" if status.namespace else f" on {status.system}"
    status.state, status.reason = State.UNKNOWN, DETACHED
    status.message = f"The job was left running{where}; `tfsteps attach {status.identity.run}` follows it."
    for replica in status.replicas:
        if replica.state not in _ENDED:
            replica.state = ReplicaState.UNKNOWN


def may_continue(status: Status) -> bool:
    """Tell whether the job of a status may run on a cluster or on HAI while no launcher on this machine follows it."""
    return status.system != "local" and status.reason in (ABANDONED, DETACHED)


def make_private(folder: pathlib.Path) -> None:
    """Create a folder below `home`, and its parents, with mode 0700: environment variables may hold secrets."""
    home().parent.mkdir(parents=True, exist_ok=True)
    for path in (home(), *reversed([parent for parent in folder.parents if home() in parent.parents]), folder):
        path.mkdir(mode=0o700, exist_ok=True)


def runs() -> list[str]:
    """Return the ids of all runs, the newest last; without those whose removal was interrupted."""
    root = home() / "runs"
    children = root.iterdir() if root.is_dir() else ()
    folders = [folder for folder in children if folder.is_dir() and not folder.name.startswith(".")]
    return [urllib.parse.unquote(f.name) for f in sorted(folders, key=lambda f: f.stat().st_mtime)]


def run_folder(run: str) -> pathlib.Path:
    """Return the folder of all tasks of a run; it need not exist."""
    return home() / "runs" / quote(run)


def run_report(run: str) -> pathlib.Path:
    """Return the report of all tasks of a run; it need not exist."""
    return run_folder(run) / "report.html"


def pipeline_folder(run: str) -> pathlib.Path:
    """Return the folder in which the local pipeline engine keeps the files of a run; it need not exist."""
    return home() / "pipelines" / quote(run)


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Create a folder and lock it during the block; `Attempt(folder).alive()` tells whether it is locked."""
    make_private(folder)
    with open_private(folder / "lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits for `alive` of another process, which locks it for a moment
        yield


def attempts(run: str, task: str | None = None) -> list[Attempt]:
    """Return the attempts of a run, or of one of its tasks, ordered by task and attempt; empty if there are none."""
    root = run_folder(run)
    folders = [root / quote(task)] if task else sorted(root.iterdir()) if root.is_dir() else []
    result = []
    for folder in folders:
        children = folder.iterdir() if folder.is_dir() else ()
        numbered = [child for child in children if re.fullmatch("[0-9]{1,9}", child.name)]
        result += [
            Attempt(child)
            for child in sorted(numbered, key=lambda child: int(child.name))
            if (child / "status.json").exists()
        ]
    return result


def next_attempt(run: str, task: str) -> int:
    """Return the number of the next attempt of a task: 0 if there was none, else one more than the last."""
    earlier = attempts(run, task)
    return int(earlier[-1].folder.name) + 1 if earlier else 0


def quote(text: str) -> str:
    """Return `text` as a readable folder name; `urllib.parse.unquote` restores it unless it had to be cut."""
    quoted = re.sub(r"^\.", "%2E", urllib.parse.quote(text, safe=" @+=,~:"))
    if len(quoted) <= _NAME_LENGTH:
        return quoted
    return re.sub(r"%.?$", "", quoted[: _NAME_LENGTH - 20]) + f"~{short_hash(text)}"


def _task_folder(identity: Identity) -> pathlib.Path:
    return run_folder(identity.run) / quote(identity.task)

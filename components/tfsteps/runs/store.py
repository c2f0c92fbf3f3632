"""What a run leaves on disk: one folder an attempt, readable by any other process while it runs and after.

<home>/runs/<run>/pipeline.json   how the pipeline ended, if it is one that ran on this machine
<home>/runs/<run>/<task>/output/            what the job writes: shared by the attempts of the task
<home>/runs/<run>/<task>/<attempt>/
    job.json      the job as it was understood
    status.json   a `Status`, replaced as a whole at every change
    log           `<UTC time> <replica>[/<container>] <line>`, one a line, in the order they were read
    log.1         what an earlier launcher of this attempt, now dead, had saved
    curves.json   the curves of a job whose event files this machine cannot read, as they were read elsewhere
    report.html   when it has ended
    lock          held by the launcher while it lives
    reserve       space for the last status on a full disk; removed then
"""

import contextlib
import fcntl
import os
import pathlib
import re
import time
import urllib.parse
from typing import IO, cast

import msgspec

from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.identity import Identity, short_hash
from tfsteps.runs.status import Status, Transition

ABANDONED = "LauncherDied"
"""Reason of a status whose launcher was killed: what became of a job that outlives its launcher is not known."""

_NAME_LENGTH = 200  # file systems take 255 bytes
_LOCK_TRIES = 5
_ENDED = {ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.STOPPED}
_RESERVE = 1 << 17
_RESERVE_STATUSES = 4  # the last status is longer than the first, in which no replica has started


class UnreadableError(OSError):
    """A record is there but not whole: a full disk, a crash or an editor garbled it."""


def home() -> pathlib.Path:
    """Return the state folder: $TFSTEPS_HOME, else $XDG_STATE_HOME/tfsteps, else ~/.local/state/tfsteps."""
    if folder := os.environ.get("TFSTEPS_HOME"):
        return pathlib.Path(folder).absolute()
    state = os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state"
    return pathlib.Path(state).absolute() / "tfsteps"


class Attempt:
    """The folder of one attempt.

    Attributes:
        folder: `<home>/runs/<run>/<task>/<attempt>`.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        """Name the folder; nothing is read or made."""
        self.folder = folder

    @classmethod
    def of(cls, identity: Identity) -> "Attempt":
        """Return the folder for `identity`; it need not exist."""
        return cls(_task_folder(identity) / str(identity.attempt))

    @property
    def log(self) -> pathlib.Path:
        """The file of all log lines."""
        return self.folder / "log"

    @property
    def report(self) -> pathlib.Path:
        """The HTML report, written at the end."""
        return self.folder / "report.html"

    @property
    def curves(self) -> pathlib.Path:
        """The curves that were read elsewhere; mostly there is no such file."""
        return self.folder / "curves.json"

    @property
    def output(self) -> pathlib.Path:
        """The output folder that the attempts of the task share."""
        return self.folder.parent / "output"

    def alive(self) -> bool:
        """Tell whether a launcher holds this attempt."""
        try:
            with (self.folder / "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def status(self) -> Status:
        """Return the status; `lost` if it says that it goes on, and nobody holds the lock.

        Raises:
            FileNotFoundError: There is no such attempt.
            UnreadableError: Its status is not whole.
        """
        held = self.alive()  # before reading: a launcher that ends in between has written its last status first
        try:
            status = msgspec.json.decode((self.folder / "status.json").read_bytes(), type=Status)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UnreadableError(f"{self.folder / 'status.json'} cannot be read: {error}") from error
        if not status.state.terminal and not held:
            _abandon(status, self._last_written())
        return status

    def _last_written(self) -> float:
        """Return when the launcher wrote something last, in seconds since the epoch."""
        return max(path.stat().st_mtime for path in (self.folder / "status.json", self.log) if path.exists())

    def write(self, status: Status) -> None:
        """Replace the status as a whole. OSError if the disk does not take it; the old one stays then."""
        data = msgspec.json.encode(status)
        self._replace(data)
        if (self.folder / "reserve").exists():
            with contextlib.suppress(OSError):  # the end may fit all the same
                self._reserve(_RESERVE + _RESERVE_STATUSES * len(data))

    def write_last(self, status: Status) -> None:
        """Replace the status for the last time, on a full disk in the space that was kept free for it."""
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
        """Keep space free for the last status; it only grows, so that it seldom costs a write."""
        with open_private(self.folder / "reserve", "ab") as file:
            if (short := size - file.tell()) > 0:
                file.write(bytes(short + _RESERVE))

    def claim(self) -> IO[bytes]:
        """Make the folder and take its lock, which ends with the returned file or this process.

        Raises:
            BlockingIOError: Another launcher holds it.
        """
        make_private(self.folder)
        lock = open_private(self.folder / "lock", "ab")
        for patience in range(_LOCK_TRIES, -1, -1):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # perhaps somebody who only looks whether it is held
                if not patience:
                    lock.close()
                    raise
                time.sleep(0.02)
        self._reserve(_RESERVE)
        return lock


def open_private(path: pathlib.Path, mode: str, buffering: int = -1) -> IO[bytes]:
    """Open a binary file, one that nobody else may read if it is a new one."""
    return cast("IO[bytes]", open(path, mode, buffering, opener=lambda name, flags: os.open(name, flags, 0o600)))


def _abandon(status: Status, at: float) -> None:
    """Make the last status of a launcher that was killed at about `at` say what is known of its job now."""
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


def make_private(folder: pathlib.Path) -> None:
    """Make a folder below `home`, and those between them: environment variables of a job may hold secrets."""
    home().parent.mkdir(parents=True, exist_ok=True)
    for path in (home(), *reversed([parent for parent in folder.parents if home() in parent.parents]), folder):
        path.mkdir(mode=0o700, exist_ok=True)


def runs() -> list[str]:
    """Return the ids of all runs, the newest last."""
    root = home() / "runs"
    folders = [folder for folder in root.iterdir() if folder.is_dir()] if root.is_dir() else []
    return [urllib.parse.unquote(f.name) for f in sorted(folders, key=lambda f: f.stat().st_mtime)]


def run_folder(run: str) -> pathlib.Path:
    """Return the folder of all tasks of a run; it need not exist."""
    return home() / "runs" / quote(run)


def attempts(run: str, task: str | None = None) -> list[Attempt]:
    """Return every attempt of a run, or of one of its tasks, ordered by task and attempt; empty if there is none."""
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
    """Return the number of the attempt that comes next for a task: 0 if there was none, else one more than the last."""
    earlier = attempts(run, task)
    return int(earlier[-1].folder.name) + 1 if earlier else 0


def quote(text: str) -> str:
    """Return `text` as one folder name, readable where it can be, that `unquote` turns back unless it had to be cut."""
    quoted = re.sub(r"^\.", "%2E", urllib.parse.quote(text, safe=" @+=,~:"))
    if len(quoted) <= _NAME_LENGTH:
        return quoted
    return re.sub(r"%.?$", "", quoted[: _NAME_LENGTH - 20]) + f"~{short_hash(text)}"


def _task_folder(identity: Identity) -> pathlib.Path:
    return run_folder(identity.run) / quote(identity.task)

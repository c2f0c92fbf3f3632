"""The files of a run: one folder for each attempt, readable by other processes while the job runs and afterwards.

<home>/code/<digest>.tar.gz       packed code, see `code_archive`
<home>/pipelines/<run>/           the files of the local pipeline engine, with a lock like that of an attempt
<home>/runs/<run>/pipeline.json   how the pipeline ended, if it ran on this machine
<home>/runs/<run>/report.html     the report of a run with several attempts, or of a pipeline on this machine
<home>/runs/<run>/<task>/output/            the outputs of the job, shared by the attempts of the task
<home>/runs/<run>/<task>/<attempt>/
    job.json      the job with its defaults
    status.json   a `Status`, replaced as a whole at every change
    log           `<UTC time> <replica>[/<container>] <line>`, in the order in which the lines were read
    log.tail-*    the end of the log, if lines in its middle were dropped, see `log_file`
    log.1         the log of an earlier launcher of this attempt, which was killed
    usage.jsonl   what the replicas used over time, see `usage`
    event-origin.json  what tells the event files of this attempt from others in the folder, see `EventOrigin`
    curves.json   the curves, as they were at the end of the job
    report.html   the report, written after the job has ended
    lock          locked by the launcher while it runs; says which process that is, `null` once it has released it
    replicas-ended  exists if the launcher was killed, and its local replicas were seen to be gone
    stop-requested  exists if `tfsteps stop` has signalled the launcher
    code/         the files that the replicas of a local run start in, if the job has `code`
    reserve       keeps space for the last status on a full disk; the last write removes it
    copied-from   exists if this is a copy, and names the address of the records that it was copied from
"""

import contextlib
import contextvars
import os
import pathlib
import re
import signal
import urllib.parse
from collections.abc import Iterator
from typing import IO, cast

import msgspec

from tfsteps import typed_json
from tfsteps.answer import NO, Answer, unknown
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs import lock
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity, short_hash
from tfsteps.runs.lock import Lock, ProcessRef
from tfsteps.runs.log_file import segments
from tfsteps.runs.status import Status, abandon, doubt
from tfsteps.tensorboard.event_files import EventOrigin

RECORDS = "TFSTEPS_RECORDS"
"""Environment variable: the address where records are stored as well, see `record_store`; `none` = nowhere."""

LATEST = "latest"
"""What stands for the id of the newest run."""

_EVENT_ORIGIN = "event-origin.json"
_NAME_LENGTH = 200  # file systems take 255 bytes
_RESERVE = 1 << 17
_RESERVE_STATUSES = 4  # the last status is longer than the first, in which no replica has started


class _Recorded(msgspec.Struct):
    """The part of `status.json` that says whether the job has ended."""

    state: State = State.UNKNOWN


_COPIED = "copied-from"
_home: contextvars.ContextVar[pathlib.Path | None] = contextvars.ContextVar("home", default=None)


class UnreadableError(OSError):
    """A record exists but is damaged, for example by a full disk, a crash or an editor."""


def home() -> pathlib.Path:
    """Return the state folder: that of `using`, else $TFSTEPS_HOME, $XDG_STATE_HOME/tfsteps or ~/.local/state/tfsteps.

    Raises:
        OSError: None of them is known.
    """
    if used := _home.get():
        return used
    if folder := os.environ.get("TFSTEPS_HOME"):
        return pathlib.Path(folder).absolute()
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111  see below
    if state.startswith("~"):  # where pathlib raises a RuntimeError
        user = f"user {os.getuid()} has no entry in the password database"
        raise OSError(f"there is no folder for records: neither TFSTEPS_HOME nor HOME is set, and {user}")
    return pathlib.Path(state).absolute() / "tfsteps"


@contextlib.contextmanager
def using(home: pathlib.Path) -> Iterator[None]:
    """Use another state folder in the block, in this thread: one that has copies of records."""
    token = _home.set(home)
    try:
        yield
    finally:
        _home.reset(token)


class AttemptFolder:
    """The folder of one attempt.

    Attributes:
        folder: `<home>/runs/<run>/<task>/<attempt>`.
        log: The file of all log lines.
        report: The HTML report, written after the job has ended.
        usage: The file of what the replicas used, which `Usage.read(folder)` reads; it need not exist.
        curves: The curves as they were at the end of the job; the file need not exist.
        output: The output folder that the attempts of the task share.
        replicas_ended: The file that exists if all replicas were seen to be gone after the launcher of a local job was
            killed.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        """Store the path; nothing is read or created."""
        self.folder = folder
        self.log, self.report = folder / "log", folder / "report.html"
        self.usage, self.curves = folder / "usage.jsonl", folder / "curves.json"
        self.output = folder.parent / "output"
        self.replicas_ended = folder / "replicas-ended"
        self._stop_file = folder / "stop-requested"

    @classmethod
    def of(cls, identity: Identity) -> "AttemptFolder":
        """Return the attempt of `identity`; its folder need not exist."""
        return cls(task_folder(identity.run, identity.task) / str(identity.attempt))

    @property
    def event_origin(self) -> EventOrigin | None:
        """What tells which event files are of this attempt; None = not recorded, or the record is damaged."""
        try:
            return typed_json.decode((self.folder / _EVENT_ORIGIN).read_bytes(), EventOrigin)
        except (OSError, *NOT_READABLE):
            return None

    def write_event_origin(self, origin: EventOrigin) -> None:
        """Record it. OSError if that fails."""
        with open_private(self.folder / _EVENT_ORIGIN, "wb") as file:
            file.write(msgspec.json.encode(origin))

    @property
    def stop_requested(self) -> bool:
        """Whether `terminate` has signalled the launcher; False if that cannot be read."""
        return os.path.exists(self._stop_file)  # noqa: PTH110  raises nothing, for signal handlers

    @property
    def launcher(self) -> ProcessRef | None:
        """The process that has taken the lock of this attempt; None = an older version did, or nobody holds it."""
        return lock.holder(self.folder)

    @property
    def lives_here(self) -> bool:
        """Whether the launcher's process id, and those of local replicas, certainly mean processes of this machine."""
        return self.launcher is not None and not self.launcher.elsewhere

    def alive(self) -> Answer:
        """Return whether a launcher holds the lock of this attempt. OSError if its files cannot be read.

        Not known if there is a status and no lock file. NO also if this machine cannot know of the lock, but the end of
        the job is recorded.
        """
        if copied := self.copied_from:
            held = unknown(f"its record was copied from {copied}, and it may go on")
        elif (self.folder / "status.json").exists() and not (self.folder / "lock").exists():
            held = unknown(f"{self.folder / 'lock'} is missing, and without it no launcher can be seen")
        else:
            held = lock.held(self.folder)
        return NO if held.unknown and self._end_recorded() else held

    @property
    def copied_from(self) -> str:
        """The address of the records that this is a copy of; empty = it is no copy."""
        try:
            return (self.folder / _COPIED).read_text("utf-8")
        except FileNotFoundError:
            return ""

    def mark_copied(self, address: str) -> None:
        """Record that this is a copy. OSError if that fails."""
        if self.copied_from != address:
            (self.folder / _COPIED).write_text(address, "utf-8")

    @property
    def unreadable(self) -> str:
        """What can be done about an attempt whose status cannot be read, for messages."""
        message, launcher = f"{self.folder} has no status that can be read; look at {self.log}", self.launcher
        if launcher and not launcher.elsewhere and self.alive().yes:
            message += f"; its launcher runs, and `kill {launcher.pid}` stops it with its job"
        return message

    def terminate(self) -> Answer:
        """Send SIGTERM to the launcher, so that it stops its job.

        Returns:
            YES: It was sent. NO: There is nothing to stop: the job has ended, or its launcher. Not known: nothing was
            sent; the reason says where the launcher lives.
        """
        if self.status().state.terminal:  # the launcher, if it still runs, writes its report
            return NO
        alive = self.alive()
        if not alive.yes:
            return alive
        if launcher := self.launcher:
            with contextlib.suppress(OSError):  # a full disk: the status names the signal
                self._stop_file.touch(mode=0o600)
            return launcher.send(signal.SIGTERM)
        return unknown("its launcher does not say where it lives: an older version of tfsteps started it")

    def status(self) -> Status:
        """Return the status, changed to what is known now if it is not terminal and its launcher does not run.

        Its state is `lost` then if the launcher has ended, and `unknown` if that is not known.

        Raises:
            FileNotFoundError: There is no such attempt.
            UnreadableError: The status is damaged.
        """
        alive = self.alive()  # before reading: a launcher writes its last status before it releases the lock
        try:
            status = typed_json.decode((self.folder / "status.json").read_bytes(), Status)
        except NOT_READABLE as error:
            raise UnreadableError(f"{self.folder / 'status.json'} cannot be read: {error}") from error
        if not status.state.terminal and alive.no:
            abandon(status, self._last_written(), stopped=self.replicas_ended.exists())
        elif not status.state.terminal and alive.unknown:
            doubt(status, alive.why)
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

    def _end_recorded(self) -> bool:
        try:
            return typed_json.decode((self.folder / "status.json").read_bytes(), _Recorded).state.terminal
        except (OSError, *NOT_READABLE):
            return False

    def _last_written(self) -> float:
        """Return when the launcher last wrote, or its replicas were seen to be gone, in seconds since the epoch."""
        files = [self.folder / "status.json", self.log, *[segment.path for segment in segments(self.log)]]
        files += [self.usage, self.replicas_ended]
        return max(path.stat().st_mtime for path in files if path.exists())

    def write(self, status: Status, *, last: bool = False) -> None:
        """Replace the status as a whole. OSError if that fails; the old status is kept then.

        `last`: nothing is written later, so the reserved space is freed first, for a full disk.
        """
        data = msgspec.json.encode(status)
        reserved, new = self.folder / "reserve", self.folder / "status.json.new"
        if last:
            reserved.unlink(missing_ok=True)
        try:
            with open_private(new, "wb") as file:
                file.write(data)
            new.replace(self.folder / "status.json")
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()
            raise
        if reserved.exists():
            with contextlib.suppress(OSError):  # the last status may still fit
                self._reserve(_RESERVE + _RESERVE_STATUSES * len(data))

    def _reserve(self, size: int) -> None:
        """Reserve at least `size` bytes for the last status; grow in large steps, so that writes are rare."""
        with open_private(self.folder / "reserve", "ab") as file:
            if (missing := size - file.tell()) > 0:
                file.write(bytes(missing + _RESERVE))

    def claim(self) -> Lock:
        """Create the folder and lock it, until the returned lock is closed or this process ends.

        Raises:
            BlockingIOError: Another launcher holds the lock.
        """
        make_private(self.folder)
        claimed = Lock(self.folder)
        try:
            self._stop_file.unlink(missing_ok=True)
            self._reserve(_RESERVE)
        except OSError:
            claimed.close()
            raise
        return claimed


def open_private(path: pathlib.Path, mode: str, buffering: int = -1) -> IO[bytes]:
    """Open a binary file; a new file is readable only by its owner."""
    return cast("IO[bytes]", open(path, mode, buffering, opener=lambda name, flags: os.open(name, flags, 0o600)))


def make_private(folder: pathlib.Path) -> None:
    """Create a folder below `home`, and its parents, with mode 0700: environment variables may hold secrets."""
    home().parent.mkdir(parents=True, exist_ok=True)
    for path in (home(), *reversed([parent for parent in folder.parents if home() in parent.parents]), folder):
        path.mkdir(mode=0o700, exist_ok=True)


def runs() -> list[str]:
    """Return the ids of all runs, the newest last; without those whose removal was interrupted.

    Raises:
        OSError: It is not known which there are: the state folder is a file, or another user's.
    """
    root = home() / "runs"
    try:
        children = [*root.iterdir()]
    except FileNotFoundError:
        children = []
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


def locked(folder: pathlib.Path) -> Lock:
    """Create a folder and lock it until the returned lock is closed; `AttemptFolder(folder).alive()` tells if it is."""
    make_private(folder)
    return Lock(folder, wait=True)  # for `alive` of another process, which locks it for a moment


def attempts(run: str, task: str | None = None) -> list[AttemptFolder]:
    """Return the attempts of a run, or of one of its tasks, ordered by task and attempt; empty if there are none."""
    root = run_folder(run)
    folders = [root / quote(task)] if task else sorted(root.iterdir()) if root.is_dir() else []
    result = []
    for folder in folders:
        children = folder.iterdir() if folder.is_dir() else ()
        numbered = [child for child in children if re.fullmatch("[0-9]{1,9}", child.name)]
        result += [
            AttemptFolder(child)
            for child in sorted(numbered, key=lambda child: int(child.name))
            if (child / "status.json").is_symlink() or (child / "status.json").exists()  # a broken link, too
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


def task_folder(run: str, task: str) -> pathlib.Path:
    """Return the folder of all attempts at a task; it need not exist."""
    return run_folder(run) / quote(task)

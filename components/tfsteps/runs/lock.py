"""The lock of a run folder: which process holds it, and whether it still does.

The kernel releases a lock when its process ends. On a disk of this machine, and among processes of one machine, a free
lock therefore means that the process has ended. A file server may hide the locks of other machines from this one: the
lock file says which process took it, so that a lock that seems free there is not mistaken for an ended process.
"""

import contextlib
import fcntl
import os
import pathlib
import time
from typing import Self

import msgspec

from tfsteps.answer import NO, YES, Answer, unknown
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.process_ref import ProcessRef

DISKS = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "ramfs", "overlay"}
"""File systems that one machine mounts at a time: all who see a file see its locks."""

_NAME = "lock"
_RELEASED = b"null"
_TRIES = 5


class Lock:
    """A lock that this process holds until `close`, at most until it ends."""

    def __init__(self, folder: pathlib.Path, *, wait: bool = False) -> None:
        """Lock `folder`, which exists.

        Raises:
            BlockingIOError: Another process holds the lock, and `wait` is false.
            OSError: The lock file cannot be written.
        """
        self._file = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for tries_left in range(_TRIES, -1, -1):
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                    break
                except BlockingIOError:  # perhaps only `held` of another process, which locks for a moment
                    if not tries_left:
                        raise
                    time.sleep(0.02)
            _write(self._file, msgspec.json.encode(ProcessRef.current()))
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock, and record that; do nothing the second time."""
        if self._file >= 0:
            file, self._file = self._file, -1
            with contextlib.suppress(OSError):  # a full disk: the lock file keeps the name of this process
                _write(file, _RELEASED)
            os.close(file)


def held(folder: pathlib.Path) -> Answer:
    """Return whether a process holds the lock of a folder."""
    try:
        with (folder / _NAME).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            content = file.read()
    except BlockingIOError:
        return YES
    except FileNotFoundError:
        return NO
    holder = _parsed(content)
    if content == _RELEASED or (holder and holder.on_this_machine) or _file_system(folder) in DISKS:
        return NO
    if holder is None:
        return unknown(f"{folder / _NAME} does not say on which machine its process ran, and this machine may not know")
    return unknown(f"{holder.name} may still run, and this machine cannot know")


def holder(folder: pathlib.Path) -> ProcessRef | None:
    """Return the process that has taken the lock of a folder; None = an older version took it, or nobody holds it."""
    try:
        return _parsed((folder / _NAME).read_bytes())
    except OSError:
        return None


def _write(file: int, content: bytes) -> None:
    os.pwrite(file, content, 0)
    os.ftruncate(file, len(content))


def _parsed(content: bytes) -> ProcessRef | None:
    try:
        return msgspec.json.decode(content, type=ProcessRef | None)
    except NOT_READABLE:
        return None


def _file_system(folder: pathlib.Path) -> str:
    """Return the type of the file system of a folder; empty = not known."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[2] == number:
            return fields[fields.index("-") + 1]
    return ""

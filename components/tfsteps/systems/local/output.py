"""Reads the output of the replicas from their pipes at once, so that no replica waits for the main loop.

A thread moves the bytes into one unnamed file, in the order of arrival; the main loop reads them from there later. If
the disk is full, up to 4 MiB are kept in memory; after that, the replicas wait.
"""

import collections
import contextlib
import dataclasses
import fcntl
import os
import pathlib
import selectors
import sys
import tempfile
import threading
import time
from typing import IO, Generic, TypeVar

_T = TypeVar("_T")

_BLOCK = 1 << 18
_PIPE_BYTES = 1 << 20
_ALL_PIPES_BYTES = 1 << 24  # the kernel allows a user 64 MiB before it makes the pipes of other programs tiny
_MEMORY = 1 << 22  # bytes kept in memory if the disk is full
_MOST_CHUNKS = 10_000  # limit of waiting chunks: each is an object
_SAME_TIME_SECONDS = 0.1
_REWIND = 1 << 20
_LINGER_SECONDS = 1.0
_SWITCH_SECONDS = 0.0005  # the interpreter's default is ten times as long, in which a pipe may become full


@dataclasses.dataclass(slots=True, eq=False)
class _Chunk(Generic[_T]):
    """Waiting bytes of one owner, in the file or in `data`; no bytes = the owner's end."""

    owner: _T
    at: float
    start: int
    length: int
    data: bytes | None = None


class Collector(Generic[_T]):
    """Collects the output of processes, which own the pipes, until it is closed.

    Attributes:
        ready: A file descriptor that is readable while there is something to `take`.
    """

    def __init__(self, folder: pathlib.Path, sources: int) -> None:
        """Keep waiting bytes in `folder`; `sources` is about the largest number of sources at a time."""
        self._pipe_bytes = min(_PIPE_BYTES, _ALL_PIPES_BYTES // max(sources, 1))
        self._file: IO[bytes] | None = None  # None = the disk is full
        with contextlib.suppress(OSError):
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  `close` closes it
        self._end = 0  # of what is in the file
        self._chunks: collections.deque[_Chunk[_T]] = collections.deque()
        self._unread = 0  # bytes in the file, not taken yet
        self._in_memory = 0
        self._closing = False
        self._error: Exception | None = None
        self._changed = threading.Condition()  # over everything above
        self.ready = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._pipes: dict[_T, int] = {}
        self._give_up: dict[_T, float] = {}  # monotonic: the process has ended, and reading ends at this time
        self._switch_before = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def add(self, owner: _T, pipe: int) -> None:
        """Start to collect from a pipe, which is made non-blocking; the caller closes it after the owner's end."""
        os.set_blocking(pipe, False)
        with contextlib.suppress(OSError):  # the user's limit is reached
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, self._pipe_bytes)
        with self._changed:
            self._pipes[owner] = pipe
        self._selector.register(pipe, selectors.EVENT_READ, owner)

    def finish(self, owner: _T) -> None:
        """Note that a process has ended: only a process outside its session can keep the pipe open."""
        with self._changed:
            if owner in self._pipes:  # else its end waits to be taken
                self._give_up[owner] = time.monotonic() + _LINGER_SECONDS
        os.eventfd_write(self._wake, 1)

    def take(self) -> tuple[_T, float, bytes] | None:
        """Return (owner, time in seconds since the epoch, bytes) in the order of arrival; no bytes = the owner's end.

        None if nothing waits.
        """
        with self._changed:
            if not self._chunks:
                if self._error:
                    raise self._error
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self.ready)
                return None
            chunk = self._chunks[0]
            length = min(chunk.length, _BLOCK)
            start = chunk.start
            chunk.start += length
            chunk.length -= length
            if not chunk.length:
                self._chunks.popleft()
        data = os.pread(self._file.fileno(), length, start) if chunk.data is None and self._file else chunk.data or b""
        with self._changed:
            if chunk.data is None:
                self._unread -= length
            self._in_memory -= len(chunk.data or b"")
            self._changed.notify()
        return chunk.owner, chunk.at, data

    def close(self) -> None:
        """Stop collecting; waiting bytes are discarded."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        sys.setswitchinterval(self._switch_before)
        self._selector.close()
        os.close(self._wake)
        os.close(self.ready)
        if self._file:
            self._file.close()

    # --- in the thread

    def _run(self) -> None:
        try:
            while not self._closing:
                with self._changed:
                    until = min(self._give_up.values(), default=None)
                for key, _ in self._selector.select(until and max(0.0, until - time.monotonic())):
                    if key.fd == self._wake:
                        os.eventfd_read(self._wake)
                    elif not self._move(key.data):
                        self._end_of(key.data)
                with self._changed:
                    late = [owner for owner, until in self._give_up.items() if until <= time.monotonic()]
                for owner in late:
                    self._move(owner)
                    self._end_of(owner)
                with self._changed:
                    self._changed.wait_for(
                        lambda: self._closing or (self._in_memory < _MEMORY and len(self._chunks) < _MOST_CHUNKS)
                    )
        except Exception as error:  # noqa: BLE001  `take` raises it
            self._error = error
            os.eventfd_write(self.ready, 1)

    def _move(self, owner: _T) -> bool:
        """Read a pipe; False at its end."""
        with self._changed:
            if not self._unread and self._end >= _REWIND and self._file:
                self._end = 0
                os.ftruncate(self._file.fileno(), 0)
        disk = os.fstatvfs(self._file.fileno()) if self._file and self._unread >= _MEMORY else None
        # the disk needs space for the waiting bytes, and for their log
        if self._file is None or (disk and disk.f_bavail * disk.f_frsize <= 2 * self._unread):
            return self._move_to_memory(owner)
        try:
            moved = os.splice(self._pipes[owner], self._file.fileno(), _PIPE_BYTES, offset_dst=self._end)
        except BlockingIOError:
            return True
        except OSError:  # the disk is full, or cannot do it
            return self._move_to_memory(owner)
        self._put(_Chunk(owner, time.time(), self._end, moved))
        self._end += moved
        return moved > 0

    def _move_to_memory(self, owner: _T) -> bool:
        try:
            data = os.read(self._pipes[owner], _BLOCK)
        except BlockingIOError:
            return True
        self._put(_Chunk(owner, time.time(), 0, len(data), data))
        return bool(data)

    def _put(self, chunk: _Chunk[_T]) -> None:
        if not chunk.length:
            return
        with self._changed:
            last = self._chunks[-1] if self._chunks else None
            if (
                last
                and last.owner is chunk.owner
                and last.data is chunk.data is None
                and last.start + last.length == chunk.start
                and chunk.at - last.at < _SAME_TIME_SECONDS
            ):
                last.length += chunk.length
            else:
                self._chunks.append(chunk)
            if chunk.data is None:
                self._unread += chunk.length
            self._in_memory += len(chunk.data or b"")
        os.eventfd_write(self.ready, 1)

    def _end_of(self, owner: _T) -> None:
        with self._changed:
            self._selector.unregister(self._pipes.pop(owner))
            self._give_up.pop(owner, None)
            self._chunks.append(_Chunk(owner, time.time(), 0, 0, b""))
        os.eventfd_write(self.ready, 1)

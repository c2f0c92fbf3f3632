"""Ranks of a task as real processes: each in namespaces of its own, its output with time stamps in rotated files.

Written from reference hai.md (the protocol and what was observed of the real servers), not from the platform's code.
HAI's pods pipe their output through `ts`, `pv -L 50k` and `rotatelogs -n 4 FILE 2M`; the classes here do the same.
"""

import contextlib
import datetime as dt
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading
import time

FILES, FILE_SIZE = 4, 2 << 20
RATE = 50 << 10  # bytes a second
FAST = 100 * RATE  # of tests that are about something else: they write less, and do not wait
ZONE = dt.timezone(dt.timedelta(hours=8))  # the platform's pods have their local time
LONGEST = 4096
CUT = f"...(日志长度超过 {LONGEST}\uff0c已被截断)"
NOTHING_YET = "还没产生日志"
_SUSPEND_KEY = 7123378543 & 0xFFFFFFFF
_SET_FLAG = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
at = libc.shmat(libc.shmget(ctypes.c_int(int(sys.argv[1])), ctypes.c_size_t(1), 0o1777), None, 0)
ctypes.memmove(at, sys.argv[2].encode(), 1)
"""
_TIME = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d{6}")
_PIECE_SECONDS = 0.01
_PIPE_BYTES = 256 << 10
_SHORT = 64  # bytes that are written in one piece
_KILL_SECONDS = 0.5
_NAMESPACES = ["unshare", "--ipc", "--mount", "--pid", "--fork", "--kill-child"]


class Pod:
    """One rank: the shell that HAI starts, and what it prints."""

    def __init__(self, name, script, env, hosts, log):
        self.name = name
        self.log = log
        inside = f"mount --bind {shlex.quote(str(hosts))} /etc/hosts && exec bash {shlex.quote(str(script))}"
        self.process = subprocess.Popen(
            [*_NAMESPACES, "bash", "-c", inside],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    @property
    def exit_code(self):
        """None while it runs, or while its output is being written."""
        code = self.process.poll()
        return None if code is None or self._writer.is_alive() else code

    def set_flag(self, value):
        """Set the byte in its shared memory, as the script in its pod does when the manager says so."""
        wait_for(lambda: self.process.poll() is not None or self._children(), 10)  # it may only be coming up
        for child in self._children():
            command = ["nsenter", f"--ipc=/proc/{child}/ns/ipc", sys.executable, "-c", _SET_FLAG, str(_SUSPEND_KEY)]
            subprocess.run([*command, value], check=False)

    def _children(self):
        with contextlib.suppress(OSError):  # it may have ended
            return pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return []

    def delete(self):
        """End it with all its processes, without grace: what has not come through the pipe by then is lost."""
        self.process.kill()
        self.process.wait()
        self._writer.join(_KILL_SECONDS)
        self.log.kill()
        self._writer.join()
        self.process.stdout.close()

    def _write(self):
        for line in self.process.stdout:
            self.log.write(stamped(line))
        self.log.close()


def stamped(line, at=None):
    """Return a line as `ts` puts it out: when it has been read to its end, with the local time."""
    return (at or dt.datetime.now(ZONE)).strftime("[%Y-%m-%d %H:%M:%S.%f] ").encode() + line


class Log:
    """What one rank of one task prints, on its way to its files: at a limited rate, in pieces that end anywhere."""

    def __init__(self, folder, rank, *, rate=FAST, size=FILE_SIZE):
        self._files = Files(folder, rank, size=size)
        self._piece = int(rate * _PIECE_SECONDS)
        self._pending = bytearray()
        self._changed = threading.Condition()
        self._closed = self._killed = False
        self._pump = threading.Thread(target=self._run, daemon=True)
        self._pump.start()

    def write(self, data):
        """Take what is printed; wait while the pipe is full."""
        with self._changed:
            self._changed.wait_for(lambda: self._killed or len(self._pending) < _PIPE_BYTES)
            self._pending += data
            self._changed.notify_all()

    def close(self):
        """Write all that is in the pipe, and return."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._pump.join()

    def kill(self):
        """Write nothing more."""
        with self._changed:
            self._killed = True
            self._changed.notify_all()

    def _run(self):
        while piece := self._next():
            self._files.write(piece)
            time.sleep(_PIECE_SECONDS)

    def _next(self):
        """Return the next piece; empty = there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closed or self._killed)
            waiting = 0 if self._killed else len(self._pending)
            # At less than the limit, too, readers meet unfinished lines.
            size = self._piece if waiting > self._piece else (waiting + 1) // 2 if waiting > _SHORT else waiting
            piece = bytes(self._pending[:size])
            del self._pending[:size]
            self._changed.notify_all()
        return piece


class Files:
    """The rotated files of one rank of one task.

    The size is looked at before each write, so a file is longer than its limit, and a line may go on in the next one.
    The first is not emptied when it is opened, the others are. No piece is split.
    """

    def __init__(self, folder, rank, *, size=FILE_SIZE):
        folder.mkdir(parents=True, exist_ok=True)
        self._base = folder / f"task#{rank}"
        self._size = size
        self._number = 0
        self._base.touch()

    def write(self, piece, at=None):
        """Append a piece, at a time in seconds since the epoch, None = now; tell whether it is in a new file."""
        path = self._path()
        if full := path.stat().st_size > self._size:
            self._number = (self._number + 1) % FILES
            path = self._path()
        with path.open("wb" if full else "ab") as file:
            file.write(piece)
        if at is not None:
            os.utime(path, (at, at))
        return full

    def _path(self):
        return self._base.with_name(f"{self._base.name}.{self._number}") if self._number else self._base


# --- reading, as the platform's query server does


def read(folder, rank, last_seen):
    """Return (data, last_seen) of one rank of one task: what its files, by age, have behind a line.

    The newest line by its time stamp is the last one seen, whether it has ended or not.
    """
    if not folder.is_dir():
        return NOTHING_YET, None
    pattern = re.compile(rf"#{rank}(\.\d+)*$")
    files = [path for path in folder.iterdir() if pattern.search(path.name)]
    data, newest = [], last_seen
    for path in sorted(files, key=lambda path: path.stat().st_mtime):
        text, seen = _read_file(path, last_seen)
        data.append(text)
        if seen and seen["timestamp"] and (not newest or _time(seen) > _time(newest)):
            newest = seen
    lines = "".join(data).split("\n")
    cut = [line[:LONGEST] + CUT if len(line) > LONGEST and line[29:40] != "[HFAI_PRINT" else line for line in lines]
    return "\n".join(cut), newest


def _read_file(path, last_seen):
    """Return what a file has behind a line.

    If another line is there, or none, it is all of the file. Or, if the first line is the rest of one, what follows
    that, and the rest is lost; but all of it again if what follows is not newer.
    """
    mtime = path.stat().st_mtime
    if last_seen and mtime < last_seen["mtime"]:
        return "", last_seen
    content = path.read_bytes()
    if not last_seen:
        return _from(content, 0, None, mtime)
    since = _time(last_seen)
    there = _line(content, last_seen["offset"])
    if _stamp(there) == since:
        return _from(content, last_seen["offset"] + len(there), since, mtime)
    first = _line(content, 0)
    start = 0 if _stamp(first) else len(first)
    stamp = _stamp(_line(content, start))
    return _from(content, start if stamp and since < stamp else 0, since, mtime)


def _line(content, start):
    end = content.find(b"\n", start) + 1
    return content[start:end] if end else content[start:]


def _from(content, start, since, mtime):
    """Return what follows a place; nothing if no line begins there, or if the last one that does is not newer."""
    stamp, place = since, start
    for at in range(len(content) - 1, start - 1, -1):
        if (
            content[at] == ord("[")
            and (at == start or content[at - 1] == ord("\n"))
            and (line_stamp := _stamp(content[at : at + 29]))
        ):
            if not since or line_stamp > since:
                stamp, place = line_stamp, at
            break
    seen = {"timestamp": stamp and stamp.isoformat(), "offset": place, "mtime": mtime}
    return content[start:].decode(errors="replace") if stamp != since else "", seen


def _stamp(line):
    """Return a line's time; None if it has none: less than a stamp and one more character has none."""
    if len(line) <= 28 or not _TIME.fullmatch(line[1:27]):
        return None
    return dt.datetime.fromisoformat(line[1:27].decode())


def _time(seen):
    return dt.datetime.fromisoformat(seen["timestamp"])


def wait_for(what, seconds):
    """Wait until `what()` is true, at most some seconds; tell whether it is."""
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(what())


def may_isolate():
    """Tell whether processes can be given namespaces here: they can by root."""
    return os.geteuid() == 0 and subprocess.run([*_NAMESPACES, "true"], check=False).returncode == 0

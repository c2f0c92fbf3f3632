"""Ranks of a task as real processes: each in namespaces of its own, its output with time stamps in rotated files.

Written from reference hai.md (the protocol and what was observed of the real servers), not from the platform's code.
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

FILES, FILE_SIZE = 4, 2 << 20  # rotatelogs -n 4, 2M each
LONGEST = 4096
CUT = "...(已被截断)"
NOTHING_YET = "还没产生日志"
_SUSPEND_KEY = 7123378543 & 0xFFFFFFFF
_SET_FLAG = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
at = libc.shmat(libc.shmget(ctypes.c_int(int(sys.argv[1])), ctypes.c_size_t(1), 0o1777), None, 0)
ctypes.memmove(at, sys.argv[2].encode(), 1)
"""
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
        """End it with all its processes, without grace."""
        self.process.kill()
        self.process.wait()
        self._writer.join(10)
        self.process.stdout.close()

    def _write(self):
        for line in self.process.stdout:
            stamp = dt.datetime.now(dt.UTC).strftime("[%Y-%m-%d %H:%M:%S.%f] ")
            self.log.write(stamp.encode() + (line if line.endswith(b"\n") else line + b"\n"))


class Log:
    """The rotated files of one rank of one task."""

    def __init__(self, folder, rank):
        folder.mkdir(parents=True, exist_ok=True)
        self._base = folder / f"task#{rank}"
        self._count = 0
        self._halves = False

    def write(self, line):
        path = self._base if not self._count else self._base.with_name(f"{self._base.name}.{self._count}")
        with path.open("ab") as file:
            half = len(line) // 2 if self._halves else 0
            self._halves = not self._halves
            for part in (line[:half], line[half:]):  # readers meet unfinished lines
                file.write(part)
                file.flush()
            full = file.tell() > FILE_SIZE
        if full:
            self._count = (self._count + 1) % FILES
            self._base.with_name(f"{self._base.name}.{self._count}" if self._count else self._base.name).unlink(
                missing_ok=True
            )


# --- reading, as the platform's query server does


def read(folder, rank, last_seen):
    """Return (data, last_seen) of one rank of one task."""
    pattern = re.compile(rf"#{rank}(\.\d+)*$")
    files = [path for path in folder.iterdir() if pattern.search(path.name)] if folder.is_dir() else []
    if not files:
        return NOTHING_YET, None
    data, newest = [], last_seen
    for path in sorted(files, key=lambda each: each.stat().st_mtime):
        text, seen = _read_file(path, last_seen)
        data.append(text)
        if seen and seen["timestamp"] and (not newest or seen["timestamp"] > newest["timestamp"]):
            newest = seen
    lines = "".join(data).split("\n")
    cut = [line[:LONGEST] + CUT if len(line) > LONGEST and line[29:40] != "[HFAI_PRINT" else line for line in lines]
    return "\n".join(cut), newest


def _read_file(path, last_seen):
    mtime = path.stat().st_mtime
    if last_seen and mtime < last_seen["mtime"]:
        return "", last_seen
    content = path.read_bytes()
    start, since = 0, None
    if last_seen:
        since = last_seen["timestamp"]
        there = content[last_seen["offset"] :].split(b"\n", 1)
        if _stamp(there[0]) == since:
            start = last_seen["offset"] + len(there[0]) + (1 if len(there) > 1 else 0)
    return _from(content, start, since, mtime)


def _from(content, start, since, mtime):
    rest = content[start:]
    for at in range(rest.rfind(b"["), -1, -1):
        if rest[at : at + 1] == b"[" and (at == 0 or rest[at - 1 : at] == b"\n") and (stamp := _stamp(rest[at:])):
            if since and stamp <= since:
                break
            seen = {"timestamp": stamp, "offset": start + at, "mtime": mtime}
            return rest.decode(errors="replace"), seen
    return "", {"timestamp": since, "offset": start, "mtime": mtime}


def _stamp(line):
    found = re.match(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6})", line[:28]) if len(line) > 28 else None
    return found[1].decode().replace(" ", "T") if found else None


def wait_for(what, seconds):
    """Wait until `what()` is true, at most some seconds; tell whether it is."""
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(what())


def may_isolate():
    """Tell whether processes can be given namespaces here: they can by root."""
    return os.geteuid() == 0 and subprocess.run([*_NAMESPACES, "true"], check=False).returncode == 0

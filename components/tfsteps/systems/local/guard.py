"""The sessions of replicas: who is in one, its end, and a small process that ends them if the supervisor is killed.

SIGKILL leaves no time for clean-up, and a parent-death signal reaches only direct children. The guard reads a pipe
whose other end the supervisor holds. Each replica writes its process id there before it executes the user's program, so
none is missed. At the end of the pipe, the guard kills the sessions that are still registered, with all their process
groups, until it finds no process in them.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import threading
from typing import Self

from tfsteps.runs.survivors import session_members

# In /proc/PID/stat, the state and the session are the first and the fourth word after the name in brackets, which may
# have line ends.
_GUARD = r"""
umask 077
trap '' HUP INT TERM
proof=$1
while read -r change id; do
  case $change in
    +) live="$live $id" ;;
    -) rest=; for pid in $live; do [ "$pid" = "$id" ] || rest="$rest $pid"; done; live=$rest ;;
    =) proof= ;;
  esac
done
for pid in $live; do kill -s KILL -- "-$pid"; done
tries=600
while [ "$live" ] && [ $tries -gt 0 ]; do
  left=
  for file in /proc/[0-9]*/stat; do
    line=
    while read -r part; do line=$part; done <"$file"
    set -- ${line##*) }
    [ "$4" ] || continue
    case $1 in Z | X) continue ;; esac
    case " $live " in *" $4 "*) pid=${file#/proc/}; kill -s KILL "${pid%/stat}"; left=1 ;; esac
  done
  [ "$left" ] || live=
  tries=$((tries - 1))
  [ ! "$live" ] || sleep 0.1
done
[ "$live" ] || [ ! "$proof" ] || : >"$proof"
"""

WRAPPER = ["/bin/sh", "-c", 'echo "+ $$" >&0 && exec "$@" </dev/null', "tfsteps"]
"""Prefix of a command whose standard input is the guard's pipe: registers the process, then executes the command."""


def kill_session(leader: int) -> None:
    """Kill every process of a session, also those that start meanwhile. The leader must not have been reaped."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    killed: set[int] = set()
    while remaining := set(session_members(leader)) - killed:
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= remaining


class Guard:
    """Runs during the `with` block; kills every registered session if this process dies in it."""

    def __init__(self, proof: pathlib.Path | None = None) -> None:
        """Store the file that the guard creates once no process of a killed session is left; None = none."""
        self._proof = proof
        self._sessions: set[int] = set()
        self._ended: list[subprocess.Popen[bytes]] = []  # their pipes stay open: another thread may be using one
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._start()
        return self

    def _start(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "tfsteps", os.fspath(self._proof or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            bufsize=0,
        )
        assert self._process.stdin
        self.pipe = self._process.stdin.fileno()
        self._write("".join(f"+ {pid}\n" for pid in [*self._sessions]))

    def replace_ended(self) -> None:
        """Start another guard if something has ended this one, as the kernel may if memory is short."""
        with self._lock:
            ended = self._process
            if ended.poll() is not None:
                with contextlib.suppress(OSError):  # no process can be started now; tried again by the next call
                    self._start()
                    self._ended.append(ended)

    def remember(self, pid: int) -> None:
        """Note a process that has registered itself, for a guard that replaces this one."""
        self._sessions.add(pid)

    def forget(self, pid: int) -> None:
        """Remove an ended process before its id can be reused."""
        self._sessions.discard(pid)
        self._write(f"- {pid}\n")

    def __exit__(self, *_: object) -> None:
        self._write("=\n")  # no proof is needed: this process records how the replicas ended
        for process in (self._process, *self._ended):
            assert process.stdin
            process.stdin.close()
            process.wait()

    def _write(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self.pipe, text.encode())

"""A small process that ends the replicas if the supervisor is killed.

SIGKILL leaves no time for clean-up, and a parent-death signal reaches only direct children. The guard reads a pipe
whose other end the supervisor holds. Each replica writes its process id there before it executes the user's program, so
none is missed. At the end of the pipe, the guard kills all process groups that are still registered.
"""

import contextlib
import subprocess
from typing import Self

_GUARD = """
trap '' HUP INT TERM
while read -r change id; do
  case $change in
    +) live="$live $id" ;;
    -) rest=; for each in $live; do [ "$each" = "$id" ] || rest="$rest $each"; done; live=$rest ;;
  esac
done
for each in $live; do kill -s KILL -- "-$each"; done
"""

WRAPPER = ["/bin/sh", "-c", 'echo "+ $$" >&0 && exec "$@" </dev/null', "tfsteps"]
"""Prefix of a command whose standard input is the guard's pipe: registers the process, then executes the command."""


class Guard:
    """Runs during the `with` block; kills every registered process group if this process dies in it."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        assert self._process.stdin
        self.pipe = self._process.stdin.fileno()
        return self

    def forget(self, pid: int) -> None:
        """Remove an ended process before its id can be reused."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"- {pid}\n".encode())
            self._process.stdin.flush()

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

"""A tiny process that ends the replicas if the supervisor is killed.

SIGKILL leaves no time for clean-up, and a parent-death signal reaches the direct children only. The guard reads a pipe
whose other end the supervisor holds: each replica writes its own process id there before it becomes the user's program,
so none can be missed; at the end of the pipe all groups that are still listed are killed.
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
"""Put before a command, with the guard's pipe as standard input: registers the process, then becomes the command."""


class Guard:
    """Lives as long as the `with` block; ends every registered process group when this process dies in it."""

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
        """Drop a process that has ended, before its id can be used again."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"- {pid}\n".encode())
            self._process.stdin.flush()

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

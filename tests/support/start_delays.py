"""Lets processes and threads beneath a test run begin late.

`python -m tests.support.start_delays PID` (root), PID of a pytest.

What works only because a child is quick fails then: replicas, launchers and shells at their start, and single threads
of them and of pytest itself. With `--pods`, what runs in the pods of the test cluster is late, too.
"""

import argparse
import contextlib
import ctypes
import heapq
import os
import random
import select
import signal
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_FORK, _EXEC = 1, 2  # the kernel's process events [source: linux, include/uapi/linux/cn_proc.h]
_SEIZE, _INTERRUPT, _DETACH, _WALL = 0x4206, 0x4207, 17, 0x40000000  # [source: ptrace(2), waitpid(2)]
_SHARE_OF_PROCESSES, _SHARE_OF_THREADS = 0.2, 0.05  # TensorFlow has many threads
_LIBC = ctypes.CDLL(None)
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def born(patience: list[float]) -> Iterator[tuple[int, int, int, int] | None]:
    """Yield (event, parent process, thread, process) for what is forked or executed; None after each patience[0] s."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 11) as kernel:
        kernel.bind((os.getpid(), 1))
        listen = struct.pack("IIIIHHI", 1, 1, 0, 0, 4, 0, 1)
        kernel.send(struct.pack("IHHII", 16 + len(listen), 3, 0, 0, os.getpid()) + listen)
        while True:
            if not select.select([kernel], [], [], patience[0])[0]:
                yield None
                continue
            message = kernel.recv(8192)
            (event,) = struct.unpack_from("I", message, 36)
            if event == _FORK:
                _, parent, thread, process = struct.unpack_from("IIII", message, 52)
                yield event, parent, thread, process
            elif event == _EXEC:
                thread, process = struct.unpack_from("II", message, 52)
                yield event, 0, thread, process


class Held:
    """What stands still, and until when."""

    def __init__(self, dice: random.Random, longest: float) -> None:
        """Let each stand still for `longest` seconds at the most."""
        self._dice, self._longest = dice, longest
        self._due: list[tuple[float, int, str, int]] = []
        self.counts = Counter[str]()

    def process(self, pid: int) -> None:
        """Stop a process."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self._push(pid, "processes")

    def thread(self, tid: int) -> None:
        """Stop one thread, unless somebody else traces it."""
        if _LIBC.ptrace(_SEIZE, tid, None, None) or _LIBC.ptrace(_INTERRUPT, tid, None, None):
            return
        _, status = os.waitpid(tid, _WALL)
        if os.WIFSTOPPED(status):
            self._push(tid, "threads", 0 if status >> 16 else os.WSTOPSIG(status))  # a signal that came first

    def _push(self, ident: int, what: str, number: int = signal.SIGCONT) -> None:
        self.counts[what] += 1
        end = time.monotonic() + self._dice.uniform(0.02, self._longest)
        heapq.heappush(self._due, (end, ident, what, number))

    def release(self, *, every: bool = False) -> float:
        """Let go on what has stood still for long enough, or all; return the seconds until the next is due."""
        while self._due and (every or self._due[0][0] <= time.monotonic()):
            _, ident, what, number = heapq.heappop(self._due)
            if what == "processes":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(ident, number)
            elif _LIBC.ptrace(_DETACH, ident, None, number):  # it was killed
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(ident, os.WNOHANG | _WALL)
        return max(0.0, self._due[0][0] - time.monotonic()) if self._due else 1.0


def delay(root: int, dice: random.Random, longest: float, *, pods: bool) -> Counter[str]:
    """Go on until `root` or this process is ended; return how many were late."""
    held, family, patience = Held(dice, longest), {root}, [1.0]
    try:
        for item in born(patience):
            patience[0] = held.release()
            if not Path(f"/proc/{root}").exists():
                break
            if item is None:
                continue
            event, parent, thread, process = item
            if event == _FORK and parent in family:
                family.add(process)
                if thread != process and dice.random() < _SHARE_OF_THREADS:
                    held.thread(thread)
            elif event == _EXEC and (process in family or (pods and _is_in_pod(process))):
                family.add(process)
                if dice.random() < _SHARE_OF_PROCESSES:
                    held.process(process)
            patience[0] = held.release()
    except KeyboardInterrupt:
        pass
    finally:
        held.release(every=True)
    return held.counts


def _is_in_pod(process: int) -> bool:
    with contextlib.suppress(OSError):
        return "kubepods" in Path(f"/proc/{process}/cgroup").read_text()
    return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="start_delays", description=__doc__)
    parser.add_argument("root", type=int, metavar="PID")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=2.0, help="seconds (2)")
    parser.add_argument("--pods", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(
        "delayed:",
        dict(delay(options.root, random.Random(options.seed), options.longest, pods=options.pods)),
        flush=True,
    )

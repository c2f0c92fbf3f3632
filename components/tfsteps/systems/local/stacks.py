"""Asks the Python programs of a replica for the stacks of their threads, before a deadline ends them."""

import os
import pathlib
import signal
from collections.abc import Iterable

from tfsteps.systems.local import sessions
from tfsteps.systems.local.process import ReplicaProcess

NUMBER = signal.SIGRTMAX - 4
"""The signal on which `startup/sitecustomize.py` has Python print its stacks. Programs use SIGUSR1 and SIGUSR2."""

VARIABLE = "TFSTEPS_STACK_SIGNAL"
"""Tells the number to a program."""

SECONDS = 1.0
"""Until the stacks are printed."""

STARTUP = pathlib.Path(__file__).parent / "startup"
"""Goes into PYTHONPATH."""


def request(running: Iterable[ReplicaProcess]) -> list[ReplicaProcess]:
    """Send the signal to the first process of each replica that handles it, and return the replicas that have one.

    To a process without a handler, such as another program than Python, nothing is sent: the signal would end it.
    """
    return [replica for replica in running if _ask(replica.pid)]


def _ask(leader: int) -> bool:
    for pid in sorted(sessions.members(leader), key=lambda pid: (pid != leader, pid)):
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
            if caught >> (NUMBER - 1) & 1:
                os.kill(pid, NUMBER)
                return True
        except (OSError, StopIteration):
            continue
    return False

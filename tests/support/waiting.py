"""Waiting for what programs, machines and clusters do in their own time."""

import re
import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

LONGEST = 400.0
"""Seconds after which what did not happen never will, however busy the machine is. What is promised earlier says so;
what must not end by itself meanwhile sleeps for longer."""


def until(what: Callable[[], _T], seconds: float = LONGEST) -> _T:
    """Wait until `what()` is true and return it; fail if it does not become so in time."""
    end, pause = time.monotonic() + seconds, 0.01
    while not (value := what()):
        assert time.monotonic() < end, f"it did not happen within {seconds:.0f} s"
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    return value


def read_until(process: "subprocess.Popen[str]", pattern: str) -> str:
    """Read a process's standard output up to the first line that matches; return all that was read."""
    assert process.stdout
    read = []
    for line in process.stdout:
        read.append(line)
        if re.search(pattern, line):
            return "".join(read)
    raise AssertionError(f"never printed {pattern!r}: {read} {process.stderr.read() if process.stderr else ''}")

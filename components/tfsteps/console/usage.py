"""CPU and memory of processes that still run."""

import contextlib
import os
from collections.abc import Collection
from typing import NamedTuple

import psutil


class Usage(NamedTuple):
    """CPU seconds so far, and resident bytes now."""

    cpu_seconds: float
    memory_bytes: int


def usage(leaders: Collection[int]) -> dict[int, Usage]:
    """Return what each session uses, by its leader's process id; sessions that have ended are left out."""
    usages: dict[int, Usage] = {}
    for pid in psutil.pids() if leaders else ():
        with contextlib.suppress(OSError, psutil.Error):
            if (leader := os.getsid(pid)) in leaders:
                before, process = usages.get(leader, Usage(0.0, 0)), psutil.Process(pid)
                cpu = sum(process.cpu_times()[:4])  # of the process, and of children that it has waited for
                usages[leader] = Usage(before.cpu_seconds + cpu, before.memory_bytes + process.memory_info().rss)
    return usages

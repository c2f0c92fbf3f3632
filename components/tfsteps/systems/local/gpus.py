"""Reads what the processes of this machine use of its GPUs, by `nvidia-smi pmon`."""

import contextlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Collection, Iterator

import msgspec

_COMMAND = ("pmon", "-c", "1", "-s", "um")  # one sample of utilization and memory
_SECONDS = 15.0  # the least time between two calls, which cost more than all else that is sampled
_OLD_SECONDS = 60.0
_TIMEOUT = 20.0
_MIB = 1 << 20


class GpuReading(msgspec.Struct, frozen=True):
    """What processes use: busy GPUs (1.5 = one at 100 % and one at 50 %), and bytes of their memory."""

    busy: float = 0.0
    memory: int = 0


class GpuMeter:
    """Calls nvidia-smi in a thread, because a call takes a second, and for ever if the driver hangs.

    Attributes:
        note: Why the usage of GPUs is not known, in one sentence; empty = no problem so far.
    """

    def __init__(self) -> None:
        """Find nvidia-smi; it is not called yet."""
        self.note = ""
        self._program = shutil.which("nvidia-smi")
        if not self._program:
            self.note = "The usage of GPUs is not known: nvidia-smi is not installed."
        self._thread: threading.Thread | None = None
        self._due = 0.0
        self._at, self._processes = 0.0, dict[int, GpuReading]()

    def sessions(self, leaders: Collection[int]) -> dict[int, GpuReading]:
        """Return the newest reading of each session that uses a GPU, by the process id of its leader; ask for the next.

        Empty before the first answer, and if the last one is older than a minute.
        """
        now = time.monotonic()
        if self._program and now >= self._due and not (self._thread and self._thread.is_alive()):
            self._due = now + _SECONDS
            self._thread = threading.Thread(target=self._ask, args=(self._program,), name="nvidia-smi", daemon=True)
            self._thread.start()
        sums: dict[int, GpuReading] = {}
        for pid, reading in self._processes.items() if now - self._at < _OLD_SECONDS else ():
            with contextlib.suppress(ProcessLookupError):
                if (leader := os.getsid(pid)) in leaders:
                    total = sums.get(leader, GpuReading())
                    sums[leader] = GpuReading(total.busy + reading.busy, total.memory + reading.memory)
        return sums

    def _ask(self, program: str) -> None:
        try:
            answer = subprocess.run(
                [program, *_COMMAND], stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=True
            )
        except subprocess.CalledProcessError as error:
            said = (error.stderr + error.stdout).decode(errors="replace").strip().partition("\n")[0]
            self.note = f"The usage of GPUs is not known: nvidia-smi pmon failed: {said[:200]}"
        except (OSError, subprocess.TimeoutExpired) as error:
            self.note = f"The usage of GPUs is not known: {error}"
        else:
            self._processes, self._at = processes(answer.stdout.decode(errors="replace")), time.monotonic()


def processes(text: str) -> dict[int, GpuReading]:
    """Return what each process uses on all GPUs, from the output of `nvidia-smi pmon`.

    The columns differ between drivers: the first comment line names them. `-` stands for an unknown value.
    """
    readings: dict[int, GpuReading] = {}
    for row in _rows(text):
        with contextlib.suppress(KeyError, ValueError):  # a GPU without processes has a row with the process `-`
            pid, total = int(row["pid"]), readings.get(int(row["pid"]), GpuReading())
            busy, memory = _number(row.get("sm", "-")), _number(row.get("fb", "-"))
            readings[pid] = GpuReading(round(total.busy + busy / 100, 4), total.memory + round(memory) * _MIB)
    return readings


def _rows(text: str) -> Iterator[dict[str, str]]:
    names: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            yield dict(zip(names, line.split(), strict=False))
        elif "pid" in line:
            names = line.removeprefix("#").split()


def _number(text: str) -> float:
    return 0.0 if text == "-" else float(text)

"""Samples what the replicas of a local job use: CPU time and resident memory of their sessions, by /proc, and GPUs."""

import contextlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from tfsteps.runs.events import UsageSampled
from tfsteps.runs.usage import Sample
from tfsteps.spec import TrainingJob
from tfsteps.systems.local.process import ReplicaProcess
from tfsteps.systems.usage_interval import usage_interval

SECONDS = 5.0
"""The interval, unless TFSTEPS_USAGE_INTERVAL sets another."""

_FIRST_SECONDS = 1.0  # short jobs have a sample too
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_COMMAND = ("pmon", "-c", "1", "-s", "um")  # one sample of utilization and memory
_SECONDS = 15.0  # the least time between two calls, which cost more than all else that is sampled
_OLD_SECONDS = 60.0
_GPU_TIMEOUT = 20.0
_MIB = 1 << 20


class _Reading(msgspec.Struct, frozen=True):
    """CPU seconds of a process and of the children that it has waited for, and resident bytes."""

    cpu: float = 0.0
    memory: int = 0


class UsageMeter:
    """Samples replicas when that is due.

    Memory is resident memory, as the supervisor limits it: pages that processes of a replica share count for each.
    """

    def __init__(self, job: TrainingJob) -> None:
        """Read the interval from the environment; nothing is measured yet. GPUs are read if a role requests some."""
        self._interval = usage_interval(SECONDS)[0]
        self._due = time.monotonic() + min(_FIRST_SECONDS, self._interval)
        wants_gpus = any(role.resources.uses_gpus for role in job.resolved_roles().values())
        self._gpus = GpuMeter() if self._interval and wants_gpus else None
        self._note = ""  # about GPUs
        self._last: dict[int, tuple[float, float]] = {}  # by session: when it was read, and its CPU seconds

    def look(self, running: Iterable[ReplicaProcess]) -> Iterator[UsageSampled]:
        """Yield the usage since the last sample, if one is due and replicas run."""
        now = time.monotonic()
        if self._interval and now >= self._due:
            self._due = now + self._interval
            samples = self.sample(running)
            note = self._gpus.note if self._gpus and not self._note else ""
            self._note = self._note or note
            if samples or note:
                yield UsageSampled(samples, note)

    def end(self, replica: str, peak: int) -> Iterator[UsageSampled]:
        """Yield the peak memory of a replica that has ended, in bytes: it may have come between two samples."""
        if self._interval:
            yield UsageSampled([Sample(at=round(time.time(), 3), window=0.0, replica=replica, memory_peak=peak)])

    def sample(self, running: Iterable[ReplicaProcess]) -> list[Sample]:
        """Return what each replica used since the last sample, or since its start; without those that have ended."""
        now, running = time.monotonic(), list(running)
        processes = {replica.pid: (str(replica.replica), replica.started) for replica in running}
        readings = _sessions(processes) if processes else {}
        gpus = self._gpus.sessions(processes) if self._gpus else {}
        at = time.time()
        samples = []
        for pid, reading in readings.items():
            replica, started = processes[pid]
            before, cpu = self._last.get(pid, (now - max(at - started, 0.0), 0.0))
            if (window := now - before) > 0:
                cores = max(reading.cpu - cpu, 0.0) / window  # less if a process ended that nobody has waited for
                samples.append(
                    Sample(
                        at=round(at, 1),
                        window=round(window, 1),
                        replica=replica,
                        cpu=round(cores, 4),
                        memory=reading.memory,
                        gpu=gpus[pid].busy if pid in gpus else None,
                        gpu_memory=gpus[pid].memory if pid in gpus else None,
                    )
                )
        for process in running:
            if process.pid in readings:
                process.peak = max(process.peak, readings[process.pid].memory)
        self._last = {pid: (now, reading.cpu) for pid, reading in readings.items()}
        return samples


def _sessions(leaders: Mapping[int, object]) -> dict[int, _Reading]:
    """Return the sum of the processes of each session, by the process id of its leader."""
    sums: dict[int, _Reading] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  four times as fast as pathlib
        with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile, or is not a process
            if (leader := os.getsid(int(name))) in leaders:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:  # noqa: PTH123
                    fields = file.read(4096).rpartition(b")")[2].split()  # the name before may contain anything
                total = sums.get(leader, _Reading())
                cpu = total.cpu + sum(map(int, fields[11:15])) / _TICKS
                sums[leader] = _Reading(cpu, total.memory + int(fields[21]) * _PAGE)
    return sums


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
                [program, *_COMMAND], stdin=subprocess.DEVNULL, capture_output=True, timeout=_GPU_TIMEOUT, check=True
            )
        except subprocess.CalledProcessError as error:
            output = (error.stderr + error.stdout).decode(errors="replace").strip().partition("\n")[0]
            self.note = f"The usage of GPUs is not known: nvidia-smi pmon failed: {output[:200]}"
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

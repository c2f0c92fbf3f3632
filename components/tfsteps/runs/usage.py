"""What the replicas of an attempt used over time: the samples in `usage.jsonl`, their reader, and their summary.

Each line is one JSON object: a `Sample`, or a `Note` that says why there are none.

    {"at":1764032491.2,"window":5.0,"replica":"worker-1","cpu":0.98,"memory":209715200}

The file is bounded, see `tfsteps.launcher.recorder`: older samples are merged, and a merged sample has the mean and
the peak of the samples that it replaces. Mean and peak of a whole attempt are therefore exact.
"""

import contextlib
import pathlib
from collections.abc import Iterable, Iterator
from typing import Annotated, TypeVar, cast

import msgspec

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.spec import Resources, RoleName, TrainingJob

# Only a damaged line exceeds these limits.
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]

_Number = TypeVar("_Number", int, float)


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one container of a replica used during a window of time. None = not known.

    Attributes:
        at: The end of the window, in seconds since the epoch.
        window: Its length in seconds; of a merged sample, the sum of the windows.
        period: Seconds that the sample stands for, if that is longer: since the end of the window before.
        replica: `worker-1`.
        container: Name of a sidecar; empty = the program's container, or the processes of a local replica.
        cpu: Cores, the mean over the window.
        cpu_peak: The highest `cpu` of the samples that this one replaces; None = `cpu`.
        memory: Bytes, as the job system measures them; of a merged sample their mean.
        memory_peak: The highest `memory` of the samples that this one replaces; None = `memory`.
        gpu: Busy GPUs: 1.5 = one GPU at 100 % and another at 50 %.
        gpu_peak: The highest `gpu` of the samples that this one replaces; None = `gpu`.
        gpu_memory: Bytes on all its GPUs; of a merged sample their peak.
    """

    at: float
    window: _Amount
    period: _Amount | None = None
    replica: str
    container: str = ""
    cpu: _Amount | None = None
    cpu_peak: _Amount | None = None
    memory: _Bytes | None = None
    memory_peak: _Bytes | None = None
    gpu: _Amount | None = None
    gpu_peak: _Amount | None = None
    gpu_memory: _Bytes | None = None

    @property
    def source(self) -> tuple[str, str]:
        """The replica and the container."""
        return self.replica, self.container

    @property
    def seconds(self) -> float:
        """The weight of the sample in a mean."""
        return self.window if self.period is None else self.period


class UsageNote(msgspec.Struct, frozen=True):
    """Why there are no samples, or no further ones, in one sentence."""

    note: str


class UsageSummary(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a replica or role used, over all its samples. None = not known.

    Attributes:
        seconds: The time that the samples stand for.
        cpu_mean: Cores of one replica, the mean over that time.
        cpu_peak: The most cores of one replica in one sample.
        memory_mean: Bytes of one replica, the mean over that time.
        memory_peak: The most bytes of one replica in one sample.
        gpu_mean: Busy GPUs of one replica, the mean over that time.
        gpu_peak: The most busy GPUs of one replica in one sample.
        gpu_memory_peak: The most bytes of GPU memory of one replica in one sample.
    """

    seconds: float = 0.0
    cpu_mean: float | None = None
    cpu_peak: float | None = None
    memory_mean: float | None = None
    memory_peak: int | None = None
    gpu_mean: float | None = None
    gpu_peak: float | None = None
    gpu_memory_peak: int | None = None

    def add(self, sample: Sample) -> None:
        """Include a sample."""
        self.merge(
            UsageSummary(
                seconds=sample.seconds,
                cpu_mean=sample.cpu,
                cpu_peak=_most(sample.cpu, sample.cpu_peak),
                memory_mean=sample.memory,
                memory_peak=_most(sample.memory, sample.memory_peak),
                gpu_mean=sample.gpu,
                gpu_peak=_most(sample.gpu, sample.gpu_peak),
                gpu_memory_peak=sample.gpu_memory,
            )
        )

    def merge(self, other: "UsageSummary") -> None:
        """Include the samples of another summary."""
        self.cpu_mean = _mean(self.cpu_mean, self.seconds, other.cpu_mean, other.seconds)
        self.memory_mean = _mean(self.memory_mean, self.seconds, other.memory_mean, other.seconds)
        self.gpu_mean = _mean(self.gpu_mean, self.seconds, other.gpu_mean, other.seconds)
        self.cpu_peak = _most(self.cpu_peak, other.cpu_peak)
        self.memory_peak = _most(self.memory_peak, other.memory_peak)
        self.gpu_peak = _most(self.gpu_peak, other.gpu_peak)
        self.gpu_memory_peak = _most(self.gpu_memory_peak, other.gpu_memory_peak)
        self.seconds += other.seconds


class ReplicaUsage(msgspec.Struct, kw_only=True):
    """The usage of one container of a replica.

    Attributes:
        replica: `worker-1`.
        container: Name of a sidecar; empty = the program's container.
        samples: In the order of time.
        summary: Their mean and peak.
    """

    replica: str
    container: str = ""
    samples: list[Sample] = []
    summary: UsageSummary = msgspec.field(default_factory=UsageSummary)

    @property
    def role(self) -> RoleName:
        """`worker`."""
        return role_of(self.replica)


class Usage(msgspec.Struct, kw_only=True):
    """The usage of an attempt.

    Attributes:
        replicas: Each container of each replica, in the order of their first samples; empty = there are no samples.
        notes: Why there are no samples, or no further ones.
        requests: The resources that the job requests for one replica of each role; empty = its description cannot be
            read.
    """

    replicas: list[ReplicaUsage] = []
    notes: list[str] = []
    requests: dict[RoleName, Resources] = {}

    @classmethod
    def read(cls, folder: pathlib.Path) -> "Usage":
        """Return the usage of the attempt with this folder, also while it runs; damaged lines are skipped."""
        usages: dict[tuple[str, str], ReplicaUsage] = {}
        notes: list[str] = []
        for record in records(folder / "usage.jsonl"):
            if isinstance(record, UsageNote):
                notes += [] if record.note in notes else [record.note]
                continue
            usage = usages.setdefault(
                record.source, ReplicaUsage(replica=record.replica, container=record.container, samples=[])
            )
            if not usage.samples or usage.samples[-1].at != record.at:  # a restarted launcher may repeat one
                usage.samples.append(record)
                usage.summary.add(record)
        requests: dict[RoleName, Resources] = {}
        with contextlib.suppress(OSError, *NOT_READABLE):
            job = typed_json.decode((folder / "job.json").read_bytes(), TrainingJob)
            requests = {name: role.resources for name, role in job.resolved_roles().items()}
        return cls(replicas=list(usages.values()), notes=notes, requests=requests)

    def roles(self) -> dict[RoleName, UsageSummary]:
        """Return the summary of each role's replicas, without sidecars."""
        return by_role({(usage.replica, usage.container): usage.summary for usage in self.replicas})


def by_role(summaries: dict[tuple[str, str], UsageSummary]) -> dict[RoleName, UsageSummary]:
    """Return one summary for each role, from those of replicas and their containers; sidecars are left out.

    Means are rounded to four digits after the point.
    """
    roles: dict[RoleName, UsageSummary] = {}
    for (replica, container), summary in summaries.items():
        if not container:
            roles.setdefault(role_of(replica), UsageSummary()).merge(summary)
    return {
        role: msgspec.structs.replace(
            summary,
            seconds=round(summary.seconds, 1),
            cpu_mean=_rounded(summary.cpu_mean),
            memory_mean=_rounded(summary.memory_mean),
            gpu_mean=_rounded(summary.gpu_mean),
        )
        for role, summary in roles.items()
    }


def role_of(replica: str) -> RoleName:
    """Return the role of the replica of this name."""
    return cast("RoleName", replica.rpartition("-")[0])


def records(path: pathlib.Path) -> Iterator[Sample | UsageNote]:
    """Yield the records of a file, which need not exist; lines that a full disk or a crash has damaged are skipped."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            with contextlib.suppress(*NOT_READABLE):
                is_note = line.startswith(b'{"note"')
                yield typed_json.decode(line, UsageNote) if is_note else typed_json.decode(line, Sample)


def merged(samples: Iterable[Sample], seconds: float) -> Iterator[Sample]:
    """Yield one sample for all samples of a replica's container whose windows end in the same interval of time.

    Args:
        samples: In the order of time; if a clock was set back, the samples of an interval may stay apart.
        seconds: Length of the intervals, which begin at multiples of it.
    """
    open_samples: dict[tuple[str, str], Sample] = {}
    for sample in samples:
        last = open_samples.pop(sample.source, None)
        if last and last.at // seconds == sample.at // seconds:
            sample = _merge(last, sample)  # noqa: PLW2901
        elif last:
            yield last
        open_samples[sample.source] = sample
    yield from open_samples.values()


def _merge(older: Sample, newer: Sample) -> Sample:
    a, b = older.seconds, newer.seconds
    memory = _mean(older.memory, a, newer.memory, b)
    return msgspec.structs.replace(
        newer,
        window=round(older.window + newer.window, 1),
        period=None if older.period is newer.period is None else round(a + b, 1),
        cpu=_rounded(_mean(older.cpu, a, newer.cpu, b)),
        cpu_peak=_most(older.cpu, older.cpu_peak, newer.cpu, newer.cpu_peak),
        memory=None if memory is None else round(memory),
        memory_peak=_most(older.memory, older.memory_peak, newer.memory, newer.memory_peak),
        gpu=_rounded(_mean(older.gpu, a, newer.gpu, b)),
        gpu_peak=_most(older.gpu, older.gpu_peak, newer.gpu, newer.gpu_peak),
        gpu_memory=_most(older.gpu_memory, newer.gpu_memory),
    )


def _most(*amounts: _Number | None) -> _Number | None:
    return max((amount for amount in amounts if amount is not None), default=None)


def _mean(first: float | None, first_seconds: float, second: float | None, second_seconds: float) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    seconds = first_seconds + second_seconds
    return (first * first_seconds + second * second_seconds) / seconds if seconds else second


def _rounded(amount: float | None) -> float | None:
    return None if amount is None else round(amount, 4)

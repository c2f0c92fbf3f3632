"""Writes the usage of one attempt to `usage.jsonl`, in bounded space."""

import contextlib
import os
import pathlib
from collections.abc import Iterable, Sequence

import msgspec

from tfsteps.runs.store import open_private
from tfsteps.runs.usage import Sample, UsageNote, UsageSummary, by_role, merged, records
from tfsteps.spec import RoleName

LIMIT = 4 << 20
"""The most bytes of the file. 60 replicas that are sampled for 7 days keep at least 200 samples each."""

_FIRST_INTERVAL = 20.0  # seconds; samples are merged in intervals of this length first, then of twice that, ...
_LONGEST_INTERVAL = 1e9


class UsageWriter:
    """Saves samples. If that fails, for example on a full disk, samples are lost and the job continues.

    When the file reaches its limit, the samples in each interval of time are merged into one; intervals are made longer
    until the file has half of its limit. Therefore newer samples are closer together than older ones.

    Attributes:
        lost: Number of samples that could not be saved.
        error: The first error; empty = no sample was lost.
    """

    def __init__(self, path: pathlib.Path, limit: int = LIMIT) -> None:
        """Prepare; the file is created with the first record, and continued if it exists.

        Args:
            path: The file.
            limit: The most bytes of the file. Exceeded only if one sample for each container needs more than half.
        """
        self.lost = 0
        self.error = ""
        self._path, self._limit, self._due = path, limit, limit
        self._interval = _FIRST_INTERVAL
        self._size: int | None = None  # None = the file has not been looked at
        self._broken = False  # it ends with a part of a line
        self._summaries: dict[tuple[str, str], UsageSummary] = {}

    def write(self, samples: Sequence[Sample], note: str = "") -> None:
        """Save samples, and a note unless it is empty; or count the samples as lost."""
        try:
            if self._size is None:
                self._size = self._open()
            data = _encoded([*samples, *([UsageNote(note)] if note else [])])
            if self._size + len(data) > self._due:
                self._merge()
            self._append(data)
        except OSError as error:
            self.lost += len(samples)
            self.error = self.error or f"{error.strerror}: {error.filename or self._path}"
        for sample in samples:
            self._summaries.setdefault(sample.source, UsageSummary()).add(sample)

    @property
    def roles(self) -> dict[RoleName, UsageSummary]:
        """The summary of each role so far, with the samples that could not be saved."""
        return by_role(self._summaries)

    @property
    def warnings(self) -> list[str]:
        """How many samples are missing in the file; empty = none."""
        return [f"{self.lost} samples of CPU and memory could not be saved: {self.error}"] if self.lost else []

    def _open(self) -> int:
        """Read what an earlier launcher of this attempt has written, and return the size of the file."""
        for record in records(self._path):
            if isinstance(record, Sample):
                self._summaries.setdefault(record.source, UsageSummary()).add(record)
        with open_private(self._path, "ab+") as file:
            size = file.tell()
            if size:
                file.seek(-1, os.SEEK_END)
                self._broken = file.read(1) != b"\n"
        return size

    def _append(self, data: bytes) -> None:
        if self._broken:  # end the damaged line first
            data = b"\n" + data
        done = 0
        with open_private(self._path, "ab", buffering=0) as file:
            try:
                while done < len(data):
                    done += file.write(data[done:])
            finally:
                self._size = file.tell()
                if done:
                    self._broken = not data.endswith(b"\n", 0, done)

    def _merge(self) -> None:
        """Replace the file by one of at most half of the limit, if there are intervals long enough for that."""
        new = self._path.with_suffix(".new")
        try:
            while (size := self._write_merged(new)) > self._limit // 2 and self._interval < _LONGEST_INTERVAL:
                self._interval *= 2
            new.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()
            raise
        self._size, self._broken = size, False
        self._due = max(self._limit, 2 * size)

    def _write_merged(self, path: pathlib.Path) -> int:
        """Write the records to `path`, those of an interval as one, and return the size in bytes."""
        notes = {record: None for record in records(self._path) if isinstance(record, UsageNote)}
        samples = (record for record in records(self._path) if isinstance(record, Sample))
        with open_private(path, "wb") as file:
            file.write(_encoded(notes))
            for sample in merged(samples, self._interval):
                file.write(_encoded([sample]))
            return file.tell()


def _encoded(items: Iterable[Sample | UsageNote]) -> bytes:
    return b"".join([msgspec.json.encode(item) + b"\n" for item in items])

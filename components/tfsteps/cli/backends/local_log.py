"""The saved log lines of attempts on this machine."""

import collections
import contextlib
import datetime as dt
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tfsteps.cli.backends.base import LogOptions
from tfsteps.console.text import clean, printable
from tfsteps.runs.log_segments import GAP, LogReader

if TYPE_CHECKING:
    from tfsteps.cli.backends.local import LocalJob


class LocalLog(contextlib.ExitStack):
    """Prints the log lines of some attempts, each once, also when files grow and attempts are added."""

    def __init__(self, options: LogOptions) -> None:
        """Open nothing yet."""
        super().__init__()
        self._options = options
        self._files: dict[pathlib.Path, tuple[str, LogReader]] = {}

    def print(self, jobs: Sequence["LocalJob"], tail: int | None = None) -> None:
        """Print the new lines of `jobs`; only the last ones, as many as `tail`; None = all."""
        self._open([job for job in jobs if job.attempt.folder not in self._files and job.attempt.log.exists()])
        out = sys.stdout.buffer
        out.writelines(self._lines() if tail is None else collections.deque(self._lines(), maxlen=tail))
        out.flush()

    def _open(self, jobs: Sequence["LocalJob"]) -> None:
        for job in sorted(jobs, key=lambda job: job.status.created):
            file = self.enter_context(LogReader(job.attempt.log))
            self._files[job.attempt.folder] = clean(job.status.identity.task), file

    def _lines(self) -> Iterator[bytes]:
        for task, file in self._files.values():
            prefix = f"{task}/" if len(self._files) > 1 else ""
            for stamp, source, text in file.read():
                if source == GAP or self._options.wanted(source):
                    at = f"{_local(stamp)} " if self._options.timestamps else ""
                    yield f"{at}[{prefix}{source}] ".encode() + printable(text) + b"\n"


def _local(stamp: str) -> str:
    return dt.datetime.fromisoformat(stamp).astimezone().isoformat(timespec="milliseconds")

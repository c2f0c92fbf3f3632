"""What the janitor has done, in the Prometheus text format, and whether it still works. Safe to use from threads."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence

from tfsteps.janitor.rules import Reason
from tfsteps.janitor.sweep import Count

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "tfsteps_janitor_"
_PERIODS, _GRACE_SECONDS = 5, 300.0
_Samples = list[tuple[str, float]]  # labels with braces, empty = none; and the value
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class JanitorMetrics:
    """The counters and gauges of one janitor since its start."""

    def __init__(self, kinds: Iterable[str], period: float) -> None:
        """Start at zero.

        Args:
            kinds: The kinds of objects that the janitor deletes: a counter exists for each from the start.
            period: Seconds between passes.
        """
        self._lock = threading.Lock()
        self._limit = _PERIODS * period + _GRACE_SECONDS
        self._deletions = {(kind, reason): 0 for kind in kinds for reason in Reason}
        self._passes = self._errors = self._jobs = 0
        self._seconds = self._finished_at = 0.0
        self._orphans: dict[str, float] = {}  # by uid: when its deletion failed first, by the monotonic clock
        self._alive_at = time.monotonic()

    def finish_pass(self, counts: Sequence[Count], seconds: float, at: float) -> None:
        """Add a pass that has ended.

        Args:
            counts: What it did.
            seconds: How long it took.
            at: When it ended, in seconds since the epoch.
        """
        now = time.monotonic()
        with self._lock:
            self._passes += 1
            self._seconds, self._finished_at, self._alive_at = seconds, at, now
            self._jobs = sum(count.jobs for count in counts)
            self._errors += sum(count.failures for count in counts)
            for count in counts:
                for key, number in count.deletions.items():
                    self._deletions[key] = self._deletions.get(key, 0) + number
            undeleted = set().union(*(count.undeleted for count in counts))
            self._orphans = {uid: self._orphans.get(uid, now) for uid in undeleted}

    def stalled(self) -> str:
        """Return since when no pass has ended, as a sentence; empty = the janitor works."""
        with self._lock:
            seconds = time.monotonic() - self._alive_at
        if seconds <= self._limit:
            return ""
        return f"no pass has ended for {seconds:.0f} s; the limit is {self._limit:.0f} s"

    def text(self) -> str:
        """Return all metrics in the Prometheus text format, version 0.0.4."""
        with self._lock:
            return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        orphan = max((time.monotonic() - since for since in self._orphans.values()), default=0.0)
        deletions: _Samples = [
            (_labels(kind=kind, reason=reason), number) for (kind, reason), number in sorted(self._deletions.items())
        ]
        yield from _metric("passes_total", "counter", "Passes that have ended.", [("", self._passes)])
        yield from _metric("jobs", "gauge", "Jobs looked at in the last pass.", [("", self._jobs)])
        yield from _metric("deletions_total", "counter", "Objects deleted, and jobs of platforms stopped.", deletions)
        yield from _metric(
            "errors_total", "counter", "Objects and lists that a pass could not handle.", [("", self._errors)]
        )
        yield from _metric(
            "last_pass_timestamp_seconds",
            "gauge",
            "When the last pass ended, in seconds since the epoch; 0 = none has.",
            [("", self._finished_at)],
        )
        yield from _metric("pass_seconds", "gauge", "Duration of the last pass.", [("", self._seconds)])
        yield from _metric(
            "oldest_orphan_seconds",
            "gauge",
            "Seconds since the first failed deletion of the job whose deletion has failed for longest; 0 = none.",
            [("", orphan)],
        )


def _metric(name: str, kind: str, meaning: str, samples: _Samples) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{name} {meaning}"
    yield f"# TYPE {_PREFIX}{name} {kind}"
    for labels, value in samples:
        yield f"{_PREFIX}{name}{labels} {value!r}"


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"

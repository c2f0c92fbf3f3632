"""The log lines of jobs, from their events."""

import heapq
from collections.abc import Iterator, Sequence
from operator import attrgetter

from tfsteps.backends.base import LogOptions
from tfsteps.backends.log_printer import LogLine, LogPrinter
from tfsteps.runs.events import Event, LogLines
from tfsteps.runs.log_file import stamp


class EventLog:
    """Prints lines of several jobs of one run.

    Attributes:
        read: How many lines of each source have been read, also of those that are not printed.
    """

    def __init__(self, tasks: Sequence[str], options: LogOptions) -> None:
        """Get ready to print lines of the jobs of some tasks, in this order."""
        self.read: dict[tuple[int, str], int] = {}
        self._tasks = tasks
        self._printer = LogPrinter(options)
        self._printer.several = len(tasks) > 1

    @property
    def printed(self) -> int:
        """Number of lines printed."""
        return self._printer.printed

    def print(self, events: Sequence[tuple[int, Event]], tail: int | None) -> None:
        """Print the lines of `events` in the order of time; only the last ones, as many as `tail`; None = all."""
        streams: dict[tuple[int, str], list[LogLine]] = {}
        for position, event in events:
            if isinstance(event, LogLines) and event.texts:
                streams.setdefault((position, event.source), []).extend(self._lines(position, event))
        self.read = {source: len(lines) for source, lines in streams.items()}
        self._printer.print(heapq.merge(*streams.values(), key=attrgetter("stamp")), tail)
        self._printer.flush()

    def go_on(self, position: int, event: Event, skipped: dict[tuple[int, str], int]) -> None:
        """Print the lines of an event, except the first ones of its source, whose number `skipped` counts down."""
        if not isinstance(event, LogLines) or not event.texts:
            return
        source = position, event.source
        known = skipped.get(source, 0)
        skipped[source] = max(0, known - len(event.texts))
        self._printer.print([*self._lines(position, event)][known:])
        self._printer.flush()

    def _lines(self, position: int, event: LogLines) -> Iterator[LogLine]:
        stamps = event.stamps or [stamp(event.at)] * len(event.texts)
        for at, text in zip(stamps, event.texts, strict=True):
            yield LogLine(at.decode(), self._tasks[position], event.source, event.incarnation or 0, text)

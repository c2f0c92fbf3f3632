"""Chooses the log lines of several jobs, and prints them or passes them on; the backends find them."""

import datetime as dt
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator

from tfsteps.backends.base import LogLine, LogOptions
from tfsteps.console.errors import CommandError
from tfsteps.console.text import clean, printable
from tfsteps.runs.log_file import GAP, stamp
from tfsteps.text.terminal import plain

_INCOMPLETE = b"(log incomplete: "  # the beginning of a line that reports missing lines
_SIMPLE = re.compile(rb"[\t\x20-\x7e]*")


_Source = tuple[str, str]
"""A task, and a replica or a container of one."""


class LogPrinter:
    """Prints lines as `[worker-1] text`, and a mark wherever another incarnation of their source begins.

    Attributes:
        several: Whether lines name their task too, because there are several.
        printed: Number of lines printed.
    """

    def __init__(self, options: LogOptions) -> None:
        """Print to standard output, or pass the lines to `options.receive`."""
        self.several = False
        self.printed = 0
        self._options = options
        self._since = "" if options.since is None else stamp(options.since).decode()
        self._incarnations: dict[_Source, int] = {}
        self._before: dict[_Source, deque[LogLine]] = {}  # the last lines that were not chosen
        self._after: dict[_Source, int] = {}  # how many lines follow a line that was found

    def print(self, lines: Iterable[LogLine], tail: int | None = None) -> None:
        """Print those of `lines` that the options choose; only the last ones, as many as `tail`; None = all."""
        chosen: Iterable[LogLine] = self._chosen(lines)
        for line in chosen if tail is None else deque(chosen, maxlen=tail):
            if self._options.receive:
                self._options.receive(line)
            else:
                sys.stdout.buffer.write(self._shown(line))
            self.printed += 1

    def flush(self) -> None:
        """Write out what is buffered."""
        if not self._options.receive:
            sys.stdout.buffer.flush()

    def _chosen(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        around = self._options.around
        for line in lines:
            if line.stamp < self._since or not (line.source == GAP or self._options.accepts(line.source)):
                continue
            source = line.task, line.source
            if self._finds(line):
                yield from self._before.pop(source, ())
                self._after[source] = around
                yield line
            elif self._after.get(source, 0):
                self._after[source] -= 1
                yield line
            elif around:
                self._before.setdefault(source, deque(maxlen=around)).append(line)

    def _finds(self, line: LogLine) -> bool:
        grep = self._options.grep
        return grep is None or line.text.startswith(_INCOMPLETE) or bool(grep.search(_visible(line.text)))

    def _shown(self, line: LogLine) -> bytes:
        at = f"{_local(line.stamp)} " if self._options.timestamps else ""
        several = self.several or self._options.name_tasks
        name = f"{clean(line.task)}/{line.source}" if several and line.source else line.source or clean(line.task)
        source = line.task, line.source
        mark = ""
        if line.incarnation != self._incarnations.get(source, 0):
            self._incarnations[source] = line.incarnation
            mark = f"{at}--- {name}, {f'restart {line.incarnation}' if line.incarnation else 'first start'} ---\n"
        return f"{mark}{at}[{name}] ".encode() + printable(line.text) + b"\n"


def compile_grep(text: str, *, ignore_case: bool) -> re.Pattern[str]:
    """Return the regular expression of `--grep`. CommandError if it is wrong; it names the position."""
    wrong = f"--grep {text!r} is not a regular expression"
    fix = r"write \ before a character that is meant literally, such as \( or \["
    try:
        return re.compile(text, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        at = "" if error.pos is None else f" at character {error.pos + 1}"
        raise CommandError(f"{wrong}: {error.msg}{at}; {fix}") from error
    except (OverflowError, RecursionError) as error:
        raise CommandError(f"{wrong}: {error}; write a shorter one") from error


def _visible(text: bytes) -> str:
    """Return a line as a terminal shows it: without colours, and the last state of one that was overwritten."""
    decoded = text.decode(errors="replace")
    return decoded if _SIMPLE.fullmatch(text) else plain(decoded)


def _local(at: str) -> str:
    return dt.datetime.fromisoformat(at).astimezone().isoformat(timespec="milliseconds")

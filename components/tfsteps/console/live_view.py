"""The live view for terminals: log lines scroll above a table of the replicas, drawn by a thread of its own."""

import collections
import contextlib
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Self

import msgspec
import psutil
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfsteps.console.outputs import REPLICA_COLUMNS, replica_row
from tfsteps.console.tables import state_style, table
from tfsteps.console.text import clean, duration
from tfsteps.runs.events import LogLines, PartialLine, ReplicaState
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import is_uri
from tfsteps.tensorboard.event_files import Scalar, ScalarReader

_SPARE = ("PLACE", "CPU", "MEMORY", "RESTARTS", "ELAPSED", "EXIT")
_MAX_SCALARS = 4
_DULL = (ReplicaState.RUNNING, ReplicaState.SUCCEEDED, ReplicaState.STOPPED)
_REDRAW_SECONDS = 0.2
_REFRESH_SECONDS = 1.0
_MAX_LINES = 500  # for each redraw: nobody reads faster, and a slow terminal must not delay the job
_MAX_BYTES = 4 << 20  # the same
_FINAL_ROWS = 20  # of the table that an ended job leaves on the terminal
_COLOURS = ("cyan", "green", "magenta", "blue", "yellow", "bright_cyan", "bright_green", "bright_magenta")
Above = Callable[[int, int], Sequence[Text]]
"""Draws at most so many lines (the second argument), none wider than so many characters (the first)."""


class ProcessUsage(NamedTuple):
    """CPU seconds so far, and resident bytes now."""

    cpu_seconds: float
    memory_bytes: int


def usage(leaders: Collection[int]) -> dict[int, ProcessUsage]:
    """Return what each session uses, by its leader's process id; sessions that have ended are left out."""
    usages: dict[int, ProcessUsage] = {}
    for pid in psutil.pids() if leaders else ():
        with contextlib.suppress(OSError, psutil.Error):
            if (leader := os.getsid(pid)) in leaders:
                before, process = usages.get(leader, ProcessUsage(0.0, 0)), psutil.Process(pid)
                cpu = sum(process.cpu_times()[:4])  # of the process, and of children that it has waited for
                usages[leader] = ProcessUsage(before.cpu_seconds + cpu, before.memory_bytes + process.memory_info().rss)
    return usages


class LiveTable:
    """The table of one attempt. `refresh` reads files and processes, `lines` draws without reading.

    Attributes:
        status: The newest one reported. The launcher may change it while it is drawn; the next drawing corrects that.
    """

    def __init__(self, status: Status) -> None:
        """Show `status`."""
        self.status = status
        self._reader: ScalarReader | None = None
        self._scalars: dict[str, Scalar] = {}
        self._usage: dict[int, ProcessUsage] = {}
        self._here = False  # whether the process ids of replicas mean processes of this machine

    def refresh(self) -> None:
        """Read the new scalars, and what the running replicas use."""
        if not self._reader and self.status.logs and not is_uri(self.status.logs):
            origin = AttemptFolder.of(self.status.identity).event_origin  # recorded when the job was started
            self._reader = ScalarReader(self.status.logs, origin.counts) if origin else None
        for scalar in self._reader.poll() if self._reader else []:
            self._scalars[scalar.name] = scalar
        self._here = self.status.on_this_machine and AttemptFolder.of(self.status.identity).lives_here
        self._usage = usage({pid for replica in self.status.replicas if (pid := self._pid(replica)) is not None})

    def headline(self) -> Text:
        """Return one line: the task, its state, how long it runs, the step and the newest scalars."""
        status = self.status
        line = Text(no_wrap=True).append(clean(status.identity.task), "bold")
        if status.identity.attempt:
            line.append(f" (attempt {status.identity.attempt})", "dim")
        line.append(f"  {status.state}", state_style(status.state))
        line.append(f"  {duration(round((status.ended or time.time()) - status.created))}")
        if self._scalars:
            line.append(f"  step {max(scalar.step for scalar in self._scalars.values())}")
        for scalar in sorted(self._scalars.values(), key=_rank)[:_MAX_SCALARS]:
            line.append(f"  {clean(scalar.name)} ", "dim").append(f"{scalar.value:.4g}")
        if status.message:
            line.append(f"  {clean(status.message)}", "dim")
        return line

    def lines(self, width: int, height: int) -> list[Text]:
        """Return the headline and as much of the table as fits; never more than `height` lines of `width` cells.

        If there is no room for all replicas, those that failed or restarted are shown, and the rest is counted.
        """
        headline = self.headline()
        headline.truncate(width, overflow="ellipsis")
        replicas = list(self.status.replicas)
        room = height - 2  # the headline and the column titles
        if len(replicas) > room:
            room -= 1  # the count of the rest
        if room < 1 or not replicas:
            return [headline][:height]
        shown = _interesting(replicas, room, self.status.decisive_replica)
        drawn = [headline, *table(REPLICA_COLUMNS, [self._row(replica) for replica in shown], width, _SPARE)]
        if len(shown) < len(replicas):
            hidden = Counter(replica.state.value for replica in replicas if replica not in shown)
            rest = Text(f"and {sum(hidden.values())} more: {', '.join(f'{n} {s}' for s, n in hidden.items())}", "dim")
            rest.truncate(width, overflow="ellipsis")
            drawn.append(rest)
        return drawn

    def _pid(self, replica: ReplicaStatus) -> int | None:
        """Return the process id of a replica that is up on this machine, also before it has joined the others."""
        if not replica.incarnations or replica.incarnations[-1].ended is not None:
            return None
        kind, _, rest = replica.incarnations[-1].place.partition(" ")
        pid = re.match("[0-9]{1,7}", rest) if self._here and kind == "pid" else None
        return int(pid[0]) if pid else None

    def _row(self, replica: ReplicaStatus) -> list[str]:
        if used := self._usage.get(self._pid(replica) or 0):
            incarnation = msgspec.structs.replace(replica.incarnations[-1], **used._asdict())
            replica = msgspec.structs.replace(replica, incarnations=[incarnation])
        return replica_row(replica, time.time())


def _interesting(replicas: Sequence[ReplicaStatus], room: int, decisive_replica: str) -> list[ReplicaStatus]:
    """Return the `room` replicas that matter most, in the order of `replicas`."""

    def dullness(at: int) -> tuple[bool, bool, bool, int]:
        replica = replicas[at]
        return replica.state in _DULL, replica.restarts == 0, replica.name != decisive_replica, at

    return [replicas[at] for at in sorted(sorted(range(len(replicas)), key=dullness)[:room])]


def _rank(scalar: Scalar) -> tuple[bool, bool, str]:
    """Order scalars: the loss first, then accuracies, then all others."""
    tag = scalar.tag.lower()
    return "loss" not in tag, "acc" not in tag, scalar.name


class LiveView:
    """An observer that draws one or more attempts, as long as its `with` block lasts.

    `changed` and `lines` only record what happened, so a terminal that is slow or stopped never delays a job.
    """

    def __init__(self, console: Console | None = None, *, final: bool = True, above: Above | None = None) -> None:
        """Draw on `console`; None = standard output.

        Args:
            console: Where to.
            final: Leave the table of each ended job on the terminal.
            above: Draws what is shown above the tables; None = nothing.
        """
        self._above = above or (lambda _width, _height: [])
        self._console = console or Console(highlight=False)
        self._final = final
        self._region = _Region()
        self._live = Live(self._region, console=self._console, auto_refresh=False, transient=True)
        self._tables: dict[Identity, LiveTable] = {}
        self._ended: collections.deque[LiveTable] = collections.deque()
        self._lines: collections.deque[tuple[str, str | bytes]] = collections.deque(maxlen=_MAX_LINES)
        self._partials: dict[str, bytes] = {}
        self._missed = self._size = 0
        self._lock = threading.Lock()  # over everything above but the console
        self._redraw = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_closed, name="view", daemon=True)
        self._refreshed = 0.0

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Draw the rest, and restore the terminal."""
        self._closed.set()
        self._redraw.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            self._live.stop()

    def changed(self, status: Status) -> None:
        """Show the status of an attempt; an ended one moves up among the log lines."""
        with self._lock:
            table = self._tables.get(status.identity)
            if table is None:
                table = self._tables[status.identity] = LiveTable(status)
            table.status = status
            if status.state.terminal:
                self._ended.append(self._tables.pop(status.identity))
        self._redraw.set()

    def lines(self, lines: LogLines, task: str = "") -> None:
        """Show log lines.

        Args:
            lines: What was printed.
            task: Shown before the replica, for views of several tasks; empty = nothing.
        """
        self._note(_prefix(lines.source, task), lines.texts)

    def partial(self, line: PartialLine, task: str = "") -> None:
        """Show a line that has not ended yet, such as a progress bar, below the others until it has."""
        with self._lock:
            self._partials[_prefix(str(line.replica), task)] = line.text
        self._redraw.set()

    def say(self, text: str) -> None:
        """Show a line that is no log line."""
        self._note("", [text])

    def _note(self, prefix: str, texts: Sequence[str | bytes]) -> None:
        with self._lock:
            self._missed += max(0, len(self._lines) + len(texts) - _MAX_LINES)
            self._lines.extend([(prefix, text) for text in texts[-_MAX_LINES:]])
            self._partials.pop(prefix, None)
            self._size += sum(map(len, texts[-_MAX_LINES:]))
            while self._size > _MAX_BYTES and len(self._lines) > 1:
                self._size -= len(self._lines.popleft()[1])
                self._missed += 1
        self._redraw.set()

    # --- in the drawing thread

    def _draw_until_closed(self) -> None:
        try:
            while not self._closed.is_set():
                self._draw()
                time.sleep(_REDRAW_SECONDS)
                self._redraw.wait(_REFRESH_SECONDS - _REDRAW_SECONDS)
            self._draw()
        except OSError:  # the terminal is closed; the job continues
            return

    def _draw(self) -> None:
        self._redraw.clear()
        with self._lock:
            lines, self._lines = self._lines, collections.deque(maxlen=_MAX_LINES)
            missed, self._missed, self._size = self._missed, 0, 0
            tables, ended = list(self._tables.values()), list(self._ended)
            self._ended.clear()
            partials = list(self._partials.items()) if tables else []
        if time.monotonic() - self._refreshed >= _REFRESH_SECONDS:
            self._refreshed = time.monotonic()
            for table in tables:
                table.refresh()
        final = [text for table in ended for text in self._last_words(table)] if self._final else []
        bars = self._bars(partials)
        height = self._console.height - 1 - len(bars)
        above = self._above(self._console.width, height // 2)
        self._region.lines = [*bars, *above, *self._share(tables, height - len(above))]
        if lines or final:
            # Draws the region again below them.
            self._console.print(_Scrolled(lines, missed, final), end="", crop=False, no_wrap=True)
        else:
            self._live.refresh()

    def _last_words(self, table: LiveTable) -> list[Text]:
        table.refresh()
        return [Text(), *table.lines(self._console.width, _FINAL_ROWS), Text()]

    def _bars(self, partials: Sequence[tuple[str, bytes]]) -> list[Text]:
        """Return lines that have not ended, as many as leave most of the terminal to the tables."""
        drawn = []
        for prefix, text in partials[-(self._console.height // 4) :]:
            line = Text(f"[{prefix}] ", _colour(prefix), no_wrap=True).append(clean(text), "default")
            line.truncate(self._console.width, overflow="ellipsis")
            drawn.append(line)
        return drawn

    def _share(self, tables: Sequence[LiveTable], height: int) -> list[Text]:
        """Return the lines below the log: what fits, shared out fairly. The cursor's line stays free."""
        width = self._console.width
        drawn: list[Text] = []
        for position, view in enumerate(tables):
            share = (height - len(drawn)) // (len(tables) - position)
            if share < 1:
                break
            drawn += view.lines(width, share)
        return drawn


class _Region:
    """The lines below the log, as they are when the terminal is written to."""

    def __init__(self) -> None:
        self.lines: list[Text] = []

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines


class _Scrolled:
    """Log lines as they go to the terminal, unwrapped so that they copy whole; and the tables of ended jobs."""

    def __init__(self, lines: Sequence[tuple[str, str | bytes]], missed: int, tables: Sequence[Text]) -> None:
        self._lines = lines
        self._missed = missed
        self._tables = tables

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._missed:
            text = f"… {self._missed} lines passed too fast to be shown; `tfsteps logs` has them all"
            yield from (Segment(text, Style.parse("dim")), Segment.line())
        for prefix, line in self._lines:
            if prefix:
                yield Segment(f"[{prefix}] ", _colour(prefix))
            yield from (Segment(clean(line)), Segment.line())
        yield from self._tables


def _prefix(source: str, task: str) -> str:
    return f"{task}/{source}" if task else source


def _colour(prefix: str) -> Style:
    return Style.parse(_COLOURS[sum(prefix.encode()) % len(_COLOURS)])

"""Who looks on: the live view on a terminal, plain lines anywhere else; and how to look on from another process."""

import contextlib
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tfsteps.cli.backends.find import read
from tfsteps.launcher.lifecycle import Observer
from tfsteps.launcher.printer import Printer
from tfsteps.runs.store import Attempt

POLL_SECONDS = 0.2


@contextlib.contextmanager
def observer(*, final: bool = True) -> Iterator[Observer]:
    """Yield the live view where standard output is a terminal, else a printer of plain lines.

    Args:
        final: Leave the table of an ended job on the terminal.
    """
    if not sys.stdout.isatty():
        yield Printer()
        return
    from tfsteps.console.live_view import LiveView  # noqa: PLC0415  rich is for terminals only

    with LiveView(final=final) as view:
        yield view


def follow(find: Callable[[], Sequence[Attempt]], observers: Sequence[Observer]) -> None:
    """Tell `observers` of every change of some attempts until none of them is running.

    Args:
        find: Returns the attempts; called again and again, for a pipeline starts tasks as it goes on.
        observers: Their `line` is not called: reading the log is another matter.
    """
    seen: dict[pathlib.Path, bytes] = {}
    while True:
        found = find()
        running = [attempt for attempt in found if attempt.alive()]  # first: what it leaves last is read below
        for attempt in found:
            status = read(attempt)
            now = msgspec.json.encode(status)
            if status and seen.get(attempt.folder) != now:
                seen[attempt.folder] = now
                for each in observers:
                    each.changed(status)
        if not running:
            return
        time.sleep(POLL_SECONDS)

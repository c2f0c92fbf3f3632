"""How a command waits and watches: the live view on a terminal, plain lines anywhere else."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tfsteps.launcher.lifecycle import Observer
from tfsteps.launcher.printer import Printer
from tfsteps.runs.status import Status

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


class Changes:
    """Passes statuses on to observers, each status only if it has changed."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        """Call `changed` of `observers`, and nothing else: log lines are printed by `tfsteps logs`."""
        self._observers = observers
        self._last: dict[object, bytes] = {}

    def report(self, status: Status) -> None:
        """Pass a status on, unless it is the same as the last one of its job."""
        job, encoded = (status.uid, status.identity), msgspec.json.encode(status)
        if self._last.get(job) != encoded:
            self._last[job] = encoded
            for observer in self._observers:
                observer.changed(status)


def wait(waiting_for: Callable[[], str], say: Callable[[str], None], hint: str = "", hint_seconds: float = 0.0) -> None:
    """Wait until there is nothing left to wait for.

    Args:
        waiting_for: Returns a line that says what is waited for; empty = nothing any more.
        say: Prints that line whenever it has changed, and the hint.
        hint: What to do if it takes long; empty = nothing.
        hint_seconds: How long that is.
    """
    begun, last = time.monotonic(), ""
    while line := waiting_for():
        if line != last:
            say(line)
            last = line
        if hint and time.monotonic() - begun > hint_seconds:
            say(hint)
            hint = ""
        time.sleep(POLL_SECONDS)


def print_now(line: str) -> None:
    """Print a line to standard output at once, also into a pipe."""
    print(line, flush=True)

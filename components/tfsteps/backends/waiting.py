"""What commands do while they wait: pass on what changes, and say what they wait for."""

import time
from collections.abc import Callable, Sequence

import msgspec

from tfsteps.launcher.recorder import Observer
from tfsteps.runs.status import Status

POLL_SECONDS = 0.2
GONE_SECONDS = 120.0
"""How long `tfsteps clear` waits for what it removes: for controllers, and grace periods of replicas."""


class Changes:
    """Passes statuses on to observers, each status only if it has changed."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        """Store the observers. Only their `changed` is called; `tfsteps logs` prints log lines."""
        self._observers = observers
        self._last: dict[object, bytes] = {}

    def report(self, status: Status) -> None:
        """Pass a status to the observers, unless it equals the last status of its job."""
        job, encoded = (status.uid, status.identity), msgspec.json.encode(status)
        if self._last.get(job) != encoded:
            self._last[job] = encoded
            for observer in self._observers:
                observer.changed(status)


def wait(waiting_for: Callable[[], str], say: Callable[[str], None], hint: str = "", hint_seconds: float = 0.0) -> None:
    """Wait until `waiting_for` returns an empty line.

    Args:
        waiting_for: Returns a line that says what the command waits for; empty = the wait is over.
        say: Prints that line whenever it changes, and the hint.
        hint: What to do if the wait takes longer than `hint_seconds`; empty = no hint.
        hint_seconds: Time before the hint is printed, in seconds.
    """
    start, last = time.monotonic(), ""
    while line := waiting_for():
        if line != last:
            say(line)
            last = line
        if hint and time.monotonic() - start > hint_seconds:
            say(hint)
            hint = ""
        time.sleep(POLL_SECONDS)


def print_now(line: str) -> None:
    """Print a line to standard output and flush it, also into a pipe."""
    print(line, flush=True)

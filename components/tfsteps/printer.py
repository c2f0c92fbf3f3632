"""Plain lines for people and log collectors: what every launcher prints."""

import sys
from typing import TextIO

from tfsteps.records import Status
from tfsteps.systems.base import LogLine, State


class Printer:
    """Prints log lines as `[worker-1] text` and one line for each change of the job's state.

    A reader that goes away costs output, never the job.
    """

    def __init__(self, out: TextIO | None = None, title: str = "") -> None:
        """Print to `out`; None = standard output. `title` is what the job is called; empty = by its task."""
        self._out = out or sys.stdout
        self._title = title
        self._state: tuple[State, str] | None = None
        self._gone = False

    def changed(self, status: Status) -> None:
        """Print the job's state if it changed."""
        now = (status.state, status.message)
        if now != self._state:
            self._state = now
            title = self._title or status.identity.task
            self.say(f"{title}: {status.state}" + (f": {status.message}" if status.message else ""))

    def line(self, line: LogLine) -> None:
        """Print one log line; bytes that are not UTF-8 come out as hexadecimal escapes."""
        self.say(f"[{line.replica}] {line.text.decode(errors='backslashreplace')}")

    def say(self, text: str) -> None:
        """Print `text` as one line, at once."""
        if self._gone:
            return
        try:
            self._out.write(text + "\n")
            self._out.flush()
        except BrokenPipeError:
            self._gone = True
        except OSError:  # a full disk, say: the next line may fit again, and the run folder has this one
            return

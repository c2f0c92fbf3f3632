"""Plain lines for people and log collectors: what every launcher prints."""

import sys
from collections.abc import Sequence
from typing import TextIO

from tfsteps.runs.events import LogLines, PartialLine, State
from tfsteps.runs.status import Status
from tfsteps.text import terminal
from tfsteps.text.streams import encodable


class Printer:
    """Prints log lines as `[worker-1] text` and one line for each change of the job's state.

    Lines of another container than the program's come as `[worker-1/init-data] text`. If stdout is closed,
    output is discarded; the job continues.
    """

    def __init__(self, out: TextIO | None = None, title: str = "") -> None:
        """Print to `out`; None = standard output. `title` names the job; empty = its task does."""
        self._out = out or sys.stdout
        self._on_terminal = self._out.isatty()
        self._title = title
        self._state: tuple[State, str] | None = None
        self._gone = False
        self._tensorboard: str | None = None

    def changed(self, status: Status) -> None:
        """Print the job's state if it changed, and the address of a TensorBoard that was started meanwhile.

        The end of the job is not printed: who launches or follows it says that in a sentence of its own.
        """
        title = self._title or status.identity.task
        if self._tensorboard is not None and status.tensorboard_url not in ("", self._tensorboard):
            self.say(f"{title}: TensorBoard at {status.tensorboard_url}")
        self._tensorboard = status.tensorboard_url
        now = (status.state, status.message)
        if now != self._state and not status.state.terminal:
            self._state = now
            self.say(f"{title}: {status.state}" + (f": {terminal.escaped(status.message)}" if status.message else ""))

    def lines(self, lines: LogLines) -> None:
        """Print log lines; bytes that are not UTF-8 as hexadecimal escapes, on a terminal control characters too."""
        if lines.texts:
            head = f"[{lines.source}] "
            self.say(head + self._text(lines.texts).replace("\n", f"\n{head}"))

    def _text(self, texts: Sequence[bytes]) -> str:
        if self._on_terminal:
            return "\n".join(map(terminal.shown, texts))
        return b"\n".join(texts).decode(errors="backslashreplace")

    def partial(self, line: PartialLine) -> None:
        """Print nothing: what is printed here cannot be overwritten."""

    def say(self, text: str) -> None:
        """Print `text` as one line, at once."""
        if self._gone:
            return
        try:
            self._out.write(encodable(text, self._out) + "\n")
            self._out.flush()
        except BrokenPipeError:
            self._gone = True
        except OSError:  # for example a full disk: the next line may fit, and the run folder has this one
            return

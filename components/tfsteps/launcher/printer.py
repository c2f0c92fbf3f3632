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

    Lines of another container than the program's come as `[worker-1/init-data] text`.
    """

    def __init__(self, out: TextIO | None = None, title: str = "", *, discards: bool = True) -> None:
        """Print to `out`.

        Args:
            out: Where to; None = standard output.
            title: Names the job; empty = its task does.
            discards: If nobody reads `out` any more, discard the output, so that a job continues; False = raise
                BrokenPipeError.
        """
        self._discards = discards
        self._out = out or sys.stdout
        self._on_terminal = self._out.isatty()
        self._title = title
        self._state: tuple[State, str] | None = None
        self._gone = False
        self._tensorboard: str | None = None

    def changed(self, status: Status) -> None:
        """Print the job's state if it changed, and the address of a TensorBoard that was started meanwhile.

        Who launches or follows a job prints its end and the reason in a sentence of its own, after the clean-up. The
        clean-up may take long for many pods, or while the API server is down, so the end is printed here, too. It is
        not if there is nothing to wait for: on this machine, and for a job of which no other state was printed.
        """
        title = self._title or status.identity.task
        if self._tensorboard is not None and status.tensorboard_url not in ("", self._tensorboard):
            self.say(f"{title}: TensorBoard at {status.tensorboard_url}")
        self._tensorboard = status.tensorboard_url
        ended = status.state.terminal
        now = (status.state, "" if ended else status.message)
        if now != self._state and not (ended and (self._state is None or status.on_this_machine)):
            self._state = now
            self.say(f"{title}: {status.state}" + (f": {terminal.escaped(now[1])}" if now[1] else ""))

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
            if not self._discards:
                raise
            self._gone = True
        except OSError:  # for example a full disk: the next line may fit, and the run folder has this one
            return

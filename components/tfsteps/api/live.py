"""Shows a job in a notebook while it runs, and calls the user's function with its changes."""

import collections
import contextvars
import importlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

from tfsteps.api import notebook_page
from tfsteps.api.results import Attempt
from tfsteps.console.text import clean
from tfsteps.report import curves
from tfsteps.runs import store
from tfsteps.runs.events import LogLines, PartialLine
from tfsteps.runs.status import Status

_REDRAW_SECONDS = 1.0
_LINES = 12
_CURVES_SHARE = 10  # reading the event files may take a tenth of the time


def in_notebook() -> bool:
    """Return whether this is the kernel of a notebook. A program that has not imported IPython is none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


class Watcher:
    """An observer of one job, as long as its `with` block lasts."""

    def __init__(
        self,
        said: list[str],
        preferred: Sequence[str],
        on_change: Callable[[Attempt], object] | None,
        *,
        display: bool,
    ) -> None:
        """Get ready.

        Args:
            said: Notes, which are shown. A failure of `on_change` is added.
            preferred: Tags whose curves come first.
            on_change: Called with the attempt after each change; None = nothing is.
            display: Whether to show the job by IPython.
        """
        self._said = said
        self._preferred = preferred
        self._on_change = on_change
        self._status: Status | None = None
        self._lines: collections.deque[str] = collections.deque(maxlen=_LINES)
        self._changed, self._closed = threading.Event(), threading.Event()
        self._curves: curves.Charts | None = None
        self._curves_due = 0.0
        self._shown: Any = None
        # Reading event files must not delay the job. The context has the cell that the output belongs to.
        draw = contextvars.copy_context().run
        self._thread = threading.Thread(target=draw, args=[self._draw], daemon=True) if display else None

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._thread:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Draw no more."""
        self._closed.set()
        self._changed.set()
        if self._thread:
            self._thread.join()

    def changed(self, status: Status) -> None:
        """Keep the status, and call the user's function."""
        self._status = status
        self._changed.set()
        if self._on_change:
            try:
                self._on_change(Attempt.of(status))
            except Exception as error:  # noqa: BLE001  the job goes on
                self._on_change = None
                self._said.append(f"on_change is not called any more: {type(error).__name__}: {error}")

    def lines(self, lines: LogLines) -> None:
        """Keep the last lines."""
        self._lines.extend(f"[{lines.source}] {clean(text)}" for text in lines.texts[-_LINES:])
        self._changed.set()

    def partial(self, line: PartialLine) -> None:
        """Ignore a line that has not ended: it would be drawn again and again."""

    def end(self, attempt: Attempt) -> None:
        """Show the end of the attempt."""
        self.__exit__()
        if self._thread:
            self._show(attempt._repr_html_())

    def _draw(self) -> None:
        while not self._closed.is_set():
            self._changed.wait()
            self._changed.clear()
            if status := self._status:
                page = notebook_page.attempt(status, self._read_curves(status), self._said, [*self._lines])
                self._show(notebook_page.frame(page))
            self._closed.wait(_REDRAW_SECONDS)

    def _read_curves(self, status: Status) -> curves.Charts | None:
        start = time.monotonic()
        if start >= self._curves_due:
            self._curves = curves.of_attempt(store.AttemptFolder.of(status.identity), status, self._preferred)
            self._curves_due = time.monotonic() + _CURVES_SHARE * (time.monotonic() - start)
        return self._curves

    def _show(self, page: str) -> None:
        ipython = importlib.import_module("IPython.display")  # a notebook has it
        if self._shown is None:
            self._shown = ipython.display(ipython.HTML(page), display_id=True)
        else:
            self._shown.update(ipython.HTML(page))

"""Output of commands that watch: the live view on a terminal, plain lines elsewhere."""

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfsteps.launcher.printer import Printer
from tfsteps.launcher.recorder import Observer

if TYPE_CHECKING:
    from tfsteps.console.live_view import Above


@contextlib.contextmanager
def observer(*, final: bool = True, above: "Above | None" = None, discards: bool = True) -> Iterator[Observer]:
    """Yield the live view if standard output is a terminal, else a printer of plain lines.

    Args:
        final: Whether the table of an ended job stays on the terminal.
        above: Draws what the live view shows above its tables; None = nothing.
        discards: As for `Printer`.
    """
    if not sys.stdout.isatty():
        yield Printer(discards=discards)
        return
    from tfsteps.console.live_view import LiveView  # noqa: PLC0415  rich is for terminals only

    with LiveView(final=final, above=above) as view:
        yield view

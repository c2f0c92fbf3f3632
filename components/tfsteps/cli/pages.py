"""HTML pages that commands write: to a file, and shown in a browser."""

import pathlib
import webbrowser

from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn


def write_page(file: pathlib.Path, page: str) -> None:
    """Write a page to a file. CommandError if that fails."""
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{str(file)!r} cannot be written: {error}; choose another file") from error


def open_page(file: pathlib.Path) -> None:
    """Open a page in a browser, or warn that there is none."""
    if not webbrowser.open(file.absolute().as_uri()):
        warn(f"no browser could be started: open {file} yourself, or copy it to a machine that has one")

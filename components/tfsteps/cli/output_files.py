"""Files that commands write where the user says, and pages that are shown in a browser."""

import pathlib

from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.whole_file import write_whole


def write_output(file: pathlib.Path, text: str) -> None:
    """Write a file that the user has named, whole or not at all. CommandError if that fails."""
    try:
        write_whole(file, text.encode())
    except OSError as error:
        raise CommandError(f"{str(file)!r} cannot be written: {error}; choose another file") from error


def open_page(file: pathlib.Path) -> None:
    """Open a page in a browser, or warn that there is none."""
    import webbrowser  # noqa: PLC0415  few commands need it

    if not webbrowser.open(file.absolute().as_uri()):
        warn(f"no browser could be started: open {file} yourself, or copy it to a machine that has one")

"""Files that commands write where the user says, and pages that are shown in a browser."""

import contextlib
import os
import pathlib
from collections.abc import Mapping

from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.whole_file import write_whole


def write_output(file: pathlib.Path, text: str) -> None:
    """Write a file that the user has named, whole or not at all. CommandError if that fails."""
    try:
        write_whole(file, text.encode())
    except OSError as error:
        raise CommandError(f"{str(file)!r} cannot be written: {error}; choose another file") from error


def write_new(files: Mapping[pathlib.Path, bytes], instead: str) -> None:
    """Write new files, and their folders: all of them or none. Print nothing.

    Args:
        files: Their contents, by path.
        instead: What to do if that fails: `choose another file`.

    Raises:
        CommandError: A file exists, or cannot be written; nothing that is new is left.
    """
    if existing := [path for path in files if os.path.lexists(path)]:
        raise CommandError(f"{str(existing[0])!r} exists and is left as it is; {instead}")
    created: list[pathlib.Path] = []
    path = pathlib.Path()
    try:
        for path, content in files.items():
            for folder in [*reversed(path.parent.parents), path.parent]:
                if not folder.exists():
                    folder.mkdir(exist_ok=True)
                    created.append(folder)
            with path.open("xb") as file:
                created.append(path)
                file.write(content)
    except BaseException as error:
        for remains in reversed(created):
            with contextlib.suppress(OSError):  # somebody else has put a file there
                remains.rmdir() if remains.is_dir() else remains.unlink()
        if isinstance(error, OSError):
            raise CommandError(f"{str(path)!r} cannot be written: {error}; {instead}") from error
        raise


def open_page(file: pathlib.Path) -> None:
    """Open a page in a browser, or warn that there is none."""
    import webbrowser  # noqa: PLC0415  few commands need it

    if not webbrowser.open(file.absolute().as_uri()):
        warn(f"no browser could be started: open {file} yourself, or copy it to a machine that has one")

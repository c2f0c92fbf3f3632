"""Standard streams that are always there, and take any text."""

import contextlib
import io
import os
import sys
from typing import TextIO


def ensure() -> None:
    """Open /dev/null for each standard stream that the parent process has closed (`>&-`), and let all take any text.

    Else the next file that is opened takes its number, and what is printed, by us or by a child, goes into that file.
    What a stream's encoding lacks, as that of LANG=C does, is printed as an escape: no line ends a launcher.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115  for the life of the process
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors != "backslashreplace":
            with contextlib.suppress(OSError):  # it was a file, and is a pipe now: it does as it is told all the same
                stream.reconfigure(errors="backslashreplace")


def read_input() -> str:
    """Return all of standard input, which is UTF-8 whatever the locale says. UnicodeDecodeError if it is not."""
    return sys.stdin.buffer.read().decode("utf-8-sig").replace("\r\n", "\n")


def encodable(text: str, stream: TextIO) -> str:
    """Return `text` with escapes for what the stream's encoding lacks."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def takes_any(stream: TextIO) -> bool:
    """Tell whether the stream's encoding has every character."""
    return (stream.encoding or "utf-8").lower().startswith("utf")

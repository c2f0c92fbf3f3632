"""Standard streams that are always open and can print any text, and an exit that writes all of it."""

import atexit
import contextlib
import io
import os
import sys
from typing import NoReturn, TextIO


def ensure() -> None:
    """Open /dev/null for each standard stream that the parent process has closed (`>&-`), and allow any character.

    Otherwise the next opened file gets the number of the closed stream, and output of this process or of a child is
    written into that file. Characters that a stream cannot encode, for example with LANG=C, are printed as escapes
    instead of raising UnicodeEncodeError.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115  for the life of the process
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors != "backslashreplace":
            with contextlib.suppress(OSError):  # raised if a file was replaced by a pipe; the setting has effect anyway
                stream.reconfigure(errors="backslashreplace")


def flush_and_exit(code: int) -> NoReturn:
    """Run the exit handlers, flush standard output and standard error, and exit without the interpreter's shutdown.

    Every program with threads that use TLS ends like this. In a shutdown, OpenSSL frees its memory while such a daemon
    thread may still use it: the process crashes after its success (openssl/openssl#17469, python/cpython#114653). A
    shutdown of a launcher also takes as long as everything else after its job's end.
    """
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def read_input() -> str:
    """Return all of standard input, read as UTF-8 in any locale. UnicodeDecodeError if it is not UTF-8."""
    return sys.stdin.buffer.read().decode("utf-8-sig").replace("\r\n", "\n")


def encodable(text: str, stream: TextIO) -> str:
    """Return `text` with escapes for the characters that the stream cannot encode."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def takes_any(stream: TextIO) -> bool:
    """Return whether the stream can encode every character."""
    return (stream.encoding or "utf-8").lower().startswith("utf")

"""Standard streams that are always open and can print any text, and an exit that writes all of it."""

import atexit
import contextlib
import io
import os
import sys
from typing import Any, NoReturn, TextIO

STDOUT = "standard output"
"""The file name of an OSError that is raised because standard output cannot be written."""


class _StandardOutput(io.FileIO):
    """Standard output. Its errors name it, as those of a file name the file."""

    def write(self, data: Any) -> Any:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = STDOUT
            raise


class _Messages(io.FileIO):
    """Standard error. What it does not take is discarded: messages must not change what a program does."""

    def write(self, data: Any) -> Any:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def ensure() -> None:
    """Open /dev/null for each standard stream that the parent process has closed (`>&-`), and allow any character.

    Otherwise the next opened file gets the number of the closed stream, and output of this process or of a child is
    written into that file. Characters that a stream cannot encode, for example with LANG=C, are printed as escapes
    instead of raising UnicodeEncodeError. An OSError of standard output has the file name STDOUT; standard error
    raises none.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115  for the life of the process
    if sys.stdout is sys.__stdout__:  # both are None if it was closed; else somebody has replaced it
        sys.stdout = _opened(_StandardOutput(1, "w", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _opened(_Messages(2, "w", closefd=False), sys.stderr)


def _opened(raw: io.FileIO, like: Any) -> TextIO:
    """Return a text stream with the encoding and buffers of another; None = the defaults."""
    unbuffered = like is not None and isinstance(like.buffer, io.RawIOBase)  # python -u
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding=like.encoding if like else None,
        errors="backslashreplace",
        line_buffering=like.line_buffering if like else raw.isatty(),
        write_through=unbuffered,
    )


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


def encodable(text: str, stream: TextIO) -> str:
    """Return `text` with escapes for the characters that the stream cannot encode."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def takes_any(stream: TextIO) -> bool:
    """Return whether the stream can encode every character."""
    return (stream.encoding or "utf-8").lower().startswith("utf")

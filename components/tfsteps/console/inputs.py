"""What a command reads: a file that its user names, standard input, or an answer on the terminal."""

import pathlib
import sys

from tfsteps.console.errors import CommandError

_LONGEST = 16 << 20  # bytes; standard input may never end


def read_text(file: str, expected: str, longest: int = _LONGEST) -> str:
    """Return the text of a file, `-` for standard input, read as UTF-8 in any locale, with the line ends of Unix.

    Args:
        file: Its path.
        expected: What to give in its place, for messages: `a manifest`.
        longest: Bytes that it may have.

    Raises:
        CommandError: It cannot be read, is longer, or is not UTF-8.
    """
    try:
        if file == "-":
            raw = sys.stdin.buffer.read(longest + 1)
        else:
            with pathlib.Path(file).open("rb") as opened:
                raw = opened.read(longest + 1)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in a name
        raise CommandError(f"{file!r} cannot be read: {error}; give {expected}") from error
    if len(raw) > longest:
        raise CommandError(f"{file!r} is longer than {longest >> 20} MiB; give {expected}")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise CommandError(f"{file!r} is not UTF-8 (byte {error.start}); save it as UTF-8") from error


def confirmed(question: str, *, yes: bool, without_terminal: str) -> bool:
    """Ask on a terminal whether to go on; anything but y or yes is no. `yes` = do not ask.

    Raises:
        CommandError: There is no terminal; `without_terminal` says what to do instead.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise CommandError(without_terminal)
    try:
        return input(f"{question} [y/N]: ").strip().lower() in ("y", "yes")
    except EOFError:
        return False

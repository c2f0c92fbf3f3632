"""A question before something is removed or changed."""

import sys

from tfsteps.console.errors import CommandError


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

"""A question before something is removed or changed."""

import sys

import typer

from tfsteps.console.errors import CommandError


def confirmed(question: str, *, yes: bool, without_terminal: str) -> bool:
    """Ask on a terminal whether to go on; `yes` = do not ask.

    Raises:
        CommandError: There is no terminal; `without_terminal` says what to do instead.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise CommandError(without_terminal)
    return typer.confirm(question)

"""Replaces this process by another command, which keeps the terminal, the signals and the exit code."""

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from tfsteps.console.errors import CommandError


def replace_process(argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: str = "") -> NoReturn:
    """Run `argv` in place of this process.

    Args:
        argv: Program, which is looked up in PATH of `env`, and arguments.
        env: The whole environment; None = that of this process.
        cwd: Folder to start in; empty = the current one.

    Raises:
        CommandError: The program or the folder cannot be used.
    """
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    try:
        if cwd:
            os.chdir(cwd)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], [*argv], os.environ if env is None else env)  # noqa: S606  the user's own command
    except (OSError, ValueError) as error:  # ValueError: a null byte
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"{argv[0]!r} cannot be started: {reason}; correct the command after `--`") from error

"""What turns every error of a command into a message and an exit code."""

import contextlib
import os
import sys
from collections.abc import Iterator

import typer

from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.os_errors import next_step
from tfsteps.text.streams import STDOUT

_SIGPIPE = 141  # what a shell reports for a program that wrote to a closed pipe


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Turn an error of a command into a message and the exit code of this process.

    Raises:
        typer.Exit: In place of each error that has a message for users.
    """
    try:
        yield
        sys.stdout.flush()  # inside `try`, so that a failure is reported
    except CommandError as error:
        say(f"error: {error}")
        raise typer.Exit(error.code) from error
    except UnicodeEncodeError as error:  # of a file name; printed text is escaped
        say(f"error: {error.object!r} cannot name a file in this locale; set LC_ALL=C.UTF-8")
        raise typer.Exit(ExitCode.USAGE) from error
    except BrokenPipeError as error:
        raise typer.Exit(_SIGPIPE) from error
    except OSError as error:  # a full disk under standard output, a run folder of another user
        named = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        what = f"{STDOUT} cannot be written: {error.strerror}" if error.filename == STDOUT else named
        say(f"error: {what}; {next_step(error)}")
        raise typer.Exit(ExitCode.PLATFORM) from error
    except typer.Exit:  # of a command that has said all
        raise
    except Exception as error:
        if end := _of_job(error):
            raise end from error
        raise
    finally:
        try:
            sys.stdout.flush()
        except OSError:  # keep the interpreter from reporting it when it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_job(error: Exception) -> typer.Exit | None:
    """Return the end of the process for an error about a job, whose message is printed; None for any other error."""
    from tfsteps.spec import SpecError  # noqa: PLC0415  a command that ends well needs neither
    from tfsteps.systems.base import LaunchError  # noqa: PLC0415

    if isinstance(error, SpecError):
        say(str(error))
        return typer.Exit(ExitCode.USAGE)
    if isinstance(error, LaunchError):
        say(f"error: {error}")
        return typer.Exit(ExitCode.PLATFORM if error.retryable else ExitCode.USAGE)
    return None

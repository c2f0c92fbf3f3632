"""The error of commands, and the group that turns every error into a message and an exit code."""

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from tfsteps.console.messages import say
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.spec import SpecError
from tfsteps.systems.base import LaunchError

_SHORT = 80  # characters of a command's description in the list
_SIGPIPE = 141  # what a shell reports for a program that wrote to a closed pipe


class CommandError(Exception):
    """A command that cannot be carried out.

    Attributes:
        code: Exit code of the process.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        """Store the message, which names the object, the value and the next step, and the exit code."""
        self.code = code
        super().__init__(message)


class Group(TyperGroup):
    """The group of all commands; it prints errors as messages instead of tracebacks."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by their groups."""
        groups: dict[str, list[Any]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            groups.setdefault(command.rich_help_panel, []).append((name, command))
        for title, commands in groups.items():
            with formatter.section(title):
                formatter.write_dl([(name, command.get_short_help_str(_SHORT)) for name, command in commands])

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command and turn its errors into a message and an exit code."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # inside `try`, so that a failure is reported
        except SpecError as error:
            say(str(error))
            raise typer.Exit(ExitCode.USAGE) from error
        except CommandError as error:
            say(f"error: {error}")
            raise typer.Exit(error.code) from error
        except LaunchError as error:
            say(f"error: {error}")
            raise typer.Exit(ExitCode.PLATFORM if error.retryable else ExitCode.USAGE) from error
        except UnicodeEncodeError as error:  # of a file name; printed text is escaped
            say(f"error: {error.object!r} cannot name a file in this locale; set LC_ALL=C.UTF-8")
            raise typer.Exit(ExitCode.USAGE) from error
        except BrokenPipeError as error:
            raise typer.Exit(_SIGPIPE) from error
        except OSError as error:  # a full disk under standard output, a run folder of another user
            say(f"error: {error}; fix the cause and retry")
            raise typer.Exit(ExitCode.PLATFORM) from error
        else:
            return result
        finally:
            _flush()


def _flush() -> None:
    """Flush standard output; if that fails, keep the interpreter from reporting it when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

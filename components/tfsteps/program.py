"""What the programs of all steps share: from a task to an exit code, and the last words."""

import contextlib
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec

from tfsteps import streams
from tfsteps.engines.task import Task, task
from tfsteps.exits import Exit
from tfsteps.printer import Printer
from tfsteps.spec import SpecError
from tfsteps.systems.base import LaunchError

_TERMINATION_LOG = pathlib.Path("/dev/termination-log")


class Ending(msgspec.Struct, frozen=True):
    """How a step ended: one sentence for people, and the exit code."""

    sentence: str
    code: Exit


def run(step: Callable[[Task], Ending], argv: Sequence[str] | None, *, failed: str) -> int:
    """Do what a step does, say how it ended, to people and to Kubernetes, and return the exit code.

    Args:
        step: Does it.
        argv: The command line; None = the process's own.
        failed: What did not happen when the platform refuses: `The job could not be launched`.
    """
    streams.ensure()
    ending = _ending(step, sys.argv[1:] if argv is None else argv, failed)
    if _TERMINATION_LOG.is_file():
        with contextlib.suppress(OSError):
            _TERMINATION_LOG.write_text(ending.sentence)
    Printer().say(ending.sentence)
    return ending.code


def leave(code: int) -> NoReturn:
    """End this process, but do not take the interpreter apart: that lasts as long as all else after a job's end."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def _ending(step: Callable[[Task], Ending], argv: Sequence[str], failed: str) -> Ending:
    try:
        return step(task(argv))
    except SpecError as error:
        sys.stderr.write(f"{error}\n")
        count = len(error.problems)
        return Ending(f"Nothing was created: {count} problem{'s'[: count > 1]} in the inputs.", Exit.USAGE)
    except ValueError as error:
        return Ending(f"Nothing was created: {error}.", Exit.USAGE)
    except LaunchError as error:
        return Ending(f"{failed}: {error}.", Exit.PLATFORM if error.retryable else Exit.USAGE)
    except OSError as error:
        return Ending(f"The outputs could not be written: {error}.", Exit.PLATFORM)

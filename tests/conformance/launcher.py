"""A launcher for one attempt that is given, as an engine gives it: `launcher.py JOB SYSTEM NAMESPACE RUN TASK ATTEMPT`.

The `tfsteps` command would choose the attempt by itself, and never adopt a job that somebody else follows.
"""

import pathlib
import sys
from collections.abc import Callable

from tfsteps import spec
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import exit_code
from tfsteps.launcher.lifecycle import launch
from tfsteps.launcher.printer import Printer
from tfsteps.runs.identity import Identity
from tfsteps.spec import SpecError
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError, System
from tfsteps.text import streams


def main(*args: str) -> int:
    file, name, namespace, run, task, attempt = args
    identity = Identity(run=run, task=task, attempt=int(attempt))
    return launched(file, identity, lambda: registry.get(name, namespace=namespace))


def launched(file: str, identity: Identity, system: Callable[[], System]) -> int:
    """Run the job in `file` to its end, print what happens, and return the exit code."""
    job, printer = spec.load(file, registry.options()), Printer()
    try:
        status = launch(job, identity, system(), base_dir=pathlib.Path.cwd(), observers=[printer])
    except SpecError as error:
        printer.say(str(error))
        return ExitCode.USAGE
    except LaunchError as error:
        printer.say(f"could not be launched: {error}")
        return ExitCode.PLATFORM if error.retryable else ExitCode.USAGE
    printer.say(f"{status.state}: {status.failure.summary if status.failure else status.message}")
    return exit_code(status)


if __name__ == "__main__":
    streams.flush_and_exit(main(*sys.argv[1:]))

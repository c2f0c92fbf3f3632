"""A launcher for one attempt that is given, as an engine gives it: `launcher.py JOB SYSTEM NAMESPACE RUN TASK ATTEMPT`.

The `tfsteps` command would choose the attempt by itself, and never adopt a job that somebody else follows.
"""

import pathlib
import sys
from collections.abc import Callable

from tfsteps import spec, systems
from tfsteps.exits import Exit, exit_code
from tfsteps.identity import Identity
from tfsteps.lifecycle import launch
from tfsteps.printer import Printer
from tfsteps.spec import SpecError
from tfsteps.systems.base import LaunchError, System


def main(*args: str) -> int:
    file, name, namespace, run, task, attempt = args
    identity = Identity(run=run, task=task, attempt=int(attempt))
    return launched(file, identity, lambda: systems.get(name, namespace=namespace))


def launched(file: str, identity: Identity, system: Callable[[], System]) -> int:
    """Run the job in `file` to its end, print what happens, and return the exit code."""
    job, printer = spec.load(file, systems.options()), Printer()
    try:
        status = launch(job, identity, system(), here=pathlib.Path.cwd(), observers=[printer])
    except SpecError as error:
        printer.say(str(error))
        return Exit.USAGE
    except LaunchError as error:
        printer.say(f"could not be launched: {error}")
        return Exit.PLATFORM if error.retryable else Exit.USAGE
    printer.say(f"{status.state}: {status.digest.summary if status.digest else status.message}")
    return exit_code(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

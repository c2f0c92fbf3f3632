"""A launcher for one attempt that is given, as an engine gives it: `launcher.py JOB SYSTEM NAMESPACE RUN TASK ATTEMPT`.

The `tfsteps` command would choose the attempt by itself, and never adopt a job that somebody else follows.
"""

import pathlib
import sys

from tests.conformance.systems import SYSTEMS
from tfsteps import spec, systems
from tfsteps.exits import Exit, exit_code
from tfsteps.identity import Identity
from tfsteps.lifecycle import launch
from tfsteps.printer import Printer
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.system import KubernetesSystem


def main(*args: str) -> int:
    file, name, namespace, run, task, attempt = args
    job = spec.load(file, systems.options())
    identity = Identity(run=run, task=task, attempt=int(attempt))
    kind = next(system.kind for system in SYSTEMS if system.name == name)
    printer = Printer()
    try:
        system = KubernetesSystem(kind(), namespace=namespace)
        status = launch(job, identity, system, here=pathlib.Path.cwd(), observers=[printer])
    except LaunchError as error:
        printer.say(f"could not be launched: {error}")
        return Exit.PLATFORM if error.retryable else Exit.USAGE
    printer.say(f"{status.state}: {status.digest.summary if status.digest else status.message}")
    return exit_code(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

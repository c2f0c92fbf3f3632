"""A launcher in a process of its own, forked from one that has imported everything."""

import ctypes
import importlib
import os
import pathlib
import signal
import sys
import traceback

import msgspec

from tests.unknown import mutants
from tfsteps.engines.argo.task import ArgoTask
from tfsteps.kube import access, client, watch
from tfsteps.platforms.hai import client as hai_client
from tfsteps.platforms.hai import job as hai_job
from tfsteps.steps import program
from tfsteps.systems.kubernetes.follow import job as kubernetes_job

PATIENCE_SECONDS, READ_SECONDS, URGENT_SECONDS, DENIED_SECONDS = 60.0, 4.0, 3.0, 6.0
"""In place of minutes: longer than each fault, and not much longer."""

_PR_SET_PDEATHSIG = 1
PRELOAD = [
    "tests.unknown.launcher",
    "tfsteps.steps.train.launcher",
    "tfsteps.steps.cleanup.launcher",
    "tfsteps.janitor.__main__",
    "tfsteps.cli.app",
    "tfsteps.cli.commands.stop",
    "tfsteps.backends.kubernetes.backend",
    "tfsteps.platforms.hai.backend",
    "tfsteps.report",
    "tfsteps.platforms.hai",
    "tfsteps.systems.jobs.job",
    "tfsteps.systems.jobset.jobset",
    "tfsteps.systems.kubeflow.tfjob",
    "tfsteps.systems.kubernetes.system",
    "tfsteps.engines.argo.pipeline",
    "tfsteps.engines.kfp.pipeline",
]


class Start(msgspec.Struct, frozen=True):
    """What to start.

    Attributes:
        program: Module whose `main` is called.
        arguments: Of its command line.
        folder: The launcher's: what a pod has in `/var/run/secrets`, `/dev/termination-log` and `/tmp`.
        env: Environment variables.
        mutant: A defect of `mutants.MUTANTS`; empty = none.
    """

    program: str
    arguments: list[str]
    folder: str
    env: dict[str, str]
    mutant: str = ""


def main(start: Start) -> None:
    """Run the program, and exit with its code. Standard output and error go to the folder's file `output`."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # nothing outlives the run
    folder = pathlib.Path(start.folder)
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ |= start.env
    sys.argv = ["tfsteps", *start.arguments]
    os.chdir(folder)
    _be_in_a_pod(folder)
    _hurry()
    if start.mutant:
        mutants.MUTANTS[start.mutant]()
    code = 70
    try:
        code = importlib.import_module(start.program).main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001  shown, as of any program
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


def _be_in_a_pod(folder: pathlib.Path) -> None:
    """Read the files of a pod from the folder in place of the root."""
    access.SERVICE_ACCOUNT = folder
    program._TERMINATION_LOG = folder / "termination-log"
    ArgoTask.from_arguments.__func__.__defaults__ = (os.environ, folder / "tfsteps")


def _hurry() -> None:
    """Shorten the waits that are set for minutes and hours."""
    client.Api.__init__.__defaults__ = (PATIENCE_SECONDS, READ_SECONDS)
    hai_client.Client.__init__.__defaults__ = (PATIENCE_SECONDS, READ_SECONDS)
    hai_job.PATIENCE_SECONDS = PATIENCE_SECONDS
    watch._QUIET_SECONDS = 3 * READ_SECONDS
    for module in (kubernetes_job, hai_job):
        module._URGENT_SECONDS = URGENT_SECONDS
        module._DENIED_SECONDS = dict.fromkeys(module._DENIED_SECONDS, DENIED_SECONDS)

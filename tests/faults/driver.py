"""The launcher under test, as a process of its own: `python -m tests.faults.driver '<Task as JSON>'`."""

import pathlib
import sys

import msgspec

from tfsteps import spec
from tfsteps.engines.registry import find_pipeline
from tfsteps.kube import access, client, watch
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import exit_code
from tfsteps.launcher.lifecycle import launch
from tfsteps.runs.identity import Identity
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.system import KubernetesSystem
from tfsteps.text import streams


class Task(msgspec.Struct, kw_only=True):
    """What to launch, and for whom.

    Attributes:
        run: The run's id.
        task: The task.
        namespace: Where.
        job: The job, as in a job file.
        patience: Seconds that a request is tried again.
        read_seconds: How long an answer may take.
        quiet_seconds: How long a watch may be silent.
        pod_files: The folder of a service account; empty = outside of pods, with a kubeconfig.
    """

    run: str
    task: str
    namespace: str
    job: dict
    patience: float = 30.0
    read_seconds: float = 3.0
    quiet_seconds: float = 6.0
    pod_files: str = ""


class Said(msgspec.Struct, kw_only=True):
    """The launcher's last words, one line of JSON on standard output."""

    state: str = ""
    reason: str = ""
    message: str = ""
    warnings: list[str] = []


def main(argument: str) -> int:
    task = msgspec.json.decode(argument, type=Task)
    _hurry(task)
    if task.pod_files:
        access.SERVICE_ACCOUNT = pathlib.Path(task.pod_files)
    job = spec.from_plain(task.job)
    system = KubernetesSystem(TFJob(), namespace=task.namespace)
    system.join_pipeline(find_pipeline)
    try:
        status = launch(job, Identity(run=task.run, task=task.task), system, base_dir=pathlib.Path.cwd())
    except LaunchError as error:
        return _end(Said(message=str(error)), ExitCode.PLATFORM if error.retryable else ExitCode.USAGE)
    report = Said(state=status.state, reason=status.reason, message=status.message, warnings=status.warnings)
    return _end(report, exit_code(status))


def _hurry(task: Task) -> None:
    """Shorten the waits that a test would sit through: they are set for hours."""
    client.Api.__init__.__defaults__ = (task.patience, task.read_seconds)
    watch._QUIET_SECONDS = task.quiet_seconds


def _end(report: Said, code: ExitCode) -> int:
    print(msgspec.json.encode(report).decode(), flush=True)
    return code


if __name__ == "__main__":
    streams.flush_and_exit(main(sys.argv[1]))

"""A command or a shell in a replica's container on a cluster, by kubectl."""

import shutil
import sys
from collections.abc import Sequence
from typing import NoReturn

from tfsteps.backends.place import Place
from tfsteps.backends.replace_process import replace_process
from tfsteps.backends.replica_names import running_replica, some
from tfsteps.console.errors import CommandError
from tfsteps.runs.events import ReplicaState
from tfsteps.systems.kubernetes.query.runs import ClusterJob
from tfsteps.systems.kubernetes.render.command_wrapper import has_code, shell_beside


def replace_by(job: ClusterJob, replica: str | None, command: Sequence[str], place: Place) -> NoReturn:
    """Replace this process by `kubectl exec`: it has the protocol, and the user's log-in plugins.

    Raises:
        CommandError: There is no such replica, it does not run, or kubectl is missing.
    """
    name, _, container = (replica or "").partition("/")
    running = running_replica(job.status, name or None)
    pods = [item for item in job.pods if str(item.replica) == running.name]
    job_pod = next((item for item in reversed(pods) if item.pod.state is ReplicaState.RUNNING), None)
    if job_pod is None:  # its operator counts one as running that is being replaced
        raise CommandError(f"{running.name} has no running pod now; try again, or choose another replica")
    pod = job_pod.pod
    containers = [item.name for item in pod.containers if item.name and not item.ended]
    if container and container not in containers:
        there = some(containers) or "none"
        raise CommandError(
            f"{running.name} has no running container {container!r} beside its program; there is {there}"
        )
    code = has_code(job_pod.item)
    shell = ("sh",) if container else shell_beside(job.kind.shell, code=code)
    if command:
        shell = command if len(shell) == 1 else (*shell, shell[0], *command)
    terminal = "-it" if sys.stdin.isatty() and sys.stdout.isatty() else "-i"
    words = (terminal, pod.name, "-c", container or job.kind.container, "--", *shell)
    if shutil.which("kubectl") is None:
        line = place.kubectl(job.status.namespace, "exec", *words)
        raise CommandError(f"kubectl is not installed, or not in PATH; install it, then run this again, or: {line}")
    replace_process(place.kubectl_words(job.status.namespace, "exec", *words))

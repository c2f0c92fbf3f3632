"""A command or a shell in the folder and with the environment of a replica of this machine."""

import os
import pathlib
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import msgspec

from tfsteps.backends.find import named_replica, replace_process
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.events import ReplicaName, ReplicaState
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.spec import TrainingJob

if TYPE_CHECKING:
    from tfsteps.backends.local.log import LocalAttempt

_MOMENT_SECONDS = 1.0  # for what a replica that has just been started still lacks


def replace_by(job: "LocalAttempt", replica: str | None, command: Sequence[str]) -> NoReturn:
    """Replace this process by a command beside a replica, or where one ran that has ended.

    Raises:
        CommandError: There is no such replica, or it is not one of this machine.
    """
    status = job.status
    if not status.on_this_machine:
        raise CommandError(_elsewhere(status))
    if not (job.alive.no or job.attempt.lives_here):  # a process id of the record is another process here
        launcher = job.attempt.launcher
        where = launcher.name if launcher else f"pid {status.launcher}, and an older version did not record where"
        run = shlex.quote(status.identity.run)
        raise CommandError(f"run {run}: its launcher is {where}; use `tfsteps shell {run}` there")
    target = named_replica(status, replica)
    env, cwd = None, ""
    if job.running:
        target = _recorded_start(job, target)
        env, cwd = _running(target)
    if env is None:
        env, cwd = _recorded(job, target)
        say(f"{target.name} is {target.state}; this is the environment it would start with, in {cwd}")
    replace_process(command or [os.environ.get("SHELL", "sh")], env, cwd)


def _elsewhere(status: Status) -> str:
    run = shlex.quote(status.identity.run)
    problem = f"run {run}: its replicas are not on this machine, but on {status.system}"
    if not status.where:
        return f"{problem}, where tfsteps cannot start a shell; use the tools of {status.system}"
    return f"{problem}; use `{shlex.join(['tfsteps', 'shell', status.identity.run, *status.where])}`"


def _recorded_start(job: "LocalAttempt", replica: ReplicaStatus) -> ReplicaStatus:
    """Return a replica once its start is recorded, which is a moment after the launcher has printed it."""
    give_up = time.monotonic() + _MOMENT_SECONDS
    while not replica.incarnations and time.monotonic() < give_up:
        time.sleep(0.05)
        replica = named_replica(job.attempt.status(), replica.name)
    return replica


def _running(replica: ReplicaStatus) -> tuple[Mapping[str, str] | None, str]:
    """Return the environment and the folder of a replica's process; None if it does not run."""
    words = replica.incarnations[-1].place.split() if replica.incarnations else []
    if replica.state not in (ReplicaState.PENDING, ReplicaState.RUNNING) or words[:1] != ["pid"]:
        return None, ""
    process = pathlib.Path("/proc", words[1])
    try:
        entries = _environ(process / "environ").split(b"\0")
        cwd = os.readlink(process / "cwd")  # noqa: PTH115  text, which may not exist any more
    except OSError:  # it has just ended
        return None, ""
    return dict(os.fsdecode(entry).partition("=")[::2] for entry in entries if b"=" in entry), cwd


def _environ(file: pathlib.Path) -> bytes:
    """Return the content of /proc/PID/environ; a process that is just executing its program has none for a moment."""
    give_up = time.monotonic() + _MOMENT_SECONDS
    while not (content := file.read_bytes()) and time.monotonic() < give_up:
        time.sleep(0.01)
    return content


def _recorded(job: "LocalAttempt", replica: ReplicaStatus) -> tuple[Mapping[str, str], str]:
    """Return what a replica would start with, by the records of the run; its ports are those that it had."""
    from tfsteps.systems.local.job_system import LocalSystem  # noqa: PLC0415  only here, and slow

    status = job.status
    file = job.attempt.folder / "job.json"
    try:
        described = msgspec.json.decode(file.read_bytes(), type=TrainingJob)
    except (OSError, *NOT_READABLE) as error:
        raise CommandError(f"{file} cannot be read: {error}; choose another run") from error
    folder = pathlib.Path(status.base_dir or pathlib.Path.cwd())
    places = OutputPaths(output=status.output, model=status.model, logs=status.logs, base_dir=folder)
    commands = LocalSystem().commands(described, status.identity, places, lambda count: _ports(status)[:count])
    command = commands[ReplicaName(replica.role, replica.index)]
    return command.env, str(command.cwd)


def _ports(status: Status) -> list[int]:
    """Return the last port of each member of the cluster, in order; a placeholder for one that never had a port."""
    members = [replica for replica in status.replicas if replica.role != "evaluator"]
    places = [replica.incarnations[-1].place.split() if replica.incarnations else [] for replica in members]
    return [int(words[3]) if len(words) > 3 else 2222 + i for i, words in enumerate(places)]

"""Runs a job as processes of this machine."""

import json
import os
import pathlib
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence

from tfsteps.runs import code_archive, store
from tfsteps.runs.code_archive import CodeError
from tfsteps.runs.events import ReplicaName, replicas_of
from tfsteps.runs.identity import Identity
from tfsteps.runs.location import Location
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.runs.store import AttemptFolder
from tfsteps.runs.survivors import left_by_earlier
from tfsteps.spec import Problem, ResolvedRole, TrainingJob, is_uri, options_of
from tfsteps.spec.types import WEBHOOK_PREFIX
from tfsteps.systems import capabilities
from tfsteps.systems.base import JobNote, LaunchError, OnEnd, Scope
from tfsteps.systems.capabilities import Capability
from tfsteps.systems.expansion import escaped, expand_program
from tfsteps.systems.features import Use
from tfsteps.systems.local import pipeline_lock, ports, process
from tfsteps.systems.local.options import CAPABILITIES, LocalOptions
from tfsteps.systems.local.process import Command
from tfsteps.systems.local.supervisor import LocalJob

_NAME_LIMIT = 63
_VARIABLE_PAGES = 32  # MAX_ARG_STRLEN of Linux: the longest variable of a process, in pages of memory
_LOWEST_PORT = 1024
_LOOPBACK = "127.0.0.1,localhost"


def tf_config(cluster: Mapping[str, Sequence[str]], replica: ReplicaName) -> str:
    """Return the value of TF_CONFIG for one replica.

    An evaluator gets the cluster, but is not part of it: a parameter-server chief would wait for it for ever.

    Args:
        cluster: The `host:port` addresses of each role, by index; without the evaluator.
        replica: The replica.
    """
    task = {"type": replica.role, "index": replica.index}
    return json.dumps({"cluster": dict(cluster), "task": task, "environment": "cloud"})


class LocalSystem:
    """Replicas as processes of this machine, on ports of 127.0.0.1."""

    name = "local"
    capabilities: Mapping[str, Capability] = CAPABILITIES
    location = Location.LOCAL
    outlives_launcher = False

    def attempt(self, run: str, task: str) -> int:
        """Return 0 for a task that was never run, else the last attempt plus one.

        Raises:
            LaunchError: Replicas of an earlier one are left.
        """
        rest, left = left_by_earlier(run, task)
        if left.yes:
            raise LaunchError(f"{rest}; `tfsteps stop {shlex.quote(run)}` ends that", retryable=False)
        return store.next_attempt(run, task)

    def spec_problems(self, job: TrainingJob) -> list[Problem]:
        """Return a problem for each feature that a local run does not support, or for more replicas than can start."""
        return capabilities.spec_problems(job, self.capabilities) or _too_many(job)

    def warnings(self, job: TrainingJob) -> list[str]:
        """Return a sentence for each reason why fields have no effect on this machine."""
        return [*capabilities.warnings(job, self.capabilities), *_without_folder(job, None)]

    def output_paths(self, job: TrainingJob, identity: Identity, base_dir: pathlib.Path) -> OutputPaths:
        """Return the folders of an attempt: the run's own if the job names none, or names a folder on a volume."""
        output = AttemptFolder.of(identity).output
        mounts = [volume.mount for _, role in job.roles.items() for volume in (*job.volumes, *role.volumes)]
        template = job.output_dir
        if template and not any(pathlib.PurePath(template).is_relative_to(mount) for mount in mounts):
            folder = template.format(name=job.name, run_id=identity.run, task=identity.task)
            if is_uri(folder):
                return OutputPaths.below(folder, job, base_dir)
            output = base_dir / folder
        return OutputPaths.below(str(output), job, base_dir)

    def plan(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> list[dict[str, object]]:
        """Return the command, folder and own environment of each replica; ports are placeholders."""
        commands = self.commands(job, identity, paths, lambda count: list(range(2222, 2222 + count)))
        inherited = dict(os.environ)
        return [
            {
                "replica": str(command.replica),
                "command": command.argv,
                "working_dir": str(command.cwd),
                "env": _shown(command.env, inherited),
            }
            for command in commands.values()
        ]

    def commands(
        self, job: TrainingJob, identity: Identity, paths: OutputPaths, free_ports: Callable[[int], list[int]]
    ) -> dict[ReplicaName, Command]:
        """Return the command of each replica.

        Args:
            job: The job.
            identity: Its run, task and attempt.
            paths: The folders of the attempt.
            free_ports: Returns as many ports as it is asked for: one for each replica of the cluster, in order.
        """
        replicas = replicas_of(job.roles.items())
        members = [replica for replica in replicas if replica.role != "evaluator"]
        port_of = dict(zip(members, free_ports(len(members)), strict=True))
        cluster = _cluster(port_of)
        roles = job.resolved_roles()
        folder = _code_folder(identity) if job.code else paths.base_dir
        commands = {}
        for replica in replicas:
            role = roles[replica.role]
            ours = {
                "TF_CONFIG": tf_config(cluster, replica),
                "TFSTEPS_RUN_ID": identity.run,
                "TFSTEPS_TASK": identity.task,
                "TFSTEPS_ATTEMPT": str(identity.attempt),
                "TFSTEPS_ROLE": replica.role,
                "TFSTEPS_INDEX": str(replica.index),
                "TFSTEPS_OUTPUT_DIR": paths.output,
                "TFSTEPS_MODEL_DIR": paths.model,
                "TFSTEPS_LOG_DIR": paths.logs,
                **({"TFSTEPS_CODE_DIR": str(folder)} if job.code else {}),
            }
            declared = {  # those with a source in the cluster have this process's value, if any
                name: value if isinstance(value, str) else escaped(os.environ[name])
                for name, value in role.env.items()
                if isinstance(value, str) or name in os.environ
            }
            argv, variables = expand_program(role.program, ours, declared)
            commands[replica] = Command(
                replica=replica,
                argv=argv,
                env=_environment(role, variables),
                cwd=work_dir if (work_dir := folder / (role.working_dir or ".")).is_dir() else folder,
                memory_limit=role.resources.memory_limit,
                port=port_of.get(replica),
            )
        return commands

    def start(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> LocalJob:
        """Return the job; its processes start with the first event. LaunchError if its files cannot be written."""
        if source := job.code_source:
            try:
                code_archive.fetch(source)
                code_archive.unpack(source.digest or "", _code_folder(identity))
            except (CodeError, OSError) as error:
                raise LaunchError(str(error), retryable=False) from error
        for folder in (paths.output, paths.model, paths.logs):
            try:
                if not is_uri(folder):
                    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                wrong = f"output_dir: the folder {folder} cannot be made: {error.strerror}"
                fix = "Correct that, or set output_dir to another folder"
                raise LaunchError(f"{wrong}. {fix}", retryable=False) from error
        options = options_of(job, "local", LocalOptions)
        name = identity.job_name(job.name, _NAME_LIMIT)
        attempt = AttemptFolder.of(identity)
        started = LocalJob(name, job, options, lambda: self.commands(job, identity, paths, ports.free_ports), attempt)
        started.warnings += _without_folder(job, _code_folder(identity) if job.code else paths.base_dir)
        return started

    def note(self, job: TrainingJob, name: str, uid: str, note: JobNote) -> None:
        """Do nothing: the records on this machine hold the end of a job."""

    def attach(self, job: TrainingJob, name: str, uid: str, created: float) -> LocalJob:  # noqa: ARG002
        """Refuse: processes end with the launcher that started them."""
        raise LaunchError(f"{name} has ended with its launcher; run it again", retryable=False)

    def clean_up(self, identity: Identity, scope: Scope, on_end: OnEnd | None) -> list[str]:  # noqa: ARG002
        """Stop unfinished jobs, and wait until they have ended; ended processes leave nothing behind."""
        return pipeline_lock.stop_jobs(identity, scope)

    def give_up(self) -> None:
        """Do nothing: `start` takes no time."""


def _cluster(port_of: Mapping[ReplicaName, int]) -> dict[str, list[str]]:
    """Return the addresses of each role, by index."""
    cluster: dict[str, list[str]] = {}
    for member, port in port_of.items():
        cluster.setdefault(member.role, []).append(f"127.0.0.1:{port}")
    return cluster


def _too_many(job: TrainingJob) -> list[Problem]:
    """Return a problem if TF_CONFIG, even with the shortest ports, is too long for the environment of a process."""
    roles = dict(job.roles.items())
    replicas = [replica for replica in replicas_of(roles.items()) if replica.role != "evaluator"]
    limit = _VARIABLE_PAGES * os.sysconf("SC_PAGE_SIZE")
    if not replicas or len(tf_config(_cluster(dict.fromkeys(replicas, _LOWEST_PORT)), replicas[0])) < limit:
        return []
    role = max(roles, key=lambda name: roles[name].replicas)
    wrong = f"are too many for this machine: the TF_CONFIG of {len(replicas)} replicas has more than {limit} bytes"
    fix = "Linux starts no process with such a variable. Set fewer, or run the job on a cluster: `--on kubernetes`"
    return [Problem(path=("roles", role, "replicas"), value=str(roles[role].replicas), wrong=wrong, fix=fix)]


def _without_folder(job: TrainingJob, base: pathlib.Path | None) -> list[str]:
    """Return a warning of each `working_dir` that does not exist here: replicas start in the job file's folder.

    Only of relative ones, which are below `base`; None = only of absolute ones.
    """
    missing = [
        Use((*path, "working_dir"))
        for path, part in job.parts()
        if (folder := pathlib.PurePath(part.working_dir or "")).is_absolute() is (base is None)
        and not pathlib.Path(base or "", folder).is_dir()
    ]
    return capabilities.no_effect(missing, f"{base or 'this machine'} has no such folder")


def _code_folder(identity: Identity) -> pathlib.Path:
    return AttemptFolder.of(identity).folder / "code"


def _environment(role: ResolvedRole, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment, overridden by the variables of a local run, and by `variables`.

    The URLs of webhooks are left out: they are secrets of the launcher.
    """
    env = {key: value for key, value in os.environ.items() if not key.startswith(WEBHOOK_PREFIX)}
    env["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), env.get("PATH", os.defpath)])  # noqa: PTH120
    env.setdefault("PYTHONUNBUFFERED", "1")
    if not role.resources.uses_gpus:
        env.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    env |= variables
    env.setdefault("PYTHONFAULTHANDLER", "1")  # the stack after a fatal signal
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(process.STARTUP), env.get("PYTHONPATH")]))
    env[process.VARIABLE] = str(int(process.NUMBER))
    for key in ("no_proxy", "NO_PROXY"):  # a proxy in the environment makes gRPC hang, even to 127.0.0.1
        env[key] = ",".join(filter(None, [env.get(key), _LOOPBACK]))
    return env


def _shown(env: Mapping[str, str], inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that differ from the inherited ones, without the folder of this installation."""
    startup = str(process.STARTUP)
    paths = [path for path in env["PYTHONPATH"].split(os.pathsep) if path != startup]
    shown = {**env, "PYTHONPATH": os.pathsep.join(paths)}
    return {key: value for key, value in shown.items() if inherited.get(key, "") != value}

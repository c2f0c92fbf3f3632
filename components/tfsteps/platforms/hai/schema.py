"""Renders a job as a HAI task (schema version 2). The same job gives the same task, except for a secret."""

import base64
import functools
import io
import json
import math
import pathlib
import re
import secrets
import shlex
import urllib.parse
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.platforms.hai import ranks
from tfsteps.platforms.hai.options import HaiOptions
from tfsteps.runs.events import replicas_of
from tfsteps.runs.identity import PREFIX, Identity, short_hash, spec_hash
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import RoleName, TrainingJob, options_of
from tfsteps.spec.step_inputs import without_step_variables
from tfsteps.systems import expansion, restart_policy

NAME = "hai"
LEVELS = {
    "LOW": 0,
    "BELOW_NORMAL": 5,
    "NORMAL": 10,
    "ABOVE_NORMAL": 20,
    "HIGH": 30,
    "VERY_HIGH": 40,
    "EXTREME_HIGH": 50,
}
"""HAI's seven levels of priority, the lowest first."""

AUTO = -1
_ALL_LEVELS = {"AUTO": AUTO, "UNDER_NORMAL": 8, **LEVELS}
_NEWEST = "HEAD"  # HAI's script fetches a revision even if it is empty
SPEC_HASH, CREATED, KEY = f"{PREFIX}spec-hash", f"{PREFIX}created", f"{PREFIX}key"
PAUSED, STOPPED = f"{PREFIX}paused", f"{PREFIX}stopped"
"""Tags without a value: the stopped task will be resumed; the task was stopped for good."""
PAUSED_TASK = f"{PREFIX}paused-task"
"""Tag beside PAUSED: the id of the newest task of the chain when it was paused. Ids grow: the highest one counts."""

LAUNCHER, DETACHED, REPORTED = f"{PREFIX}launcher", f"{PREFIX}detached", f"{PREFIX}reported"
"""Tags like the annotations of the same names on Kubernetes; the value of the first is the quoted step."""

WORKFLOW, NAMESPACE_UID, DEADLINE = f"{PREFIX}workflow", f"{PREFIX}namespace-uid", f"{PREFIX}deadline"
"""Tags for the janitor: the Workflow that launched it, as namespace/name/uid; the uid of its namespace, because tasks
of several clusters may be one user's; `deadlines.total` in seconds."""

_WATCHDOG_SECONDS = 1800.0  # HAI's own
_NAME_LIMIT = 63  # HAI accepts 511; shorter names are easier to type
_AGENT, PLAN, SECRET = "TFSTEPS_AGENT", "TFSTEPS_PLAN", "TFSTEPS_SECRET"
_ENTRYPOINT = "python3"
_BOOTSTRAP = (
    "import base64,io,os,sys,tempfile,zipfile;"
    'sys.version_info<(3,7) and sys.exit("tfsteps: python3 of this image is "+sys.version.split()[0]'
    '+"; the wrapper needs 3.7 or newer: use another image or py_venv");'
    'here=tempfile.mkdtemp(prefix="tfsteps-");'
    f'zipfile.ZipFile(io.BytesIO(base64.b64decode(os.environ["{_AGENT}"]))).extractall(here);'
    "sys.path.insert(0,here);"
    "from tfsteps_ranks.agent import main;"
    "from tfsteps_ranks.expansion import expand_program;"
    "from tfsteps_ranks.restart_policy import RestartPolicy;"
    "sys.exit(main(here,RestartPolicy,expand_program))"
)
_FOR_PROGRAMS = "tfsteps_suspend.py"  # they import it under this name
_TO_SHOW = {
    _AGENT: "(platforms/hai/ranks, expansion.py and restart_policy.py of tfsteps, zipped)",
    SECRET: "(random, another one for each task)",
}
_OF_PROGRAMS = re.compile(r"PATH|IFS|ENV|BASH_ENV|CDPATH|GLOBIGNORE|HOME|PYTHON.*|LD_.*")
"""Variables that would change how HAI's own shell and Python scripts run, and stop them or the task."""

_READ_ONLY = ("UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO")  # in the shell of HAI's scripts


def options_for(job: TrainingJob) -> HaiOptions:
    """Return the job's options for HAI."""
    return options_of(job, NAME, HaiOptions)


def job_name(job: TrainingJob, identity: Identity) -> str:
    """Return the task's name, unique among the user's unfinished tasks."""
    return identity.job_name(job.name, _NAME_LIMIT)


def workspace(job: TrainingJob, options: HaiOptions) -> str:
    """Return the folder on the shared file system where the ranks start; empty = the user's home, or a clone."""
    return "" if options.git_remote_repo else options.workspace or job.working_dir or ""


def named_level(text: str) -> int | None:
    """Return the level of a name, or of a priority of 0 to 100; None = it is neither. AUTO is none: see `groups`."""
    if text.isdecimal() and int(text) <= 100:
        return level(int(text))
    return LEVELS.get(text.upper().replace("-", "_"))


def level_name(number: int) -> str:
    """Return the name of a level."""
    return next(name for name, value in _ALL_LEVELS.items() if value == number)


def level_of(job: TrainingJob) -> int:
    """Return the level of a job: HAI's own in its options, else that of its priority."""
    priority = options_for(job).priority
    if priority is None:
        return level(job.priority)
    return priority if isinstance(priority, int) else _ALL_LEVELS[priority]


def level(priority: int | None) -> int:
    """Return the level for a priority of 0 to 100, seven equal parts; AUTO for none."""
    return AUTO if priority is None else list(LEVELS.values())[priority * len(LEVELS) // 101]


def render(job: TrainingJob, identity: Identity, paths: OutputPaths, step: str) -> dict[str, Any]:
    """Return the schema of the task that `step` launches.

    Its tags hold a hash of the rest, by which a launcher recognizes its task.
    """
    options, body = options_for(job), _untagged(job, identity, paths)
    digest = spec_hash(shown(_untagged(without_step_variables(job), identity, paths)))  # without the agent's version
    body["options"]["tags"] = tags({**_labels(job, identity), SPEC_HASH: digest})
    body["options"]["tags"] += [launcher_tag(step), tag(DEADLINE, f"{job.deadlines.total:g}")]
    if options.suspend:
        body["options"]["tags"].append(PAUSED)
    return body


def _untagged(job: TrainingJob, identity: Identity, paths: OutputPaths) -> dict[str, Any]:
    options = options_for(job)
    return {
        "version": 2,
        "name": job_name(job, identity),
        "task_type": "training",
        "priority": level_of(job),
        "spec": {
            "workspace": workspace(job, options),
            **_repository(options),
            "entrypoint": _ENTRYPOINT,
            "parameters": f"-u -c {shlex.quote(_BOOTSTRAP)}",
            "entrypoint_executable": True,
            "environments": _environments(job, identity, paths, options),
        },
        "resource": {
            "image": job.image or "default",
            "group": options.group or job.queue or "default",
            "node_count": len(replicas_of(job.roles.items())),
            "is_spot": options.spot,
        },
        "options": _options(job, options),
        "services": msgspec.to_builtins(options.services),
    }


def _repository(options: HaiOptions) -> dict[str, str]:
    if not options.git_remote_repo:
        return {}
    revision = options.git_target_revision or _NEWEST
    return {"git_remote_repo": options.git_remote_repo, "git_target_revision": revision}


def shown(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task's schema for display, without the text of the agent and the secret."""
    spec = {**body["spec"], "environments": {**body["spec"]["environments"], **_TO_SHOW}}
    return {**body, "spec": spec}


def tags(values: Mapping[str, str]) -> list[str]:
    """Return tags that hold names and values."""
    return [tag(name, value) for name, value in values.items()]


def tag(name: str, value: str) -> str:
    """Return the tag that holds a name and its value; none begins with `_`, which HAI reserves."""
    return f"{name}={value}"


def launcher_tag(step: str) -> str:
    """Return the tag of the step that launches or follows a task, quoted because HAI splits tags at commas."""
    return tag(LAUNCHER, urllib.parse.quote(step, safe=""))


def launcher(task: Mapping[str, Any]) -> str:
    """Return the step that launches or follows a task; empty = not known."""
    return urllib.parse.unquote(labels(task).get(LAUNCHER, ""))


def workflow_tags(namespace_uid: str, namespace: str, name: str, uid: str) -> list[str]:
    """Return the tags that say which Workflow a task belongs to; `namespace_uid` empty = not known."""
    known = [tag(NAMESPACE_UID, namespace_uid)] if namespace_uid else []
    return [*known, tag(WORKFLOW, f"{namespace}/{name}/{uid}")]


def workflow(task: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return namespace, name and uid of the Workflow that a task belongs to; all empty = none."""
    parts = labels(task).get(WORKFLOW, "").split("/")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else ("", "", "")


def environments(task: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the variables of a task's schema as they were sent; empty if the platform does not return them."""
    try:
        return dict(task["config_json"]["schema"]["spec"]["environments"])
    except (KeyError, TypeError, ValueError):
        return {}


def created(task: Mapping[str, Any]) -> float | None:
    """Return when a task was created, in seconds since the epoch, by its tags; None = not known."""
    return _number(labels(task).get(CREATED, ""))


def deadline(task: Mapping[str, Any]) -> float | None:
    """Return `deadlines.total` of a task, in seconds from its creation; None = not known."""
    return _number(labels(task).get(DEADLINE, ""))


def paused_task(task: Mapping[str, Any]) -> int:
    """Return the id of the task of the chain that tfsteps paused last; 0 = the first one."""
    values = (value for name, _, value in _pairs(task) if name == PAUSED_TASK)
    return max((int(value) for value in values if value.isdecimal()), default=0)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None


def labels(task: Mapping[str, Any]) -> dict[str, str]:
    """Return names and values of a task's tags; those without a value have an empty one."""
    return {name: value for name, _, value in _pairs(task)}


def _pairs(task: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    return (str(text).partition("=") for text in task.get("tags") or [])


def key(run: str, task: str) -> str:
    """Return the tag that all attempts of one task have: the list of tasks takes one tag, or any of several."""
    return tag(KEY, short_hash(run, task))


def _labels(job: TrainingJob, identity: Identity) -> dict[str, str]:
    return {**job.labels, **identity.labels(), KEY: short_hash(identity.run, identity.task)}


def _options(job: TrainingJob, options: HaiOptions) -> dict[str, Any]:
    """Return `options`, without fields left to the platform."""
    override = options.override_node_resource
    values = {
        "mount_code": options.mount_code,
        "py_venv": options.py_venv,
        "timeout": math.ceil(options.timeout or job.deadlines.total),
        "watchdog_time": options.watchdog_time and math.ceil(options.watchdog_time),
        "override_node_resource": msgspec.to_builtins(override) if override else None,
        "assigned_nodes": list(options.assigned_nodes) or None,
        "shared_in_group": options.shared_in_group or None,
        "whole_life_state": options.whole_life_state,
        "record_git_revision": options.record_git_revision or None,
        "sidecar": options.sidecar,
        "profile": options.profile or None,
    }
    return {name: value for name, value in values.items() if value is not None}


# --- what the ranks are told


def _environments(job: TrainingJob, identity: Identity, paths: OutputPaths, options: HaiOptions) -> dict[str, str]:
    """Return the variables of every rank, quoted: HAI writes them as they are into a shell file.

    It also trims the lines of that file, and runs its own scripts after it. The plan holds all variables, including
    those that the file cannot hold or that would change how these scripts run. Rank 0 recognizes the other ranks by the
    secret, which is not part of the hash of a task.
    """
    plain = {
        name: value
        for name, value in _plain(job.env).items()
        if "\n" not in value and name not in _READ_ONLY and not _OF_PROGRAMS.fullmatch(name)
    }
    plan = rank_plan(job, identity, paths, options)
    ours = {_AGENT: _agent_text(), PLAN: json.dumps(plan), SECRET: secrets.token_hex(16)}
    return {name: shlex.quote(value) for name, value in {**plain, **ours}.items()}


def rank_plan(job: TrainingJob, identity: Identity, paths: OutputPaths, options: HaiOptions) -> dict[str, Any]:
    """Return the plan for the agents: the replica and program of each rank, and the restart rules."""
    variables = {
        "TFSTEPS_RUN_ID": identity.run,
        "TFSTEPS_TASK": identity.task,
        "TFSTEPS_ATTEMPT": str(identity.attempt),
        "TFSTEPS_OUTPUT_DIR": paths.output,
        "TFSTEPS_MODEL_DIR": paths.model,
        "TFSTEPS_LOG_DIR": paths.logs,
    }
    rules = restart_policy.restart_rules(job)
    return {
        **rules,
        "grace": options.grace,
        "finish": options.finish,
        "sigterm_delay": options.sigterm_delay,
        "silence": (options.watchdog_time or _WATCHDOG_SECONDS) / 3,
        "env": {**_plain(job.env), **variables},
        "roles": {name: {**rules["roles"][name], **_role(job, name, options)} for name in job.resolved_roles()},
    }


def _role(job: TrainingJob, name: RoleName, options: HaiOptions) -> dict[str, Any]:
    declared, role = getattr(job.roles, name), job.resolved_roles()[name]
    return {
        "command": role.program,
        "env": _plain(declared.env),
        "dir": role.working_dir if options.workspace or options.git_remote_repo else declared.working_dir,
    }


def _plain(env: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in env.items() if isinstance(value, str)}


@functools.cache
def _agent_text() -> str:
    """Return what runs on the ranks, as a zip file in text."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        modules = sorted(pathlib.Path(ranks.__file__).parent.glob("*.py"))
        for path in [*modules, pathlib.Path(expansion.__file__), pathlib.Path(restart_policy.__file__)]:
            named = [f"tfsteps_ranks/{path.name}", *([path.name] if path.name == _FOR_PROGRAMS else [])]
            for name in named:
                file.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return base64.b64encode(content.getvalue()).decode()

"""Problems and warnings for features and values of a job that HAI does not support."""

import json
import pathlib
import re
from collections.abc import Iterator

from tfsteps.platforms.hai import access, schema
from tfsteps.platforms.hai.options import CAPABILITIES
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import Problem, TrainingJob
from tfsteps.spec.problems import problem
from tfsteps.systems import capabilities

_IMAGE_PARTS = 3
_LONGEST_PLAN = 100_000  # bytes; the kernel limits an environment variable to 128 KiB
_LONGEST_WORKSPACE = 255
_PLATFORM_ENV = re.compile(r"MASTER_(ADDR|IP|PORT)|RANK|WORLD_SIZE|CHAIN_ID|MARSV2_.*", re.DOTALL)
_ACCESS_ENV = {access.SERVER: access.LAUNCHER_SERVER, access.TOKEN: access.LAUNCHER_TOKEN}
_GROUP = re.compile(r"[^\s#]+(#[^\s#]+)?")
_RESERVED = {"ssh", "jupyter"}  # services of the platform itself


def spec_problems(job: TrainingJob) -> list[Problem]:
    """Return what HAI does not support. For an environment variable that HAI sets, return only that problem."""
    environment = list(_environment(job))
    reported = {problem.path for problem in environment}
    unsupported = [entry for entry in capabilities.spec_problems(job, CAPABILITIES) if entry.path not in reported]
    return [
        *unsupported,
        *_job(job),
        *_workspace(job),
        *_repository(job),
        *_image(job),
        *_services(job),
        *environment,
        *_size(job),
    ]


def warnings(job: TrainingJob) -> list[str]:
    """Return a sentence for each field without effect, and a warning if the results would be lost."""
    lost = "neither `output_dir` nor a workspace is set: files of the ranks are lost with their pods"
    shared = job.output_dir or schema.workspace(job, schema.options_for(job))
    return [
        *capabilities.warnings(job, CAPABILITIES),
        *capabilities.held_at_start(job, schema.NAME),
        *_without_effect(job),
        *([] if shared else [f"No folder is shared, for {lost}."]),
        *_relative(job),
    ]


def _relative(job: TrainingJob) -> Iterator[str]:
    """Yield a sentence about relative programs that the ranks would look for in the user's home."""
    options = schema.options_for(job)
    if schema.workspace(job, options) or options.git_remote_repo:
        return
    for name, role in job.resolved_roles().items():
        script = next((word for word in role.program if word.endswith((".py", ".sh")) and not word.startswith("/")), "")
        if script and not role.working_dir:
            fix = f"write `working_dir: {pathlib.Path.cwd()}` if every rank sees this folder"
            yield f"`roles.{name}`: {script} is looked for in the user's home, where ranks start: {fix}."


def _without_effect(job: TrainingJob) -> Iterator[str]:
    """Yield a sentence about options that the open-source platform accepts and ignores."""
    options = schema.options_for(job)
    unused = {
        "assigned_nodes": options.assigned_nodes,
        "the zone after `#` in the group": "#" in (options.group or job.queue or ""),
        "spot": options.spot,
        "sidecar": options.sidecar,
    }
    if names := [name for name, value in unused.items() if value]:
        yield f"No effect on the open-source HAI Platform, which chooses nodes by group alone: {', '.join(names)}."
    needs = {"watchdog_time": options.watchdog_time, "services": options.services}
    if names := [name for name, value in needs.items() if value]:
        where = "the image contains the platform's own package `ambient` (/marsv2/scripts/ambient)"
        yield f"On the open-source HAI Platform, {' and '.join(names)} work only if {where}."


def _job(job: TrainingJob) -> Iterator[Problem]:
    members = sum(role.replicas for _, role in job.roles.items())
    if job.gang and job.gang.min_available and job.gang.min_available < members:
        fix = "Remove it"
        wrong = f"is not supported on HAI: HAI grants all {members} nodes together"
        yield problem(("gang", "min_available"), wrong, fix, job.gang.min_available, str(members))
    if job.queue and not _GROUP.fullmatch(job.queue):
        yield problem(("queue",), "is not a group", "Write the group's name", repr(job.queue), "`group`, `group#zone`")


def _workspace(job: TrainingJob) -> Iterator[Problem]:
    folder = schema.workspace(job, schema.options_for(job))
    if folder and (len(folder) > _LONGEST_WORKSPACE or any(character.isspace() for character in folder)):
        wrong, allowed = "is not a workspace", f"up to {_LONGEST_WORKSPACE} characters without spaces"
        yield problem(("working_dir",), wrong, "Use a shorter path without spaces", repr(folder[:60]), allowed)


def _repository(job: TrainingJob) -> Iterator[Problem]:
    options, path = schema.options_for(job), ("systems", schema.NAME)
    if not options.git_remote_repo and options.git_target_revision:
        fix = "Add `git_remote_repo`, or remove it"
        yield problem((*path, "git_target_revision"), "is of no repository", fix, options.git_target_revision)
    if options.git_remote_repo:
        for name in ("workspace", "record_git_revision"):
            if value := getattr(options, name):
                wrong = "excludes `git_remote_repo`: HAI takes the code from one place"
                yield problem((*path, name), wrong, "Remove one of the two", str(value).lower())


def _image(job: TrainingJob) -> Iterator[Problem]:
    if job.image and "/" in job.image and job.image.count("/") != _IMAGE_PARTS - 1:
        wrong, allowed = "is not an image for HAI", "registry/project/name, or an environment of the platform"
        yield problem(("image",), wrong, "Push it as registry/project/name, and load it", repr(job.image), allowed)


def _services(job: TrainingJob) -> Iterator[Problem]:
    services, seen = schema.options_for(job).services, set()
    ports = [service.port for service in services]
    for i, service in enumerate(services):
        path = ("systems", schema.NAME, "services", i)
        if service.name in seen:
            yield problem((*path, "name"), "is used twice", "Choose another name", repr(service.name))
        if service.name in _RESERVED:
            yield problem((*path, "name"), "is reserved for HAI's own service", "Choose another name", service.name)
        seen.add(service.name)
        if service.type == "local" and service.port:
            yield problem((*path, "port"), "is not allowed for type local", "Remove it", service.port)
        elif service.type != "local" and not service.port:
            yield problem((*path, "port"), f"is missing: type {service.type} requires it", "Add `port: <number>`")
        elif service.port and ports.count(service.port) > 1:
            yield problem((*path, "port"), "is used twice", "Choose another port", service.port)
        if service.type != "local" and service.rank != (0,):
            wrong = f"is not 0: services of type {service.type} run only on rank 0"
            yield problem((*path, "rank"), wrong, "Remove it", list(service.rank), "[0]")


def _environment(job: TrainingJob) -> Iterator[Problem]:
    """Yield a problem for each variable that the platform sets: the job's value would replace it."""
    for level, part in job.parts():
        for name, value in part.env.items():
            if _PLATFORM_ENV.fullmatch(name):
                fix = "Remove it, or use another name"
                if name in _ACCESS_ENV:
                    fix = f"Remove it; to set it for the launcher of a pipeline task, use {_ACCESS_ENV[name]}"
                shown = repr(value) if isinstance(value, str) and name not in _ACCESS_ENV else ""
                yield problem(
                    (*level, "env", name), "is set by HAI on each rank, and the ranks need its value", fix, shown
                )


def _size(job: TrainingJob) -> list[Problem]:
    """Return a problem if the plan for the ranks is too large."""
    nowhere = OutputPaths(output="", model="", logs="", base_dir=pathlib.Path())
    plan = schema.rank_plan(job, Identity(run="run", task="task"), nowhere, schema.options_for(job))
    if (size := len(json.dumps(plan))) <= _LONGEST_PLAN:
        return []
    wrong = f"contain {size} bytes of commands and variables; the limit is {_LONGEST_PLAN}"
    return [problem(("roles",), wrong, "Move long values into a file on the shared file system")]

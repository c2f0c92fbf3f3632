"""What of a job HAI has no word for: refused, with the nearest that it has, or without effect."""

import json
import pathlib
import re
from collections.abc import Iterator

from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths, unread_metrics
from tfsteps.spec import EnvSource, Problem, Resources, Role, TrainingJob, format_bytes
from tfsteps.spec.problems import Path, problem
from tfsteps.systems.hai import access, schema

_IMAGE_PARTS = 3
_LONGEST_PLAN = 100_000  # bytes; the kernel takes a variable of 128 KiB
_LONGEST_WORKSPACE = 255
_PLATFORM_ENV = re.compile(r"MASTER_(ADDR|IP|PORT)|RANK|WORLD_SIZE|CHAIN_ID|MARSV2_.*", re.DOTALL)
_ACCESS_ENV = {access.SERVER: access.LAUNCHER_SERVER, access.TOKEN: access.LAUNCHER_TOKEN}
_GROUP = re.compile(r"[^\s#]+(#[^\s#]+)?")
_RESERVED = {"ssh", "jupyter"}  # services of the platform itself
_UNUSED = ("annotations", "service_account", "image_pull_secrets", "image_pull_policy")


def problems(job: TrainingJob) -> list[Problem]:
    """Return what HAI cannot do."""
    found = [*_job(job), *_programs(job), *_workspace(job), *_image(job), *_services(job)]
    for path, place in _places(job):
        found += [*_place(path, place), *_resources((*path, "resources"), place.resources)]
        found += _environment((*path, "env"), place)
    return found + _size(job)


def warnings(job: TrainingJob) -> list[str]:
    """Return a sentence for each thing that has no effect, and whether the results would be lost."""
    unused = [name for name in _UNUSED if getattr(job, name)]
    for path, place in _places(job):
        needs = place.resources or Resources()
        asked = {"cpu": needs.cpu, "memory": needs.memory, "limits": needs.memory_limit or needs.cpu_limit}
        unused += [".".join([*map(str, path), "resources", name]) for name, value in asked.items() if value]
    found = [f"Not used by HAI, whose ranks are whole nodes: {', '.join(unused)}."] if unused else []
    if job.on_end == "delete" or job.keep_for is not None:
        found.append("`on_end: delete` and `keep_for` are not used: pods are gone at the end, records of tasks stay.")
    if job.on_evicted:
        found.append("`on_evicted` is not used: nobody would end the task after the time.")
    found += _without_effect(job)
    if not (job.output_dir or schema.workspace(job, schema.options_for(job))):
        lost = "neither `output_dir` nor a workspace is set: what the ranks write is lost with their pods"
        found.append(f"No folder is shared, for {lost}.")
    return found + unread_metrics(job)


def _without_effect(job: TrainingJob) -> Iterator[str]:
    """Yield a sentence about the options that the open-source platform takes, and does nothing for."""
    options = schema.options_for(job)
    unused = {
        "assigned_nodes": options.assigned_nodes,
        "the zone after `#` in the group": "#" in (options.group or job.queue or ""),
        "spot": options.spot,
        "sidecar": options.sidecar,
    }
    if names := [name for name, value in unused.items() if value]:
        yield f"Not used by the open-source HAI Platform, whose nodes are chosen by group alone: {', '.join(names)}."
    needs = {"watchdog_time": options.watchdog_time, "services": options.services}
    if names := [name for name, value in needs.items() if value]:
        where = "the image holds the platform's own package `ambient` (/marsv2/scripts/ambient)"
        yield f"On the open-source HAI Platform, {' and '.join(names)} work only where {where}."


def _places(job: TrainingJob) -> Iterator[tuple[Path, Role | TrainingJob]]:
    yield (), job
    for name, role in job.roles.items():
        yield ("roles", name), role


def _job(job: TrainingJob) -> Iterator[Problem]:
    if job.tensorboard:
        fix = "Remove it, and look at `tfsteps report`, or run one as a service of the task"
        yield problem(("tensorboard",), "is not supported on HAI: HAI has no TensorBoard", fix)
    members = sum(role.replicas for _, role in job.roles.items())
    if job.gang and job.gang.min_available and job.gang.min_available < members:
        fix = "Remove it"
        wrong = f"is not supported on HAI: HAI grants all {members} nodes together"
        yield problem(("gang", "min_available"), wrong, fix, job.gang.min_available, str(members))
    if job.queue and not _GROUP.fullmatch(job.queue):
        yield problem(("queue",), "is not a group", "Write the group's name", repr(job.queue), "`group`, `group#zone`")


def _programs(job: TrainingJob) -> Iterator[Problem]:
    for name, role in job.resolved_roles().items():
        if not role.command:
            fix = "Add `command: [python, train.py]`"
            yield problem(("roles", name, "command"), "is missing: HAI does not run an image's entrypoint", fix)


def _workspace(job: TrainingJob) -> Iterator[Problem]:
    folder = schema.workspace(job, schema.options_for(job))
    if folder and (len(folder) > _LONGEST_WORKSPACE or any(each.isspace() for each in folder)):
        wrong, allowed = "is no workspace", f"up to {_LONGEST_WORKSPACE} characters without spaces"
        yield problem(("working_dir",), wrong, "Use a shorter path without spaces", repr(folder[:60]), allowed)


def _image(job: TrainingJob) -> Iterator[Problem]:
    if job.image and "/" in job.image and job.image.count("/") != _IMAGE_PARTS - 1:
        wrong, allowed = "is not an image that HAI takes", "registry/project/name, or an environment of the platform"
        yield problem(("image",), wrong, "Push it as registry/project/name, and load it", repr(job.image), allowed)
    for name, role in job.roles.items():
        if role.image and role.image != job.image:
            fix = "Use one image for the job; command, args and env may differ by role"
            yield problem(("roles", name, "image"), "differs: a task of HAI has one image", fix, repr(role.image))


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
            yield problem((*path, "port"), "does not go with type local", "Remove it", service.port)
        elif service.type != "local" and not service.port:
            yield problem((*path, "port"), f"is missing: type {service.type} needs one", "Add `port: <number>`")
        elif service.port and ports.count(service.port) > 1:
            yield problem((*path, "port"), "is used twice", "Choose another port", service.port)
        if service.type != "local" and service.rank != (0,):
            wrong = f"is not 0: services of type {service.type} run on rank 0 alone"
            yield problem((*path, "rank"), wrong, "Remove it", list(service.rank), "[0]")


def _place(path: Path, place: Role | TrainingJob) -> Iterator[Problem]:
    if place.volumes:
        fix = "Use paths on the shared file system, which every rank sees; what else is mounted, the operator decides"
        yield problem((*path, "volumes"), "is not supported on HAI: the platform's own table says what is mounted", fix)
    for name in ("node_selector", "tolerations"):
        if getattr(place, name):
            fix = "Remove it, and write the group of such nodes in `queue`"
            yield problem((*path, name), "is not supported on HAI: HAI chooses nodes by group", fix)
    if place.pod:
        fix = "Remove it; see the options below systems.hai"
        yield problem((*path, "pod"), "is not supported on HAI: HAI makes the pods itself", fix)


def _resources(path: Path, need: Resources | None) -> Iterator[Problem]:
    if need and need.gpu:
        fix = "Remove it: a rank has all GPUs of its node"
        yield problem((*path, "gpu"), "cannot be chosen: the unit is a whole node", fix, need.gpu)
    if need and need.shared_memory:
        wrong = "cannot be chosen: it is as large as the platform makes it, which is a volume in memory"
        yield problem((*path, "shared_memory"), wrong, "Remove it", format_bytes(need.shared_memory))
    if need and need.gpu_type:
        fix = "Write the group of nodes with such GPUs in `queue`"
        yield problem((*path, "gpu_type"), "cannot be chosen: HAI chooses nodes by group", fix, repr(need.gpu_type))


def _environment(path: Path, place: Role | TrainingJob) -> Iterator[Problem]:
    """Variables with a value, and none of those that the platform sets: a user's value would take its place there."""
    for name, value in place.env.items():
        if _PLATFORM_ENV.fullmatch(name):
            fix = "Remove it, or use another name"
            if name in _ACCESS_ENV:
                fix = f"Remove it; for the launcher, on a pipeline's task, name it {_ACCESS_ENV[name]}"
            shown = repr(value) if isinstance(value, str) and name not in _ACCESS_ENV else None
            yield problem((*path, name), "is set by HAI on each rank, and the ranks need its value", fix, shown)
        elif isinstance(value, EnvSource):
            fix = "Write the value, or let the program read a file on the shared file system, or MARSV2_* variables"
            yield problem((*path, name), "has a source that HAI does not know: no Secret, ConfigMap or pod field", fix)


def _size(job: TrainingJob) -> list[Problem]:
    """Return whether what the ranks are told is too much."""
    nowhere = OutputPaths(output="", model="", logs="", base_dir=pathlib.Path())
    plan = schema.rank_plan(job, Identity(run="run", task="task"), nowhere, schema.options_for(job))
    if (size := len(json.dumps(plan))) <= _LONGEST_PLAN:
        return []
    wrong = f"hold {size} bytes of commands and variables; a rank takes {_LONGEST_PLAN}"
    return [problem(("roles",), wrong, "Move what is long into a file on the shared file system")]

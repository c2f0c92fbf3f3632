"""Rules between the fields of a job.

TensorFlow's requirements behind them are in docs/get-started. Each function checks one part of a job, in the order of
`check`. A check that reads a field which the job file has wrong, or a default in its place, would report what follows
from that alone: `known` tells whether the fields that a check depends on could be read.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from string import Formatter
from typing import Any

from tfsteps.spec.decode import words
from tfsteps.spec.fields import is_uri
from tfsteps.spec.pod import EnvSource
from tfsteps.spec.problems import Path, Problem, dotted, problem, shown
from tfsteps.spec.types import MAX_WEBHOOKS, TrainingJob
from tfsteps.spec.units import format_bytes, format_duration

_PLACEHOLDERS = ("name", "run_id", "task")
_STORES = ("gs", "s3", "s3a", "s3n")  # schemes whose URIs begin with a bucket
_RESERVED_ENV = re.compile(r"TF_CONFIG|TFSTEPS_.*")
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_KEY = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_KEY_ALLOWED = "[domain/]name of letters, digits, '-', '_', '.', name up to 63"
LABEL_VALUE = re.compile(rf"({_NAME})?")
_VALUE_ALLOWED = "up to 63 letters, digits, '-', '_', '.', a letter or digit first and last"
_LONGEST = 128 * 1024 - 1  # bytes of an argument or a variable of a process, without the zero at its end
_OPTION = re.compile(r"(--[A-Za-z][-\w]*)\s+(\S.*)", re.DOTALL)
_UNEXPANDED = re.compile(r"(--[-\w]+=)?\$(\w+|\{\w+\})(/.*)?")
_SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh")
_FIELDS_OF_JOB = {"command": "command", "args": "args", "workingDir": "working_dir"}
CONTAINER = "tensorflow"
"""The container of a replica that runs the program."""
_VOLUME_SOURCES = ("pvc", "secret", "config_map", "host_path", "nfs", "empty_dir")
_Known = Callable[..., bool]


def check(job: TrainingJob, broken: Collection[Path] = ()) -> list[Problem]:
    """Return the problems between the fields of `job`, without those that only follow from the fields in `broken`."""

    def known(*fields: str, of_pods: bool = False) -> bool:
        """Tell whether these fields could be read; `*` matches any key. `of_pods` = of the job, and of every role."""
        patterns = [*fields, *(f"roles.*.{field}" for field in fields if of_pods)]
        return not any(_touches(pattern.split("."), path) for pattern in patterns for path in broken)

    parts = (_roles, _end, _folders, _resources, _programs, _environment, _volumes, _scheduling, _pod_patches)
    problems = [problem for part in parts for problem in part(job, known)]
    return [problem for problem in problems if not any(_touches(problem.path, path) for path in broken)]


def _touches(pattern: Collection[str | int], path: Path) -> bool:
    """Tell whether one of the two paths is at or below the other."""
    return all(want in ("*", part) for want, part in zip(pattern, path, strict=False))


def _roles(job: TrainingJob, known: _Known) -> Iterator[Problem]:
    """TensorFlow can train with these roles by this strategy, and they can end the job."""
    roles, strategy = job.roles, job.effective_strategy
    if known("roles.*.replicas"):
        if not roles.chief and not roles.worker:
            only = " and ".join(name for name, _ in roles.items()) or "no role"
            yield problem(("roles",), f"has {only}: no role trains", "Add a chief or a worker")
        for name in ("chief", "evaluator"):
            role, path = getattr(roles, name), ("roles", name, "replicas")
            if role and role.replicas > 1:
                wrong = f"is more than one: the {name} is a single process"
                yield problem(path, wrong, "Write 1, and add workers instead", role.replicas, "1")
        if roles.ps and roles.chief and not roles.worker and strategy != "between_graph":
            fix = "Add a worker role, or remove ps, or write `strategy: between_graph` for TensorFlow 1's graph mode"
            yield problem(("roles", "ps"), "has no workers to serve", fix)
    if known("strategy", "roles.*.replicas"):
        if strategy == "parameter_server" and roles.ps and not roles.chief:
            fix = "Add `chief: {}`, or `strategy: between_graph` if the program uses TensorFlow 1's graph mode"
            wrong = "needs a chief: TensorFlow 2's parameter servers hang without one"
            yield problem(("roles", "ps"), wrong, fix)
        if strategy in ("parameter_server", "between_graph") and not roles.ps:
            fix = "Add a ps role, or leave strategy out"
            yield problem(("strategy",), "needs parameter servers", fix, strategy)
        if strategy in ("multi_worker_mirrored", "single") and roles.ps:
            fix = "Remove roles.ps, or leave strategy out"
            yield problem(("strategy",), "does not use parameter servers", fix, strategy)
        trainers = sum(role.replicas for name, role in roles.items() if name in ("chief", "worker"))
        if job.strategy == "single" and trainers > 1:
            wrong = f"is for one training replica, not {trainers}"
            yield problem(("strategy",), wrong, "Leave strategy out", "single")
    if job.success == "all_workers" and known("success", "restart", "roles.*.restart"):
        if roles.chief and not roles.worker:
            fix = "Write `success: chief`"
            yield problem(("success",), "requires workers, and the job has none", fix, "all_workers")
        if roles.worker and (roles.worker.restart or job.restart) == "always":
            fix = "Write `success: chief`, or another restart policy"
            yield problem(("success",), "waits for workers that never end with `restart: always`", fix, "all_workers")
    if known("restart", "roles.*.restart"):
        wrong = "allows restarts that `restart: never` rules out"
        policies = {job.restart, *(role.restart for _, role in roles.items() if role.restart)}
        if job.backoff_limit and policies == {"never"}:
            yield problem(("backoff_limit",), wrong, "Write `restart: on_failure`, or remove it", job.backoff_limit)
        for name, role in roles.items():
            if role.backoff_limit and (role.restart or job.restart) == "never":
                path = ("roles", name, "backoff_limit")
                yield problem(path, wrong, "Set restart, or remove it", role.backoff_limit)


def _end(job: TrainingJob, known: _Known) -> Iterator[Problem]:
    """Deadlines can pass, what is kept exists, and each of a few webhooks has an event."""
    limits = job.deadlines
    if known("deadlines.total", "deadlines.running"):
        for name in ("queue", "pending", "running", "no_progress"):
            seconds = getattr(limits, name)
            if seconds and seconds > limits.total:
                wrong = f"can never be reached: `total` ends the job after {format_duration(limits.total)}"
                fix = "Lower it, or raise deadlines.total"
                yield problem(("deadlines", name), wrong, fix, format_duration(seconds))
        if limits.no_progress and limits.running and limits.running < limits.no_progress <= limits.total:
            wrong = f"can never be reached: `running` ends the job after {format_duration(limits.running)}"
            fix = "Lower it, or raise deadlines.running"
            yield problem(("deadlines", "no_progress"), wrong, fix, format_duration(limits.no_progress))
    if job.on_end == "delete" and job.keep_for:
        wrong = "has no effect: `on_end: delete` removes the job"
        yield problem(("keep_for",), wrong, "Remove one of the two", format_duration(job.keep_for))
    if len(job.notify) > MAX_WEBHOOKS:
        wrong = f"has {len(job.notify)} webhooks"
        yield problem(("notify",), wrong, "Send to a service that distributes them", allowed=f"at most {MAX_WEBHOOKS}")
    for i, webhook in enumerate(job.notify):
        if not webhook.events:
            yield problem(("notify", i, "events"), "is empty: nothing is sent", "Name an event, or remove the webhook")


def _folders(job: TrainingJob, _known: _Known) -> Iterator[Problem]:
    """`output_dir` can be expanded, and the folders of outputs are different ones below it."""
    template, path = job.output_dir or "", ("output_dir",)
    if template.startswith(("~", "$")):
        yield problem(path, "is not expanded: no shell reads it", "Write the full path", repr(template))
    scheme, slashes, rest = template.partition(":/")
    if scheme == "file" and slashes:
        fix = f"Write the path, `/{rest.lstrip('/')}`"
        yield problem(path, "is a file:// URI, which not every program reads", fix, repr(template))
    elif slashes and scheme in _STORES and not rest.startswith("/"):
        yield problem(path, "has one slash after its scheme", f"Write `{scheme}://...`", repr(template))
    elif is_uri(template) and (not rest.strip("/") or (scheme in _STORES and rest.startswith("//"))):
        yield problem(path, "has no bucket", f"Write `{scheme}://bucket/folder`", repr(template))
    try:
        used = [part[1:] for part in Formatter().parse(template) if part[1] is not None]
    except ValueError:
        used = []
        yield problem(path, "has an unmatched brace", "Close it, or double it to use a plain brace", repr(template))
    for name, format_, conversion in used:
        if name not in _PLACEHOLDERS or format_ or conversion:
            full = f"{name}{f'!{conversion}' if conversion else ''}{f':{format_}' if format_ else ''}"
            allowed = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
            wrong = f"has the unknown placeholder {{{full}}}"
            yield problem(path, wrong, "Use one of these", repr(template), allowed)
    below: dict[Path, str] = {("outputs", "model"): job.outputs.model, ("outputs", "logs"): job.outputs.logs}
    if job.tensorboard:
        below["tensorboard", "log_dir"] = job.tensorboard.log_dir or ""
    for path_below, folder in below.items():
        if is_uri(folder):
            fix = "Write a relative path, and the URI in `output_dir`"
            yield problem(path_below, "is a URI, and a folder below `output_dir` is expected", fix, repr(folder))
    model, logs = (posixpath.normpath(folder) for folder in (job.outputs.model, job.outputs.logs))
    if model == logs:
        yield problem(("outputs",), f"has one folder, {model!r}, for model and logs", "Write two folders")


def _resources(job: TrainingJob, known: _Known) -> Iterator[Problem]:
    """Limits are not below requests, memory contains the shared one, and GPUs are asked for in one way."""
    memory_known = known("resources.memory", "resources.limits.memory", of_pods=True)
    gpus_known = known("resources.gpu", "resources.gpu_fraction", "resources.all_gpus", of_pods=True)
    for path, need in [((*path, "resources"), part.resources) for path, part in job.parts() if part.resources]:
        if need.cpu and need.limits.cpu and need.limits.cpu < need.cpu:
            wrong, fix = f"is below the request of {need.cpu:g} cores", f"Write at least {need.cpu:g}"
            yield problem((*path, "limits", "cpu"), wrong, fix, f"{need.limits.cpu:g}")
        if need.memory and need.limits.memory and need.limits.memory < need.memory:
            wrong, fix = f"is below the request of {format_bytes(need.memory)}", "Raise it, or lower the request"
            yield problem((*path, "limits", "memory"), wrong, fix, format_bytes(need.limits.memory))
        if memory_known and need.shared_memory and need.memory_limit and need.shared_memory > need.memory_limit:
            wrong = f"is above the memory limit of {format_bytes(need.memory_limit)}, which it counts against"
            fix = "Raise the memory limit, or lower it"
            yield problem((*path, "shared_memory"), wrong, fix, format_bytes(need.shared_memory))
        if not gpus_known:
            continue
        fields = [name for name in ("gpu", "gpu_fraction", "all_gpus") if getattr(need, name)]
        if fields[1:]:
            yield problem((*path, fields[1]), f"cannot be combined with {fields[0]}", "Remove one of the two")
        if need.gpu_vendor and need.gpu_resource:
            wrong = "cannot be combined with gpu_resource, which it stands for"
            yield problem((*path, "gpu_vendor"), wrong, "Keep one of the two", repr(need.gpu_vendor))
        for field, what in (("gpu_type", "type"), ("gpu_resource", "resource"), ("gpu_vendor", "vendor")):
            if (value := getattr(need, field)) and not fields:
                wrong, fix = f"names a {what}, and no GPU is requested", f"Add `gpu: 1`, or remove {field}"
                yield problem((*path, field), wrong, fix, repr(value))


def _programs(job: TrainingJob, known: _Known) -> Iterator[Problem]:
    """Programs and arguments are single words that no shell has to read, and start in folders."""
    for path, part in job.parts():
        first, *rest = part.command or ("python",)
        here: Path = (*path, "command", 0)
        if not first.strip():
            yield problem(here, "is empty", "Name the program first", repr(first))
        elif not rest and " " in first.strip() and "/" not in first.split()[0]:
            fix = "Write [{}]".format(", ".join(words(first)))
            yield problem(here, "is a whole command line, not a program", fix, repr(first))
        folder = part.working_dir or ""
        if folder.startswith(("~", "$")):
            wrong, fix = "is not expanded: no shell reads it", "Write the full path"
            yield problem((*path, "working_dir"), wrong, fix, repr(folder))
        if is_uri(folder):
            wrong = "is a URI; no process can start there"
            yield problem((*path, "working_dir"), wrong, "Write a path", repr(folder))
        program = posixpath.basename((part.command or job.command or ("",))[0])
        for i, text in enumerate(part.args or ()) if known("command") else ():
            here = (*path, "args", i)
            if option := _OPTION.fullmatch(text):
                fix = "Write [{}, {}]".format(option[1], option[2] if len(option[2]) < 40 else "…")
                yield problem(here, "is an option and its value in one argument", fix, shown(text))
            elif program and program not in _SHELLS and _UNEXPANDED.fullmatch(text):
                fix = "Let the program read the variable, or run it by a shell"
                yield problem(here, "is not expanded: no shell reads it", fix, shown(text))


def _environment(job: TrainingJob, _known: _Known) -> Iterator[Problem]:
    """Variables have one source each and no reserved name; Linux can pass them and the arguments to a program."""
    for path, part in job.parts():
        texts: dict[Path, str] = {
            (*path, field, i): text
            for field in ("command", "args")
            for i, text in enumerate(getattr(part, field) or ())
        }
        for name, value in part.env.items():
            here = (*path, "env", name)
            if _RESERVED_ENV.fullmatch(name):
                allowed = "names other than TF_CONFIG and TFSTEPS_*"
                yield problem(here, "is set by tfsteps", "Use another name", allowed=allowed)
            if not isinstance(value, EnvSource):
                texts[here] = f"{name}={value}"
                continue
            sources = [source for source in ("secret", "config_map", "field") if getattr(value, source)]
            if len(sources) != 1:
                has, allowed = " and ".join(sources) or "no source", "exactly one of secret, config_map, field"
                yield problem(here, f"has {has}", f"{'Keep' if sources else 'Add'} one of them", allowed=allowed)
            elif sources != ["field"] and not value.key:
                yield problem(here, f"does not say which key of the {sources[0]}", "Add `key: <name>`")
            elif sources == ["field"] and value.key:
                yield problem((*here, "key"), "cannot be combined with field", "Remove it", repr(value.key))
        for here, text in texts.items():
            if (size := len(text.encode(errors="surrogateescape"))) > _LONGEST:
                fix = "Write it to a file, and pass the file's path"
                yield problem(here, f"has {size:,} bytes", fix, allowed=f"at most {_LONGEST:,}")


def _volumes(job: TrainingJob, known: _Known) -> Iterator[Problem]:
    """Each volume has one source that can do what it asks for, and each mount path of a replica one volume."""
    sources_known = known("volumes.*.empty_dir", "volumes.*.pvc", of_pods=True)
    mounted_by_all: dict[str, str] = {}
    for path, part in job.parts():
        used = dict(mounted_by_all) if path else mounted_by_all
        need = part.resources or job.resources
        for i, volume in enumerate(part.volumes):
            here = (*path, "volumes", i)
            sources = [name for name in _VOLUME_SOURCES if getattr(volume, name)]
            if len(sources) != 1:
                has, allowed = " and ".join(sources) or "no source", f"exactly one of {', '.join(_VOLUME_SOURCES)}"
                yield problem(here, f"has {has}", f"{'Keep' if sources else 'Add'} one of them", allowed=allowed)
            # the folder of a person is below `mount`
            mount = volume.mount.rstrip("/") + ("/{creator}" if volume.personal else "")
            if mount in used:
                wrong = f"is already used by {used[mount]}"
                yield problem((*here, "mount"), wrong, "Choose another path", repr(volume.mount))
            if mount == "/dev/shm" and need.shared_memory:  # noqa: S108  a path of the container
                wrong, fix = "is the mount path of shared_memory", "Remove the volume or shared_memory"
                yield problem((*here, "mount"), wrong, fix, repr(volume.mount))
            used.setdefault(mount, dotted(here))
            if volume.personal and not volume.pvc and sources_known:
                yield problem((*here, "personal"), "requires pvc", "Remove it", "true")
            if volume.in_memory and not volume.empty_dir and sources_known:
                fix = "Add `empty_dir: <size>`, or remove it"
                yield problem((*here, "in_memory"), "requires empty_dir", fix, "true")


def _scheduling(job: TrainingJob, known: _Known) -> Iterator[Problem]:
    """Labels, annotations, node selectors and tolerations have Kubernetes' syntax, and no names that tfsteps sets."""
    named: dict[Path, dict[str, str]] = {("labels",): job.labels, ("annotations",): job.annotations}
    named |= {(*path, "node_selector"): part.node_selector for path, part in job.parts()}
    for path, pairs in named.items():
        for key, value in pairs.items():
            here, of_job = (*path, key), path[-1] != "node_selector"
            if not LABEL_KEY.fullmatch(key):
                yield problem(here, "is not a label key", "Change the key", allowed=_KEY_ALLOWED)
            elif of_job and (key.startswith("tfsteps.dev/") or key == "app.kubernetes.io/managed-by"):
                yield problem(here, "is set by tfsteps", "Use a domain of your own")
            if path != ("annotations",) and not LABEL_VALUE.fullmatch(value):
                yield problem(here, "is not a label value", "Change the value", shown(value), _VALUE_ALLOWED)
    if not known("tolerations.*.operator", "tolerations.*.effect", of_pods=True):
        return
    parts = job.parts()
    for here, item in [
        ((*path, "tolerations", i), item) for path, part in parts for i, item in enumerate(part.tolerations)
    ]:
        if item.operator == "Exists" and item.value:
            yield problem((*here, "value"), "cannot be combined with operator Exists", "Remove it", repr(item.value))
        if item.operator == "Equal" and not item.key:
            yield problem((*here, "key"), "is missing", "Add it, or write `operator: Exists`")
        if item.key and not LABEL_KEY.fullmatch(item.key):
            yield problem((*here, "key"), "is not a taint key", "Change it", shown(item.key), _KEY_ALLOWED)
        if item.value and not LABEL_VALUE.fullmatch(item.value):
            yield problem((*here, "value"), "is not a taint value", "Change it", shown(item.value), _VALUE_ALLOWED)
        if item.seconds and item.effect != "NoExecute":
            wrong, fix = "requires effect NoExecute", "Write `effect: NoExecute`, or remove it"
            yield problem((*here, "seconds"), wrong, fix, f"{item.seconds:g}")


def _pod_patches(job: TrainingJob, _known: _Known) -> Iterator[Problem]:
    """A pod patch uses the field names of Kubernetes, and does not set what tfsteps sets."""
    patches = [((*path, "pod", key), value) for path, part in job.parts() for key, value in part.pod.items()]
    for path, fields in patches:
        if path[-1] not in ("metadata", "spec"):
            wrong, fix = "is not part of a pod template", "Put it below spec or metadata"
            yield problem(path, wrong, fix, allowed="metadata, spec")
            continue
        if not isinstance(fields, dict):
            yield problem(path, "is not a mapping", "Write `key: value` lines below it")
            continue
        for key in fields:
            if key == "restartPolicy":
                yield problem((*path, key), "is set by `restart`", "Remove it, and set restart")
            elif "_" in str(key):
                head, *tail = str(key).split("_")
                camel = head + "".join(part.capitalize() for part in tail)
                yield problem((*path, key), "is not how Kubernetes spells its fields", f"Write `{camel}`")
        for kind in ("containers", "initContainers"):
            for i, container in _entries(fields.get(kind)):
                here = (*path, kind, i)
                if kind == "initContainers" or container.get("name") != CONTAINER:
                    if not container.get("image"):
                        yield problem(here, "has no image", f"Add `image: <name>`, or name the container {CONTAINER}")
                    continue
                for key, field in _FIELDS_OF_JOB.items():
                    if key in container:
                        yield problem((*here, key), f"is set by `{field}`", f"Remove it, and set {field}")
                for k, variable in _entries(container.get("env")):
                    name = variable.get("name")
                    if isinstance(name, str) and _RESERVED_ENV.fullmatch(name):
                        path_of_name = (*here, "env", k, "name")
                        yield problem(path_of_name, "is set by tfsteps", "Use another name", shown(name))


def _entries(listed: Any) -> list[tuple[int, dict[str, Any]]]:
    """Return the mappings of a list with their positions; empty for anything else: the API server refuses it."""
    items = listed if isinstance(listed, list) else []
    return [(i, item) for i, item in enumerate(items) if isinstance(item, dict)]

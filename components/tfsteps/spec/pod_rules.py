"""Rules for a replica's pod. Each is a generator of problems of a whole job."""

import posixpath
import re
from collections.abc import Iterator

from tfsteps.spec.pod import EnvSource, Resources
from tfsteps.spec.problems import Path, Problem, dotted, problem, shown
from tfsteps.spec.scalars import words
from tfsteps.spec.types import TrainingJob
from tfsteps.spec.units import format_bytes

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


def _resources(job: TrainingJob) -> Iterator[tuple[Path, Resources]]:
    for path, part in job.parts():
        if part.resources:
            yield (*path, "resources"), part.resources


def limits(job: TrainingJob) -> Iterator[Problem]:
    """Limits are at least as large as requests."""
    for path, need in _resources(job):
        if need.cpu and need.limits.cpu and need.limits.cpu < need.cpu:
            wrong, fix = f"is below the request of {need.cpu:g} cores", f"Write at least {need.cpu:g}"
            yield problem((*path, "limits", "cpu"), wrong, fix, f"{need.limits.cpu:g}")
        if need.memory and need.limits.memory and need.limits.memory < need.memory:
            wrong, fix = f"is below the request of {format_bytes(need.memory)}", "Raise it, or lower the request"
            yield problem((*path, "limits", "memory"), wrong, fix, format_bytes(need.limits.memory))


def shared_memory(job: TrainingJob) -> Iterator[Problem]:
    """Shared memory fits into the memory limit."""
    for path, need in _resources(job):
        if need.shared_memory and need.memory_limit and need.shared_memory > need.memory_limit:
            wrong = f"is above the memory limit of {format_bytes(need.memory_limit)}, which it counts against"
            fix = "Raise the memory limit, or lower it"
            yield problem((*path, "shared_memory"), wrong, fix, format_bytes(need.shared_memory))


def gpus(job: TrainingJob) -> Iterator[Problem]:
    """Type, resource and vendor require a GPU, whole GPUs, a fraction and all GPUs exclude one another."""
    for path, need in _resources(job):
        wanted = [name for name in ("gpu", "gpu_fraction", "all_gpus") if getattr(need, name)]
        if wanted[1:]:
            yield problem((*path, wanted[1]), f"cannot be combined with {wanted[0]}", "Remove one of the two")
        if need.gpu_vendor and need.gpu_resource:
            wrong = "cannot be combined with gpu_resource, which it stands for"
            yield problem((*path, "gpu_vendor"), wrong, "Keep one of the two", repr(need.gpu_vendor))
        for field, what in (("gpu_type", "type"), ("gpu_resource", "resource"), ("gpu_vendor", "vendor")):
            if (value := getattr(need, field)) and not wanted:
                wrong, fix = f"names a {what}, and no GPU is requested", f"Add `gpu: 1`, or remove {field}"
                yield problem((*path, field), wrong, fix, repr(value))


def programs(job: TrainingJob) -> Iterator[Problem]:
    """A command starts with a program, not with a command line. `working_dir` is not expanded by a shell."""
    for path, part in job.parts():
        first, *rest = part.command or ("python",)
        here = (*path, "command", 0)
        if not first.strip():
            yield problem(here, "is empty", "Name the program first", repr(first))
        elif not rest and " " in first.strip() and "/" not in first.split()[0]:
            fix = "Write [{}]".format(", ".join(words(first)))
            yield problem(here, "is a whole command line, not a program", fix, repr(first))
        if part.working_dir and part.working_dir.startswith(("~", "$")):
            wrong, fix = "is not expanded: no shell reads it", "Write the full path"
            yield problem((*path, "working_dir"), wrong, fix, repr(part.working_dir))


def arguments(job: TrainingJob) -> Iterator[Problem]:
    """An option and its value are separate arguments. Variables are not expanded without a shell."""
    for path, part in job.parts():
        program = posixpath.basename((part.command or job.command or ("",))[0])
        for i, text in enumerate(part.args or ()):
            here = (*path, "args", i)
            if option := _OPTION.fullmatch(text):
                fix = "Write [{}, {}]".format(option[1], option[2] if len(option[2]) < 40 else "…")
                yield problem(here, "is an option and its value in one argument", fix, shown(text))
            elif program and program not in _SHELLS and _UNEXPANDED.fullmatch(text):
                fix = "Let the program read the variable, or run it by a shell"
                yield problem(here, "is not expanded: no shell reads it", fix, shown(text))


def lengths(job: TrainingJob) -> Iterator[Problem]:
    """Linux starts no program with a longer argument or variable."""
    for path, part in job.parts():
        texts = {
            **{
                (*path, field, i): text
                for field in ("command", "args")
                for i, text in enumerate(getattr(part, field) or ())
            },
            **{(*path, "env", name): f"{name}={text}" for name, text in part.env.items() if isinstance(text, str)},
        }
        for here, text in texts.items():
            if (size := len(text.encode(errors="surrogateescape"))) > _LONGEST:
                fix = "Write it to a file, and pass the file's path"
                yield problem(here, f"has {size:,} bytes", fix, allowed=f"at most {_LONGEST:,}")


def environment(job: TrainingJob) -> Iterator[Problem]:
    """Each variable has exactly one source. Variables that tfsteps sets are reserved."""
    for path, part in job.parts():
        for name, value in part.env.items():
            if _RESERVED_ENV.fullmatch(name):
                allowed = "names other than TF_CONFIG and TFSTEPS_*"
                yield problem((*path, "env", name), "is set by tfsteps", "Use another name", allowed=allowed)
            if isinstance(value, EnvSource):
                here = (*path, "env", name)
                sources = [source for source in ("secret", "config_map", "field") if getattr(value, source)]
                if len(sources) != 1:
                    has, allowed = " and ".join(sources) or "no source", "exactly one of secret, config_map, field"
                    fix = "Keep one of them" if sources else "Add one of them"
                    yield problem(here, f"has {has}", fix, allowed=allowed)
                elif sources != ["field"] and not value.key:
                    yield problem(here, f"does not say which key of the {sources[0]}", "Add `key: <name>`")
                elif sources == ["field"] and value.key:
                    yield problem((*here, "key"), "cannot be combined with field", "Remove it", repr(value.key))


def volumes(job: TrainingJob) -> Iterator[Problem]:
    """Each volume has exactly one source, and each mount path of a replica one volume."""
    mounted_by_all: dict[str, str] = {}
    for path, part in job.parts():
        used = dict(mounted_by_all) if path else mounted_by_all
        need = part.resources or job.resources
        for i, volume in enumerate(part.volumes):
            sources = [name for name in _VOLUME_SOURCES if getattr(volume, name)]
            if len(sources) != 1:
                has, allowed = " and ".join(sources) or "no source", f"exactly one of {', '.join(_VOLUME_SOURCES)}"
                fix = "Keep one of them" if sources else "Add one of them"
                yield problem((*path, "volumes", i), f"has {has}", fix, allowed=allowed)
            # the folder of a person is below `mount`
            mount = volume.mount.rstrip("/") + ("/{creator}" if volume.personal else "")
            here = (*path, "volumes", i, "mount")
            if mount in used:
                yield problem(here, f"is already used by {used[mount]}", "Choose another path", repr(volume.mount))
            if mount == "/dev/shm" and need.shared_memory:  # noqa: S108  a path of the container
                fix = "Remove the volume or shared_memory"
                yield problem(here, "is the mount path of shared_memory", fix, repr(volume.mount))
            used.setdefault(mount, dotted((*path, "volumes", i)))


def modes(job: TrainingJob) -> Iterator[Problem]:
    """Only a scratch folder can be in memory, and only a claim has personal folders."""
    for path, part in job.parts():
        for i, volume in enumerate(part.volumes):
            if volume.personal and not volume.pvc:
                yield problem((*path, "volumes", i, "personal"), "requires pvc", "Remove it", "true")
            if volume.in_memory and not volume.empty_dir:
                fix = "Add `empty_dir: <size>`, or remove it"
                yield problem((*path, "volumes", i, "in_memory"), "requires empty_dir", fix, "true")


def labels(job: TrainingJob) -> Iterator[Problem]:
    """Labels, annotations and node selectors have Kubernetes' syntax. The names that tfsteps sets are reserved."""
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


def tolerations(job: TrainingJob) -> Iterator[Problem]:
    """Tolerations have Kubernetes' syntax."""
    for path, part in job.parts():
        for i, item in enumerate(part.tolerations):
            here = (*path, "tolerations", i)
            if item.operator == "Exists" and item.value:
                yield problem(
                    (*here, "value"), "cannot be combined with operator Exists", "Remove it", repr(item.value)
                )
            if item.operator == "Equal" and not item.key:
                yield problem((*here, "key"), "is missing", "Add it, or write `operator: Exists`")
            if item.key and not LABEL_KEY.fullmatch(item.key):
                yield problem((*here, "key"), "is not a taint key", "Change it", shown(item.key), _KEY_ALLOWED)
            if item.value and not LABEL_VALUE.fullmatch(item.value):
                yield problem((*here, "value"), "is not a taint value", "Change it", shown(item.value), _VALUE_ALLOWED)
            if item.seconds and item.effect != "NoExecute":
                wrong, fix = "requires effect NoExecute", "Write `effect: NoExecute`, or remove it"
                yield problem((*here, "seconds"), wrong, fix, f"{item.seconds:g}")


def patches(job: TrainingJob) -> Iterator[Problem]:
    """A pod patch uses the field names of Kubernetes, and does not set what tfsteps sets."""
    for path, part in job.parts():
        for key, value in part.pod.items():
            here = (*path, "pod", key)
            if key not in ("metadata", "spec"):
                wrong, fix = "is not part of a pod template", "Put it below spec or metadata"
                yield problem(here, wrong, fix, allowed="metadata, spec")
            elif not isinstance(value, dict):
                yield problem(here, "is not a mapping", "Write `key: value` lines below it")
            else:
                yield from _patched(here, value)
                yield from _containers(here, value)


def _containers(path: Path, fields: dict[str, object]) -> Iterator[Problem]:
    """Check the containers of a patch: `tensorflow`, which tfsteps starts, and others, which need an image."""
    for kind in ("containers", "initContainers"):
        listed = fields.get(kind)
        for i, container in enumerate(listed if isinstance(listed, list) else ()):
            if not isinstance(container, dict):
                continue
            here = (*path, kind, i)
            if kind == "containers" and container.get("name") == CONTAINER:
                yield from _our_container(here, container)
            elif not container.get("image"):
                yield problem(here, "has no image", f"Add `image: <name>`, or name the container {CONTAINER}")


def _our_container(path: Path, container: dict[str, object]) -> Iterator[Problem]:
    for key, field in _FIELDS_OF_JOB.items():
        if key in container:
            yield problem((*path, key), f"is set by `{field}`", f"Remove it, and set {field}")
    env = container.get("env")
    for i, variable in enumerate(env if isinstance(env, list) else ()):
        name = variable.get("name") if isinstance(variable, dict) else None
        if isinstance(name, str) and _RESERVED_ENV.fullmatch(name):
            yield problem((*path, "env", i, "name"), "is set by tfsteps", "Use another name", shown(name))


def _patched(path: Path, fields: dict[str, object]) -> Iterator[Problem]:
    for key in fields:
        if key == "restartPolicy":
            yield problem((*path, key), "is set by `restart`", "Remove it, and set restart")
        elif "_" in str(key):
            head, *tail = str(key).split("_")
            camel = head + "".join(part.capitalize() for part in tail)
            yield problem((*path, key), "is not how Kubernetes spells its fields", f"Write `{camel}`")

"""Features of a job that a TrainJob cannot express. Pure.

All replicas share one pod template, from the runtime, and a TrainJob can set only a few of its fields. The checks are
those of the newest version of Trainer, unless a version is named: which one a cluster has is known when it is asked.
"""

from collections.abc import Iterator, Mapping

from tfsteps.spec import Problem, TrainingJob
from tfsteps.spec.problems import shown
from tfsteps.systems.features import FieldUses, Use
from tfsteps.systems.kubernetes.render.command_wrapper import unexpanded
from tfsteps.systems.kubernetes.render.pod_template import CONTAINER
from tfsteps.systems.trainjob.overrides import VERSIONS, Version

_METADATA = ("labels", "annotations")
_TRAINER = ("name", "image", "workingDir", "env", "resources")  # of the container, by `spec.trainer`
_PROGRAM = ("command", "args")
_SHARED = ("image", "working_dir", "resources", "volumes", "node_selector", "tolerations", "restart", "pod")
SETTABLE = (
    f"{' and '.join(_METADATA)}, {', '.join(VERSIONS[0].pod)}, "
    f"and of its container {', '.join([*_TRAINER[1:], *VERSIONS[0].container])}"
)
RUNTIME = "put it into a runtime of your own that `systems.trainjob.runtime` names, or use --system jobset"


def differences(job: TrainingJob) -> Iterator[Use]:
    """Yield the fields of roles that differ from the first role."""
    roles = dict(job.roles.items())
    for field in _SHARED:
        values = {name: getattr(role, field) or getattr(job, field) for name, role in roles.items()}
        first = next(iter(values.values()))
        yield from (Use(("roles", name, field)) for name, value in values.items() if value != first)


def other_patches(job: TrainingJob, version: Version = VERSIONS[0]) -> Iterator[Use]:
    """Yield the fields of pod patches that a TrainJob of a version cannot set."""
    for level, part in job.parts():
        metadata, spec = part.pod.get("metadata") or {}, part.pod.get("spec") or {}
        settable = _METADATA if version.metadata else ()
        yield from (Use((*level, "pod", "metadata", key)) for key in metadata if key not in settable)
        path = (*level, "pod", "spec")
        yield from (Use((*path, key)) for key in spec if key not in (*version.pod, "containers"))
        for container in spec.get("containers") or []:
            name = container.get("name", "") if isinstance(container, Mapping) else ""
            known = (*_TRAINER, *_PROGRAM, *version.container)
            keys = [key for key in container if key not in known] if name == CONTAINER else [name]
            yield from (Use((*path, "containers", key)) for key in keys)


def unsupported(job: TrainingJob, version: Version) -> list[Use]:
    """Return the fields of a job that a TrainJob of a version cannot set, and one of the newest version can."""
    pull_secrets = [] if "imagePullSecrets" in version.pod else FieldUses(["image_pull_secrets"])(job)
    return [*pull_secrets, *other_patches(job, version)]


def spec_problems(job: TrainingJob) -> Iterator[Problem]:
    """Yield the problems that are none of a whole feature."""
    of_roles = {name for _, role in job.roles.items() for name in role.env}
    yield from unexpanded(job, {"TF_CONFIG", "TFSTEPS_ROLE", "TFSTEPS_INDEX"} | of_roles - set(job.env))
    if job.image_pull_policy:
        yield Problem(
            path=("image_pull_policy",),
            value=shown(job.image_pull_policy),
            wrong="is not supported: a TrainJob cannot set when images are pulled",
            fix=f"Remove it, {RUNTIME}",
        )
    others = [name for name, _ in job.roles.items() if name in ("ps", "evaluator")]
    if job.success == "all_workers" and others:
        wrong = f"would also wait for the {others[0]}, because all replicas are one Job"
        fix = "Write `success: chief`, or use --system jobset"
        yield Problem(path=("success",), value=job.success, wrong=wrong, fix=fix)

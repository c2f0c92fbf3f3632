"""Features of a job that a TrainJob of Trainer 2.0 cannot express. Pure.

All replicas share one pod template, from the runtime, and a TrainJob can override only a few of its fields.
"""

from collections.abc import Iterator, Mapping

from tfsteps.spec import Problem, TrainingJob
from tfsteps.systems.features import Use, job_and_roles
from tfsteps.systems.kubernetes.render.pod_template import CONTAINER

SPEC = ("serviceAccountName", "nodeSelector", "tolerations", "volumes", "schedulingGates")
"""Fields of a pod's spec that `podSpecOverrides` supports, beside those of its container."""

_CONTAINER = ("name", "image", "command", "args", "workingDir", "env", "resources", "volumeMounts")
OVERRIDABLE = f"{', '.join(SPEC)}, and of its container {', '.join(_CONTAINER[1:])}"
_SHARED = ("image", "working_dir", "resources", "volumes", "node_selector", "tolerations", "restart", "pod")


def differences(job: TrainingJob) -> Iterator[Use]:
    """Yield the fields of roles that differ from the first role."""
    roles = dict(job.roles.items())
    for field in _SHARED:
        values = {name: getattr(role, field) or getattr(job, field) for name, role in roles.items()}
        first = next(iter(values.values()))
        yield from (Use(("roles", name, field)) for name, value in values.items() if value != first)


def other_patches(job: TrainingJob) -> Iterator[Use]:
    """Yield the fields of pod patches that a TrainJob cannot override."""
    for level, part in job_and_roles(job):
        spec = part.pod.get("spec") or {}
        path = (*level, "pod", "spec")
        if part.pod.get("metadata"):
            yield Use((*level, "pod", "metadata"))
        yield from (Use((*path, key)) for key in spec if key not in (*SPEC, "containers"))
        for container in spec.get("containers") or []:
            name = container.get("name", "") if isinstance(container, Mapping) else ""
            keys = [key for key in container if key not in _CONTAINER] if name == CONTAINER else [name]
            yield from (Use((*path, "containers", key)) for key in keys)


def success_problems(job: TrainingJob) -> list[Problem]:
    """Return a problem if `success: all_workers` is set and there are other roles: all replicas are one Job."""
    others = [name for name, _ in job.roles.items() if name in ("ps", "evaluator")]
    if job.success != "all_workers" or not others:
        return []
    wrong = f"would also wait for the {others[0]}, because all replicas are one Job"
    fix = "Write `success: chief`, or use --system jobset"
    return [Problem(path=("success",), value=job.success, wrong=wrong, fix=fix)]

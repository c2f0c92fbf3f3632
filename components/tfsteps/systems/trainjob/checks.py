"""What a TrainJob of Trainer 2.0 cannot say. Pure.

All replicas share one pod template, that of the runtime, and a TrainJob overrides few of its fields.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.spec import Problem, TrainingJob
from tfsteps.spec.problems import Path

SPEC = ("serviceAccountName", "nodeSelector", "tolerations", "volumes", "schedulingGates")
"""Fields of a pod's spec that `podSpecOverrides` knows, beside those of its container."""

_CONTAINER = ("name", "image", "command", "args", "workingDir", "env", "resources", "volumeMounts")
_SHARED = ("image", "working_dir", "resources", "volumes", "node_selector", "tolerations", "restart", "pod")
_NEAREST = "or use --system jobset"
_OWN_FIELDS: Mapping[str | int, tuple[Path, str]] = {
    "imagePullSecrets": (("image_pull_secrets",), f"Put them on the pods' ServiceAccount, {_NEAREST}"),
    "imagePullPolicy": (("image_pull_policy",), f"Leave it out, {_NEAREST}"),
}
_RUNTIME = f"Put it into a runtime of your own and name that in `systems.trainjob.runtime`, {_NEAREST}"


def role_problems(job: TrainingJob) -> Iterator[Problem]:
    """Yield what roles have of their own that all of them must share, and what is missing."""
    roles = dict(job.roles.items())
    for field in _SHARED:
        values = {name: getattr(role, field) or getattr(job, field) for name, role in roles.items()}
        first = next(iter(values.values()))
        for name, value in values.items():
            if value != first:
                wrong = "is not that of the other roles, and all replicas of a TrainJob share one pod template"
                yield Problem(path=("roles", name, field), wrong=wrong, fix=f"Give all roles the same, {_NEAREST}")
    for name, role in roles.items():
        if role.backoff_limit is not None:
            wrong = "cannot be told apart from the other roles': all are one Job"
            yield Problem(
                path=("roles", name, "backoff_limit"), wrong=wrong, fix=f"Set `backoff_limit` of the job, {_NEAREST}"
            )
        if not job.resolved_roles()[name].command:
            wrong = "is missing; the runtime's command makes TF_CONFIG, so the image's own is not run"
            yield Problem(
                path=("roles", name, "command"), wrong=wrong, fix="Add `command:` with what the image's entrypoint does"
            )


def job_problems(job: TrainingJob) -> Iterator[Problem]:
    """Yield what the runtimes cannot do for a job."""
    for name, role in job.roles.items():
        if job.success == "all_workers" and name in ("ps", "evaluator") and role:
            wrong = f"would have to wait for the {name} too, for all replicas are one Job"
            yield Problem(path=("success",), value=job.success, wrong=wrong, fix=f"Write `success: chief`, {_NEAREST}")
            break
    if job.priority is not None:
        wrong = "is a number, and Kubernetes goes by PriorityClasses, which only a runtime can name"
        yield Problem(path=("priority",), value=str(job.priority), wrong=wrong, fix=f"Leave it out. {_RUNTIME}")
    if job.gang:
        wrong = "is for the runtime to say: a TrainJob has no word for it"
        yield Problem(path=("gang",), wrong=wrong, fix=f"Leave it out. {_RUNTIME}")


def pod_problems(job: TrainingJob, template: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what of the pod template a TrainJob cannot carry.

    Args:
        job: The job.
        template: Of all its replicas, patches merged.
    """
    known = f"{', '.join(SPEC)}, and of its container {', '.join(_CONTAINER[1:])}"
    containers = template["spec"]["containers"]
    extra: list[Path] = [("pod", "spec", key) for key in template["spec"] if key not in (*SPEC, "containers")]
    extra += [("pod", "spec", "containers", key) for key in containers[0] if key not in _CONTAINER]
    extra += [("pod", "spec", "containers", each["name"]) for each in containers[1:]]
    extra += [("pod", "metadata")] if job.pod.get("metadata") else []
    for patched in extra:
        path, fix = _OWN_FIELDS.get(patched[-1], (patched, _RUNTIME))
        yield Problem(path=path, wrong="is nothing that a TrainJob can override", allowed=known, fix=fix)

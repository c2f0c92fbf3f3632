"""What a TrainJob can set of its pods: by another field of `spec` in each version of Kubeflow Trainer. Pure.

All replicas share one pod template, from the runtime, and a TrainJob can set only a few of its fields. The checks of a
job are those of the newest version of Trainer, unless a version is named: which one a cluster has is known when it is
asked.

Facts: the CRDs of Trainer 2.0.0, 2.1.0, 2.2.1 and 2.3.0. All serve the API version v1alpha1, and the API server refuses
the fields of the other versions: `strict decoding error: unknown field "spec.podSpecOverrides"`.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.spec import Problem, TrainingJob
from tfsteps.spec.problems import shown
from tfsteps.systems.features import FieldUses, Use
from tfsteps.systems.kubernetes.render import pod_template
from tfsteps.systems.kubernetes.render.command_wrapper import unexpanded

CONTAINER = "node"
"""Trainer looks for a container of this name, in a replicated job of this name."""

MANAGER = "tfsteps.dev/launcher"
"""The manager of the patch of tfsteps among `runtimePatches`: Kueue adds its own."""

_UNKNOWN = re.compile(r'unknown field "([^"]+)"')
_METADATA = ("labels", "annotations")
_TRAINER = ("name", "image", "workingDir", "env", "resources")  # of the container, by `spec.trainer`
_PROGRAM = ("command", "args")
_SHARED = ("image", "working_dir", "resources", "volumes", "node_selector", "tolerations", "restart", "pod")
RUNTIME = "put it into a runtime of your own that `systems.trainjob.runtime` names, or use --system jobset"


class Version(msgspec.Struct, frozen=True):
    """What TrainJobs of some versions of Trainer can set of their pods.

    Attributes:
        trainer: The versions, for messages: what the cluster's may be when this one is tried.
        field: The field of `spec` for it; no other version has this field.
        pod: Fields of the pods' spec, containers left out.
        container: Fields of the container, beside those that `spec.trainer` sets in every version.
        metadata: Whether labels and annotations of the pods can be set.
    """

    trainer: str
    field: str
    pod: tuple[str, ...]
    container: tuple[str, ...] = ("volumeMounts",)
    metadata: bool = True


_POD = ("serviceAccountName", "nodeSelector", "tolerations", "volumes", "schedulingGates")
_POD_2_1 = (*_POD, "affinity", "imagePullSecrets")
_NEWEST = Version(
    "2.2 or newer",
    "runtimePatches",
    (*_POD_2_1, "securityContext", "terminationGracePeriodSeconds"),  # the last one from 2.3 on
    ("volumeMounts", "securityContext"),
)
VERSIONS = (
    _NEWEST,
    Version("2.1 or older", "podTemplateOverrides", _POD_2_1),
    Version("2.0", "podSpecOverrides", _POD, metadata=False),
)
"""The versions, newest first."""

FIELDS = tuple(version.field for version in VERSIONS)
SETTABLE = (
    f"{' and '.join(_METADATA)}, {', '.join(VERSIONS[0].pod)}, "
    f"and of its container {', '.join([*_TRAINER[1:], *VERSIONS[0].container])}"
)


def overrides(template: Mapping[str, Any], version: Version = _NEWEST) -> dict[str, Any]:
    """Return the field of `spec` that sets what a version can set of a pod template; empty = there is nothing to set.

    Args:
        template: A pod template; its first container is the one that trains, whatever its name.
        version: Of Trainer.
    """
    pod = template.get("spec") or {}
    spec = {key: pod[key] for key in version.pod if key in pod}
    container: Mapping[str, Any] = next(iter(pod.get("containers") or []), {})
    if fields := {key: container[key] for key in version.container if key in container}:
        spec["containers"] = [{"name": CONTAINER, **fields}]
    metadata = (template.get("metadata") or {}) if version.metadata else {}
    parts = {key: value for key, value in (("metadata", metadata), ("spec", spec)) if value}
    return {version.field: [_entry(version, parts)]} if parts else {}


def _entry(version: Version, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a version's list for `parts` of the pod template."""
    if version is _NEWEST:
        job = {"name": CONTAINER, "template": {"spec": {"template": parts}}}
        return {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}
    return {"targetJobs": [{"name": CONTAINER}], **(parts if version.metadata else parts["spec"])}


def overridden(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the pod template that `spec` of a TrainJob of any version sets; the inverse of `overrides`."""
    for patch in spec.get("runtimePatches") or []:
        if patch["manager"] == MANAGER:
            [job] = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
            template: Mapping[str, Any] = job["template"]["spec"]["template"]
            return template
    for entry in spec.get("podTemplateOverrides") or []:
        return {key: value for key, value in entry.items() if key != "targetJobs"}
    for entry in spec.get("podSpecOverrides") or []:
        return {"spec": {key: value for key, value in entry.items() if key != "targetJobs"}}
    return {}


def unknown_fields(refusal: str) -> list[str]:
    """Return the fields of `VERSIONS` that the API server does not know, by its `refusal`."""
    ours = {*FIELDS, *_NEWEST.pod, *_NEWEST.container}
    return [name for path in _UNKNOWN.findall(refusal) if (name := path.rpartition(".")[2]) in ours]


def older(spec: Mapping[str, Any], refusal: str) -> Version | None:
    """Return the version before that of `spec`, if a `refusal` says that the cluster lacks the field; else None."""
    unknown = unknown_fields(refusal)
    for version, before in itertools.pairwise(VERSIONS):
        if version.field in spec and version.field in unknown:
            return before
    return None


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
            keys = [key for key in container if key not in known] if name == pod_template.CONTAINER else [name]
            yield from (Use((*path, "containers", key)) for key in keys)


def unsupported(job: TrainingJob, version: Version) -> list[Use]:
    """Return the fields of a job that a TrainJob of a version cannot set, and one of the newest version can."""
    pull_secrets = [] if "imagePullSecrets" in version.pod else FieldUses(["image_pull_secrets"])(job)
    return [*pull_secrets, *other_patches(job, version)]


def field_problems(job: TrainingJob) -> Iterator[Problem]:
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

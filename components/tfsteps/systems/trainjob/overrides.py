"""What a TrainJob can set of its pods: by another field of `spec` in each version of Kubeflow Trainer. Pure.

Facts: the CRDs of Trainer 2.0.0, 2.1.0, 2.2.1 and 2.3.0. All serve the API version v1alpha1, and the API server refuses
the fields of the other versions: `strict decoding error: unknown field "spec.podSpecOverrides"`.
"""

import itertools
import re
from collections.abc import Mapping
from typing import Any

import msgspec

CONTAINER = "node"
"""Trainer looks for a container of this name, in a replicated job of this name."""

MANAGER = "tfsteps.dev/launcher"
"""The manager of the patch of tfsteps among `runtimePatches`: Kueue adds its own."""

_UNKNOWN = re.compile(r'unknown field "([^"]+)"')


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

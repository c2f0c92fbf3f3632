"""Gang scheduling: all replicas of a job start together, or none. Pure.

A PodGroup of scheduler-plugins sets how many pods must fit at once, a label on the pods names their group, and
`schedulerName` names a scheduler that supports groups: the default scheduler does not. Facts:
kubernetes-sigs/scheduler-plugins 0.28.9, `pkg/coscheduling`.
"""

from collections.abc import Mapping
from typing import Any

from tfsteps.kube.resource import Resource
from tfsteps.spec import Gang, Problem, TrainingJob
from tfsteps.systems.kubernetes.permissions import Permission

POD_GROUPS = Resource("scheduling.x-k8s.io/v1alpha1", "podgroups", "PodGroup")
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_VOLCANO = "volcano"
_ECHOES = (
    "optimistic rejection in",
    "rejection in Unreserve",
    "failed recently",
    "rejected due to timeout after waiting",
)


def spec_problems(job: TrainingJob) -> list[Problem]:
    """Return why the job's gang would never start, or not start together."""
    gang, replicas = job.gang, job.replicas
    result = []
    if gang and gang.scheduler == _VOLCANO:
        result.append(
            Problem(
                path=("gang", "scheduler"),
                value=gang.scheduler,
                wrong="keeps its groups in an API of its own, so the pods would start one by one",
                fix="Name one with the plugin Coscheduling of scheduler-plugins, or leave it out for its usual name",
            )
        )
    if gang and (gang.min_available or 0) > replicas:
        result.append(
            Problem(
                path=("gang", "min_available"),
                value=str(gang.min_available),
                wrong="is more than the job has replicas, so none would ever start",
                allowed=f"1 to {replicas}",
                fix="Leave it out for all of them",
            )
        )
    return result


def permissions(job: TrainingJob) -> list[Permission]:
    """Return the permissions that a launcher needs for the job's gang, beyond the job itself; empty = no gang."""
    return [Permission(verb, POD_GROUPS) for verb in ("create", "get")] if job.gang else []


def pod_group(job: TrainingJob, name: str, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the PodGroup of a job whose object is called `name`; the group has the same name.

    Args:
        job: The job; without a `gang`, the group has the defaults of `Gang`.
        name: Of the job object.
        namespace: Of the job object.
        labels: Put on the group.
    """
    gang = job.gang or Gang()
    spec: dict[str, Any] = {"minMember": gang.min_available or job.replicas}
    if gang.timeout is not None:
        spec["scheduleTimeoutSeconds"] = _seconds(gang.timeout)
    return {
        "apiVersion": POD_GROUPS.api,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": spec,
    }


def gang_pod(template: Mapping[str, Any], gang: Gang, name: str) -> dict[str, Any]:
    """Return a pod template as a member of the group called `name`."""
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), POD_GROUP_LABEL: name}
    return {
        **template,
        "metadata": metadata,
        "spec": {**template["spec"], "schedulerName": gang.scheduler},
    }


def scheduling_policy(gang: Gang, replicas: int) -> dict[str, Any]:
    """Return the fields of `runPolicy.schedulingPolicy` for the gang of a job with this many replicas.

    The training operator, if started with `--gang-scheduler-name`, manages the PodGroup with the job's name itself,
    and takes its numbers from these fields.
    """
    timeout = {} if gang.timeout is None else {"scheduleTimeoutSeconds": _seconds(gang.timeout)}
    # Without `minResources` the operator sets it. Then a group that did not fit is retried only after five minutes,
    # not when room comes: the plugin does not watch for pods that end.
    return {"minAvailable": gang.min_available or replicas, "minResources": {}, **timeout}


def repeats_gang_failure(message: str) -> bool:
    """Tell whether a waiting pod's message only repeats that another pod of its gang did not fit."""
    return any(text in message for text in _ECHOES)


def _seconds(duration: float) -> int:
    """Return whole seconds: rounded up, for 0 would mean the scheduler's own default."""
    return max(1, round(duration))

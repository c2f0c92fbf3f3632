"""Renders a role as a batch/v1 Job with one index for each replica. Pure; for every kind that consists of Jobs.

Facts: the Job controller of Kubernetes 1.28 and later.
"""

from collections.abc import Mapping
from typing import Any

from tfsteps.runs.events import ReplicaName
from tfsteps.spec import ROLES, ResolvedRole, TrainingJob
from tfsteps.systems.kubernetes.render.pod_template import CONTAINER, ROLE_LABEL

INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_ENV: Mapping[str, Any] = {
    "name": "TFSTEPS_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}},
}
"""The replica's index, for a container's `env`. Declared first, later values can refer to it."""

_PERMANENT = list(range(1, 128))  # codes of a program; higher codes mean that a signal ended it


def indexed_job_spec(
    job: TrainingJob, role: ResolvedRole, template: Mapping[str, Any], *, decides_alone: bool = False
) -> dict[str, Any]:
    """Return a JobSpec whose index i is replica i of the role.

    Args:
        job: The job.
        role: The role.
        template: Its pod template. The role's restart policy wins over the template's.
        decides_alone: Whether the success of index 0 ends the Job, and with it the other replicas.
    """
    in_place = role.restart == "on_failure"
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": role.replicas,
        "parallelism": role.replicas,
        # restarts in place end a Job when they reach the limit, failed pods when they pass it
        "backoffLimit": allowed_restarts(job, role) + in_place,
        "podReplacementPolicy": "Failed",  # only after the old pod is gone: both have the host name of the index
        "activeDeadlineSeconds": round(job.deadlines.total),
        "template": {**template, "spec": {**template["spec"], "restartPolicy": "OnFailure" if in_place else "Never"}},
    }
    if role.restart == "exit_code":
        spec["podFailurePolicy"] = exit_code_policy(CONTAINER)
    if decides_alone and role.replicas > 1:
        spec["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    return spec


def exit_code_policy(container: str) -> dict[str, Any]:
    """Return the podFailurePolicy by which a permanent exit code of `container` fails its Job at once."""
    codes = {"containerName": container, "operator": "In", "values": _PERMANENT}
    return {"rules": [{"action": "FailJob", "onExitCodes": codes}]}


def allowed_restarts(job: TrainingJob, role: ResolvedRole) -> int:
    """Return how many restarts the role's replicas may have, all together."""
    if role.restart == "never":
        return 0
    return job.effective_backoff_limit if role.backoff_limit is None else role.backoff_limit


def replica_of(meta: Mapping[str, Any]) -> ReplicaName | None:
    """Return which replica the pod with this `metadata` is; None = it is not a replica."""
    labels = meta.get("labels") or {}
    role, index = labels.get(ROLE_LABEL, ""), labels.get(INDEX, "")
    return ReplicaName(role, int(index)) if role in ROLES and index.isdigit() else None

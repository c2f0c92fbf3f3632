"""A schedule as a Kubernetes CronJob that submits a Workflow: for Argo installations older than 3.6, or without crons.

Each of its Jobs creates one Workflow that it owns, and waits for its end. So the CronJob's own rules hold for the
Workflows: two that must not overlap do not, one that is replaced goes with its Job, and history is kept or not.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.image import IMAGE
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.schedule.argo import NAME_LENGTH, catch_up, policies
from tfsteps.schedule.fires import fire_times
from tfsteps.schedule.submitter import JOB_NAME, JOB_UID
from tfsteps.schedule.types import Schedule
from tfsteps.spec.problems import Problem, problem

__all__ = ["NAME", "NAME_LENGTH", "fires", "objects", "problems"]

NAME = "a Kubernetes CronJob"
_FOLDER, _FILE = "/etc/tfsteps", "workflow.json"
_LEAST_INTERVAL = 60.0  # Jobs are named after the minute
_LEAST_DEADLINE = 10.0  # CronJobs are looked at that often: below it a run may never start
_TRIES = 3


def problems(schedule: Schedule) -> list[Problem]:
    """Return what a CronJob cannot express of `schedule`."""
    return list(_problems(schedule))


def fires(schedule: Schedule, now: float) -> Iterator[int]:
    """Yield when its runs start, in seconds since the epoch."""
    return fire_times(schedule, now)


def objects(
    schedule: Schedule,
    workflow: Mapping[str, Any],
    name: str,
    *,
    namespace: str,
    image: str = IMAGE,
    service_account: str = "",
) -> list[dict[str, Any]]:
    """Return what is to be created, in that order; for a schedule without problems.

    Args:
        schedule: When.
        workflow: The Workflow object.
        name: Of the CronJob and all that comes with it.
        namespace: Of all of them.
        image: Which holds tfsteps.
        service_account: One that may create, get, list and watch Workflows; empty = one is made, with a Role for that.
    """
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "tfsteps"}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    found = [] if service_account else _account(metadata)
    data = {_FILE: msgspec.json.encode(workflow).decode()}
    found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    cron = schedule.expression
    spec = {
        "schedule": cron.text() if cron else f"@every {int(schedule.interval or 0)}s",
        **({"timeZone": schedule.timezone} if cron else {}),
        **policies(schedule),
        "jobTemplate": {"metadata": {"labels": labels}, "spec": _job(name, image, service_account or name)},
    }
    return [*found, {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}]


def _account(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a ServiceAccount that may do what the Jobs do."""
    name, group = metadata["name"], "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["create", "get", "list", "watch"]}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": metadata["namespace"]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [subject],
        },
    ]


def _job(name: str, image: str, service_account: str) -> dict[str, Any]:
    """Return the Job that submits: tried again after what was not the Workflow's fault, and only then."""
    final = {"containerName": "submit", "operator": "In", "values": [int(ExitCode.USAGE), int(ExitCode.FAILED)]}
    return {
        "backoffLimit": _TRIES,
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onExitCodes": final},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            ]
        },
        "template": {
            "spec": {
                "serviceAccountName": service_account,
                "restartPolicy": "Never",
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [_container(image)],
                "volumes": [{"name": "workflow", "configMap": {"name": name}}],
            }
        },
    }


def _container(image: str) -> dict[str, Any]:
    labels = {JOB_NAME: "batch.kubernetes.io/job-name", JOB_UID: "batch.kubernetes.io/controller-uid"}
    return {
        "name": "submit",
        "image": image,
        "command": ["python", "-m", "tfsteps.schedule.submitter"],
        "args": [f"{_FOLDER}/{_FILE}"],
        "env": [
            {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}
            for variable, label in labels.items()
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "workflow", "mountPath": _FOLDER, "readOnly": True}],
    }


def _problems(schedule: Schedule) -> Iterator[Problem]:
    yield from catch_up(schedule, NAME)
    for field, text in (("start", schedule.start), ("end", schedule.end)):
        if text:
            fix = "Leave it out and create or delete the CronJob then, or use an Argo CronWorkflow"
            yield problem((field,), f"is not known to {NAME}", fix, text)
    if schedule.interval and schedule.interval < _LEAST_INTERVAL:
        wrong, fix = f"is too short for {NAME}", "Write 1m or more, or use an Argo CronWorkflow"
        yield problem(("interval",), wrong, fix, f"{schedule.interval:g}s", "from 1m")
    if schedule.starting_deadline and schedule.starting_deadline < _LEAST_DEADLINE:
        wrong, fix = f"is too short for {NAME}: no run might ever start", "Write 10s or more"
        yield problem(("starting_deadline",), wrong, fix, f"{schedule.starting_deadline:g}s", "from 10s")

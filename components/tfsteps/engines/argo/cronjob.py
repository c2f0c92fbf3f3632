"""A schedule as a Kubernetes CronJob that submits a Workflow: for Argo older than 3.6, or without CronWorkflows.

Each Job of the CronJob creates and owns one Workflow, and waits for its end. Therefore concurrency and history of the
CronJob apply to the Workflows: if the CronJob replaces or deletes a Job, its Workflow is deleted too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.engines.argo.cronworkflow import NAME_LENGTH, policies, rules
from tfsteps.engines.argo.scheduled_run import run_spec
from tfsteps.engines.argo.submitter import JOB_NAME, JOB_UID
from tfsteps.image import IMAGE
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.schedule.fires import fire_times
from tfsteps.schedule.types import Schedule
from tfsteps.spec.problems import Problem, problem

__all__ = ["FILE", "NAME", "NAME_LENGTH", "fires", "objects", "schedule_problems"]

NAME = "a Kubernetes CronJob"
FILE = "workflow.json"
"""Key of the ConfigMap that holds the Workflow."""
_FOLDER = "/etc/tfsteps"
_LEAST_INTERVAL = 60.0  # the names of Jobs contain the minute
_LEAST_DEADLINE = 10.0  # Kubernetes checks CronJobs this often; with a shorter deadline a run may never start
_TRIES = 3
_UNCAUGHT = 1  # exit code of Python for an error that nobody handled, such as an image without tfsteps


def schedule_problems(schedule: Schedule) -> list[Problem]:
    """Return a problem for each field of `schedule` that a CronJob cannot express."""
    return list(_problems(schedule))


def fires(schedule: Schedule, now: float) -> Iterator[int]:
    """Yield the start times of the runs, in seconds since the epoch."""
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
    """Return the objects to create, in this order; call it only for a schedule without problems.

    Args:
        schedule: The schedule.
        workflow: The Workflow object.
        name: Name of the CronJob and of the objects created with it.
        namespace: Namespace of all objects.
        image: Image that contains tfsteps.
        service_account: ServiceAccount that may create, get, list and watch Workflows; empty = create one with a Role.
    """
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "tfsteps"}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    dependents = [] if service_account else _account(metadata)
    data = {FILE: msgspec.json.encode({**workflow, "spec": run_spec(schedule, workflow)}).decode()}
    dependents.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    cron = schedule.expression
    pull_secrets = (workflow.get("spec") or {}).get("imagePullSecrets") or []
    spec = {
        "schedule": cron.text() if cron else f"@every {int(schedule.interval or 0)}s",
        **({"timeZone": schedule.timezone} if cron else {}),
        **policies(schedule),
        "jobTemplate": {
            "metadata": {"labels": labels},
            "spec": _job(name, image, service_account or name, pull_secrets),
        },
    }
    return [*dependents, {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}]


def _account(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a ServiceAccount with the permissions that the Jobs need, its Role and its RoleBinding."""
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


def _job(name: str, image: str, service_account: str, pull_secrets: Sequence[Any]) -> dict[str, Any]:
    """Return the spec of the submitting Job; it is retried unless the Workflow failed or a retry would fail again.

    Its image comes from the registry of the Workflow's launchers, and so needs their pull secrets.
    """
    codes = [_UNCAUGHT, int(ExitCode.USAGE), int(ExitCode.FAILED)]
    final = {"containerName": "submit", "operator": "In", "values": codes}
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
                **({"imagePullSecrets": [*pull_secrets]} if pull_secrets else {}),
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
        "command": ["python", "-m", "tfsteps.engines.argo.submitter"],
        "args": [f"{_FOLDER}/{FILE}"],
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
    yield from rules(schedule, NAME)
    for field, text in (("start", schedule.start), ("end", schedule.end)):
        if text:
            fix = "Use an Argo CronWorkflow or `--scheduler janitor`, or create and delete the CronJob at that time"
            yield problem((field,), f"is not supported by {NAME}", fix, text)
    if schedule.interval and schedule.interval < _LEAST_INTERVAL:
        wrong, fix = f"is too short for {NAME}", "Write 1m or more, or use an Argo CronWorkflow"
        yield problem(("interval",), wrong, fix, f"{schedule.interval:g}s", "from 1m")
    if schedule.starting_deadline and schedule.starting_deadline < _LEAST_DEADLINE:
        wrong, fix = f"is too short for {NAME}: runs might never start", "Write 10s or more"
        yield problem(("starting_deadline",), wrong, fix, f"{schedule.starting_deadline:g}s", "from 10s")

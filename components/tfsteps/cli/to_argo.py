"""Submits to Argo Workflows: a Workflow, a CronWorkflow, or a CronJob that submits Workflows."""

import contextlib
import copy
import time
from collections.abc import Iterator
from typing import Any

from tfsteps.cli.compiled import Compiled
from tfsteps.cli.errors import CommandError
from tfsteps.cli.submission import Scheduler, Submission, check_names, print_yaml
from tfsteps.cli.when import print_fires
from tfsteps.cluster.access import AccessError, find
from tfsteps.cluster.api import Api, ApiError, Resource
from tfsteps.exits import Exit
from tfsteps.schedule import Schedule, argo, cronjob, submitter
from tfsteps.spec import SpecError
from tfsteps.systems.kubernetes.host import WORKFLOWS

_PATIENCE_SECONDS = 5.0  # somebody is waiting at the terminal
_TEMPLATES = {"WorkflowTemplate", "ClusterWorkflowTemplate"}
_RESOURCES = {
    each.kind: each
    for each in (
        WORKFLOWS,
        Resource("argoproj.io/v1alpha1", "cronworkflows", "CronWorkflow"),
        Resource("v1", "serviceaccounts", "ServiceAccount"),
        Resource("rbac.authorization.k8s.io/v1", "roles", "Role"),
        Resource("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
        Resource("v1", "configmaps", "ConfigMap"),
        Resource("batch/v1", "cronjobs", "CronJob"),
    )
}


def submit(submission: Submission) -> int:
    """Create what was asked for and return the exit code.

    Raises:
        SpecError: The schedule cannot be expressed.
        CommandError: Anything else.
    """
    objects = _objects(submission)
    if submission.when:
        scheduler = cronjob if submission.scheduler is Scheduler.CRONJOB else argo
        print_fires(submission.when, scheduler.fires(submission.when, time.time()))
    if submission.dry_run:
        print_yaml(objects)
        return Exit.SUCCEEDED
    with _cluster(submission.context) as api:
        made = _create(api, objects, submission.namespace or api.access.namespace)
        if not submission.wait:
            return Exit.SUCCEEDED
        try:
            return submitter.follow(Api(api.access), made, lambda line: print(line, flush=True))
        except submitter.SubmitError as error:
            raise CommandError(str(error), error.code) from error


# --- what is created


def _objects(submission: Submission) -> list[dict[str, Any]]:
    manifest = _manifest(submission)
    if manifest["kind"] == "CronWorkflow":
        if submission.when:
            raise CommandError(f"{submission.compiled.source} has its own schedule; submit a Workflow by another one")
        return [manifest]
    when = submission.when
    if when is None:
        return [manifest]
    name = submission.name or submission.compiled.name
    if len(name) > argo.NAME_LENGTH:
        raise CommandError(f"name {name!r} is longer than {argo.NAME_LENGTH} characters; give a shorter --name")
    if submission.scheduler is Scheduler.CRONWORKFLOW:
        _refuse(argo.problems(when))
        return [argo.cron_workflow(when, manifest, name)]
    _refuse(cronjob.problems(when))
    return _cron_job(submission, when, manifest, name)


def _cron_job(submission: Submission, when: Schedule, manifest: dict[str, Any], name: str) -> list[dict[str, Any]]:
    namespace = submission.namespace or manifest["metadata"].get("namespace")
    try:
        namespace = namespace or find(submission.context).namespace
    except AccessError as error:
        raise CommandError(f"{error}; or give --namespace") from error
    account, image = submission.service_account, submission.image
    return cronjob.objects(when, manifest, name, namespace=namespace, service_account=account, image=image)


def _refuse(problems: list[Any]) -> None:
    if problems:
        raise SpecError(problems, "schedule")


def _manifest(submission: Submission) -> dict[str, Any]:
    """Return the manifest with its name, namespace and arguments; a template as a Workflow of its own."""
    manifest = copy.deepcopy(_single(submission.compiled))
    metadata = manifest["metadata"] = dict(manifest.get("metadata") or {})
    if manifest["kind"] in _TEMPLATES:
        manifest["kind"] = WORKFLOWS.kind
        metadata["generateName"] = f"{metadata.pop('name')}-"
    if submission.name:
        metadata["name"] = submission.name
        metadata.pop("generateName", None)
    if submission.namespace:
        metadata["namespace"] = submission.namespace
    spec = manifest["spec"].get("workflowSpec", manifest["spec"])
    if submission.service_account and not (submission.when and submission.scheduler is Scheduler.CRONJOB):
        spec["serviceAccountName"] = submission.service_account
    _give(spec, submission.parameters)
    return manifest


def _single(compiled: Compiled) -> dict[str, Any]:
    if len(compiled.documents) > 1:
        raise CommandError(f"{compiled.source} holds {len(compiled.documents)} manifests; submit a file with one")
    return compiled.documents[0]


def _give(spec: dict[str, Any], given: dict[str, str]) -> None:
    """Put the arguments in; where another template says what there is, all names are taken."""
    arguments = spec.setdefault("arguments", {}) if given else spec.get("arguments") or {}
    known = {each["name"]: each for each in arguments.get("parameters") or []}
    if "workflowTemplateRef" in spec:
        arguments.setdefault("parameters", []) if given else None
    else:
        needed = [name for name, each in known.items() if not {"value", "valueFrom", "default"} & set(each)]
        check_names(given, known, needed)
    for name, value in given.items():
        if name in known:
            known[name]["value"] = value
            known[name].pop("valueFrom", None)
        else:
            arguments["parameters"].append({"name": name, "value": value})


# --- on the cluster


@contextlib.contextmanager
def _cluster(context: str) -> Iterator[Api]:
    """Yield the API of the cluster; what it refuses ends the command."""
    try:
        yield Api(find(context), patience=_PATIENCE_SECONDS)
    except AccessError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        raise CommandError(str(error), Exit.PLATFORM if error.unavailable else Exit.USAGE) from error


def _create(api: Api, objects: list[dict[str, Any]], default: str) -> dict[str, Any]:
    """Create all objects, or none: the cluster is asked about each before. Return the last one's metadata."""
    made: dict[str, Any] = {}
    for dry_run in (True, False):
        for each in objects:
            namespace = each["metadata"].get("namespace", default)
            made = _create_one(api, each, namespace, dry_run=dry_run)
            if not dry_run:
                print(f"{each['kind']} {made['name']} created in {namespace}")
    kind = objects[-1]["kind"]
    print(f"Watch it: kubectl get {kind.lower()} {made['name']} -n {made['namespace']} -w")
    if kind == WORKFLOWS.kind:
        place = f"--on kubernetes --namespace {made['namespace']}"
        print(f"Its jobs: tfsteps show {made['uid']} {place}")
    return made


def _create_one(api: Api, item: dict[str, Any], namespace: str, *, dry_run: bool) -> dict[str, Any]:
    what = f"{item['kind']} {item['metadata'].get('name', '')}".strip()
    try:
        return dict(api.create(_RESOURCES[item["kind"]], namespace, item, dry_run=dry_run)["metadata"])
    except ApiError as error:
        if error.reason == "AlreadyExists":
            raise CommandError(f"{what} is in {namespace} already; delete it, or choose another --name") from error
        if error.unavailable:
            raise
        raise CommandError(f"{what} cannot be created in {namespace}: {error}") from error

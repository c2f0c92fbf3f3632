"""Submits to Argo Workflows: a Workflow, a CronWorkflow, or a CronJob that submits Workflows."""

import contextlib
import copy
import shlex
from collections.abc import Iterator
from typing import Any

import yaml

from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say, warn
from tfsteps.engines.argo import lint
from tfsteps.engines.argo.pod_references import pod_references
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.engines.compiled import Compiled, LintError
from tfsteps.engines.missing_objects import missing
from tfsteps.engines.submission import Scheduler, Submission, check_names, options_of, print_yaml, show_command
from tfsteps.kube.access import find
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.identity import spec_hash
from tfsteps.schedule import Schedule, argo, cronjob, submitter
from tfsteps.spec import SpecError
from tfsteps.systems.kubernetes.system import SPEC_HASH

_PATIENCE_SECONDS = 5.0  # short, because a user waits at the terminal
_TEMPLATES = {"WorkflowTemplate", "ClusterWorkflowTemplate"}
_RESOURCES = {
    resource.kind: resource
    for resource in (
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
    """Create the objects of a submission and return the exit code.

    Raises:
        SpecError: The schedule cannot be expressed, or the Workflow would fail with these arguments.
        CommandError: Anything else.
    """
    text = yaml.safe_dump(_manifest(submission))
    if problems := [*lint.problems(text), *lint.missing_arguments(text)]:
        raise LintError(submission.compiled.source, problems)
    objects = [_marked(manifest) for manifest in _objects(submission)]
    if submission.dry_run:
        print_yaml(objects)
        return ExitCode.SUCCEEDED
    with _cluster(submission.context) as api:
        namespace = submission.namespace or api.access.namespace
        manifest = _manifest(submission)
        where = manifest["metadata"].get("namespace", namespace)
        for warning in missing(api, where, pod_references(manifest)):
            warn(warning)
        created, report = _create(api, objects, namespace)
        kind, context, where = objects[-1]["kind"], submission.context, created["namespace"]
        watch = ["kubectl", *options_of(context), "--namespace", where, "get", kind.lower(), created["name"], "--watch"]
        report.append(f"Watch it: {shlex.join(watch)}")
        if kind == WORKFLOWS.kind:
            report.append(f"Its jobs: {show_command(created['uid'], context, where)}")
        print("\n".join(report))
        if not submission.wait:
            return ExitCode.SUCCEEDED
        try:
            return submitter.follow(Api(api.access), created, lambda line: print(line, flush=True))
        except submitter.SubmitError as error:
            raise CommandError(str(error), error.code) from error


def fire_times(submission: Submission, now: float) -> Iterator[int]:
    """Yield the start times of the runs of a schedule, after the checks of its objects. SpecError, CommandError."""
    assert submission.when is not None
    _objects(submission)
    scheduler = cronjob if submission.scheduler is Scheduler.CRONJOB else argo
    times: Iterator[int] = scheduler.fires(submission.when, now)
    return times


# --- the objects


def _objects(submission: Submission) -> list[dict[str, Any]]:
    manifest = _manifest(submission)
    if manifest["kind"] == "CronWorkflow":
        if submission.when:
            raise CommandError(
                f"{submission.compiled.source} has its own schedule; submit a Workflow to use another schedule"
            )
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
    """Return the manifest with its name, namespace and arguments; convert a template to a Workflow."""
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
    _set_arguments(spec, submission.parameters)
    return manifest


def _single(compiled: Compiled) -> dict[str, Any]:
    if len(compiled.documents) > 1:
        raise CommandError(f"{compiled.source} contains {len(compiled.documents)} manifests; submit a file with one")
    return compiled.documents[0]


def _set_arguments(spec: dict[str, Any], values: dict[str, str]) -> None:
    """Set the arguments of a Workflow; if it refers to a template, which declares them, accept all names."""
    arguments = spec.setdefault("arguments", {}) if values else spec.get("arguments") or {}
    known = {parameter["name"]: parameter for parameter in arguments.get("parameters") or []}
    if "workflowTemplateRef" in spec:
        arguments.setdefault("parameters", []) if values else None
    else:
        needed = [name for name, parameter in known.items() if not {"value", "valueFrom", "default"} & set(parameter)]
        check_names(values, known, needed)
    for name, value in values.items():
        if name in known:
            known[name]["value"] = value
            known[name].pop("valueFrom", None)
        else:
            arguments["parameters"].append({"name": name, "value": value})


# --- on the cluster


@contextlib.contextmanager
def _cluster(context: str) -> Iterator[Api]:
    """Yield the API of the cluster; raise CommandError if it refuses a request."""
    try:
        yield Api(find(context), patience=_PATIENCE_SECONDS)
    except AccessError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        raise CommandError(str(error), ExitCode.PLATFORM if error.unavailable else ExitCode.USAGE) from error


def _marked(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object with an annotation of its hash, by which a second call recognizes it; a Workflow is unchanged.

    Submitting a Workflow again means another run, which requires another name.
    """
    if item["kind"] == WORKFLOWS.kind:
        return item
    metadata = item["metadata"]
    mark = {SPEC_HASH: spec_hash(item)}
    return {**item, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **mark}}}


def _create(api: Api, objects: list[dict[str, Any]], default: str) -> tuple[dict[str, Any], list[str]]:
    """Create all objects, after a dry run of each; return the metadata of the last one, and the lines to print.

    Nothing is printed before the end, because standard output may be closed.
    """
    placed = [(manifest, manifest["metadata"].get("namespace", default)) for manifest in objects]
    for item, namespace in placed:
        _create_one(api, item, namespace, dry_run=True)
    created: dict[str, Any] = {}
    report: list[str] = []
    try:
        for item, namespace in placed:
            created, new = _create_one(api, item, namespace)
            report.append(f"{item['kind']} {created['name']} {'created' if new else 'already exists'} in {namespace}")
    except (ApiError, CommandError):
        for line in report:
            say(line)
        if report:
            say("not everything was created; run the same command again to create the rest")
        raise
    return created, report


def _create_one(
    api: Api, item: dict[str, Any], namespace: str, *, dry_run: bool = False
) -> tuple[dict[str, Any], bool]:
    """Create an object, unless an earlier call has created it; return its metadata and whether it is new."""
    what = f"{item['kind']} {item['metadata'].get('name', '')}".strip()
    try:
        return api.create(_RESOURCES[item["kind"]], namespace, item, dry_run=dry_run)["metadata"], True
    except ApiError as error:
        if error.reason == "AlreadyExists":
            if existing := _same(api, item, namespace):
                return existing, False
            raise CommandError(f"{what} already exists in {namespace}; delete it or choose another --name") from error
        if error.unavailable:
            raise
        raise CommandError(f"{what} cannot be created in {namespace}: {error}") from error


def _same(api: Api, item: dict[str, Any], namespace: str) -> dict[str, Any] | None:
    """Return the metadata of the existing object if it was created from `item`; None = another object, or unknown."""
    mark = (item["metadata"].get("annotations") or {}).get(SPEC_HASH)
    try:
        existing: dict[str, Any] = api.get(_RESOURCES[item["kind"]], namespace, item["metadata"]["name"])["metadata"]
    except ApiError:
        return None
    same = mark and (existing.get("annotations") or {}).get(SPEC_HASH) == mark and "deletionTimestamp" not in existing
    return existing if same else None

"""Submits to Argo Workflows: a Workflow, a CronWorkflow, or a CronJob that submits Workflows."""

import copy
import functools
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say, warn
from tfsteps.engines.argo import cronjob, cronworkflow, launchers, lint, objects, schedule_object, submitter
from tfsteps.engines.argo.authoring import pod_references
from tfsteps.engines.argo.submit_options import ArgoSubmitOptions, Scheduler
from tfsteps.engines.argo.workflow import WORKFLOWS, reference_in, trigger_of
from tfsteps.engines.authoring import Compiled, LintError
from tfsteps.engines.cluster_checks import check_settings, missing_objects
from tfsteps.engines.submission import Submission, agree, check_names, options_of, print_yaml, show_command
from tfsteps.image import unqualified
from tfsteps.kube.access import find
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.demo import DemoError, mark_of, without_mark
from tfsteps.runs.identity import MANUAL, PIPELINE, SCHEDULED, TRIGGER, label_value
from tfsteps.schedule import Schedule
from tfsteps.schedule.fires import fire_times as schedule_times
from tfsteps.settings.find import Found
from tfsteps.settings.types import RunSettings
from tfsteps.spec import SpecError
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.cleanup.clear import RunObjects, list_demos, runs_of
from tfsteps.systems.kubernetes.job_cluster import JobCluster

_NAMESPACED_TEMPLATES = Resource("argoproj.io/v1alpha1", "workflowtemplates", "WorkflowTemplate")
_CLUSTER_TEMPLATES = Resource("argoproj.io/v1alpha1", "clusterworkflowtemplates", "ClusterWorkflowTemplate")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TEMPLATES = {_NAMESPACED_TEMPLATES.kind, _CLUSTER_TEMPLATES.kind}
NO_SETTINGS = RunSettings()
_POD_GC = {"success": "OnPodSuccess", "completion": "OnPodCompletion"}
_GONE_SECONDS, _POLL_SECONDS = 180.0, 0.5


def submit(submission: Submission) -> int:
    """Create the objects of a submission and return the exit code.

    Raises:
        SpecError: The schedule cannot be expressed, the Workflow would fail with these arguments, or platform settings
            refuse a job.
        LaunchError: Whether there are settings is not known.
        CommandError: Anything else.
    """
    text = yaml.safe_dump(_manifest(submission))
    if problems := [*lint.lint_messages(text), *lint.missing_arguments(text)]:
        raise LintError(submission.compiled.source, problems)
    manifests = [objects.marked(manifest) for manifest in _manifests(submission)]
    if submission.dry_run:
        namespace = str(_manifest(submission)["metadata"].get("namespace", ""))
        planned = JobCluster(submission.context, namespace)
        check_settings(submission.compiled, submission.parameters, planned, ask=False)
        print_yaml(manifests)
        return _rehearse_replacement(submission) if submission.replace else ExitCode.SUCCEEDED
    with objects.cluster(submission.context) as api:
        namespace = submission.namespace or api.access.namespace
        manifest = _manifest(submission)
        where = manifest["metadata"].get("namespace", namespace)
        cluster = JobCluster(namespace=where, home=api)
        check_settings(_with_templates(submission.compiled, api, where, manifest), submission.parameters, cluster)
        for warning in missing_objects(api, where, pod_references(manifest)):
            warn(warning)
        runs = runs_settings(cluster.read_settings(registry.options()), where, manifest)
        manifests = [objects.marked(item) for item in _manifests(submission, runs)]
        if submission.replace:
            objects.rehearse(api, manifests[0], where)
            clear_manual(api, where, manifest["metadata"]["labels"])
        if submission.when:
            _refuse_second_scheduler(api, manifests[-1], namespace)
        created, report = objects.apply(api, manifests, namespace, functools.partial(agree, yes=submission.yes))
        if submission.when and manifests[-1]["kind"] == objects.CONFIG_MAPS.kind:
            report.append("Its runs are started by a janitor with --schedules in this namespace: docs/guides/rules.md")
        kind, context, where = manifests[-1]["kind"], submission.context, created["namespace"]
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


def _with_templates(compiled: Compiled, api: Api, namespace: str, manifest: Mapping[str, Any]) -> Compiled:
    """Return a pipeline with the templates of the cluster that it refers to, itself or through one of them.

    A template that cannot be read, and so is not checked, is a warning: Argo may be permitted to read it.

    Raises:
        LintError: The pipeline and the templates do not fit, or a template has a job that a launcher would refuse.
    """
    templates = [document for document in compiled.documents if document.get("kind") in _TEMPLATES]
    seen = {(str(item["metadata"].get("name")), item["kind"] == _CLUSTER_TEMPLATES.kind) for item in templates}
    added: list[dict[str, Any]] = []
    for document in (walked := [manifest, *templates]):
        for reference in _template_references(document["spec"]):
            name, of_cluster = key = launchers.referenced(reference)
            if name == launchers.NAME or "{{" in name or key in seen:
                continue
            seen.add(key)
            kind = _CLUSTER_TEMPLATES if of_cluster else _NAMESPACED_TEMPLATES
            try:
                item = api.get(kind, "" if of_cluster else namespace, name)
            except ApiError as error:
                warn(f"the jobs of {kind.kind} {name} are not checked, only by their launchers: {error}")
                continue
            spec = {
                "apiVersion": kind.api,
                "kind": kind.kind,
                "metadata": {"name": name},
                "spec": item.get("spec") or {},
            }
            added.append(spec)
            walked.append(spec)
    if not added:
        return compiled
    text = yaml.safe_dump_all([manifest, *templates, *added])
    of_templates = tuple(f"{item['kind']} {item['metadata']['name']}: " for item in added)
    # what this pipeline calls in them is reported of it; the rest may be wrong without harm to it
    if problems := [text for text in lint.lint_messages(text) if not text.startswith(of_templates)]:
        raise LintError(compiled.source, problems)
    return msgspec.structs.replace(compiled, documents=[*compiled.documents, *added])


def _template_references(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield what refers to a template of the cluster, anywhere in a spec."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key in ("templateRef", "workflowTemplateRef") and isinstance(part, Mapping):
                yield part
            yield from _template_references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _template_references(part)


def _rehearse_replacement(submission: Submission) -> int:
    """Say which manual runs `--replace` would remove; DemoError if one is a demo."""
    metadata = _manifest(submission)["metadata"]
    with objects.cluster(submission.context) as api:
        where = metadata.get("namespace", submission.namespace or api.access.namespace)
        clear_manual(api, where, metadata["labels"], dry_run=True)
    return ExitCode.SUCCEEDED


def fire_times(submission: Submission, now: float) -> Iterator[int]:
    """Yield the start times of the runs of a schedule, after the checks of its objects. SpecError, CommandError."""
    assert submission.when is not None
    _manifests(submission)
    return schedule_times(submission.when, now)  # the same for all of Argo's schedulers


def _refuse_second_scheduler(api: Api, item: Mapping[str, Any], default: str) -> None:
    """Raise CommandError if another scheduler has a schedule of this name: each date would start two runs."""
    name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", default)
    for resource in (objects.CRON_WORKFLOWS, objects.CRON_JOBS, objects.CONFIG_MAPS):
        if resource.kind == item["kind"]:
            continue
        try:
            other = api.get(resource, namespace, name)
        except ApiError as error:
            if error.status == 404:
                continue
            if error.status != 403:
                raise
            warn(f"whether a {resource.kind} {name} is a schedule, too, is not known: {error}")
            continue
        if objects.is_ours(other) and (resource != objects.CONFIG_MAPS or schedule_object.is_schedule(other)):
            raise CommandError(
                f"{name} is already a schedule in {namespace}, as a {resource.kind}, and each date would start two "
                f"runs: remove it with `tfsteps schedules delete {name}`, or choose another --name"
            )


# --- the objects


def _manifests(submission: Submission, runs: RunSettings = NO_SETTINGS) -> list[dict[str, Any]]:
    """Return the objects to create; the Workflow in them is kept as `runs` says, but a demo for ever.

    Of a schedule, the schedule itself is the demo and not its runs, so that its history stays limited.
    """
    manifest = _manifest(submission)
    if not (manifest["kind"] == WORKFLOWS.kind and mark_of(manifest)):
        manifest = retained(manifest, runs)
    if manifest["kind"] == "CronWorkflow":
        if submission.when:
            raise CommandError(
                f"{submission.compiled.source} has its own schedule; submit a Workflow to use another schedule"
            )
        return [manifest]
    when = submission.when
    if when is None:
        return [manifest]
    mark = submission.demo or mark_of(_single(submission.compiled))
    scheduled = _scheduled(submission, when, manifest)
    return [{**item, "metadata": mark.put(item["metadata"])} for item in scheduled] if mark else scheduled


def _scheduled(submission: Submission, when: Schedule, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a schedule of a Workflow."""
    name = submission.name or submission.compiled.name
    if len(name) > cronworkflow.NAME_LENGTH:
        raise CommandError(f"name {name!r} is longer than {cronworkflow.NAME_LENGTH} characters; give a shorter --name")
    match _scheduler(_options(submission).scheduler, when):
        case Scheduler.CRONWORKFLOW:
            _refuse(cronworkflow.schedule_problems(when))
            return [cronworkflow.cron_workflow(when, manifest, name)]
        case Scheduler.CRONJOB:
            _refuse(cronjob.schedule_problems(when))
            return _cron_job(submission, when, manifest, name)
        case Scheduler.JANITOR:
            return [schedule_object.config_map(when, manifest, name)]


def _options(submission: Submission) -> ArgoSubmitOptions:
    options: ArgoSubmitOptions = submission.options
    return options


def _scheduler(chosen: Scheduler | None, when: Schedule) -> Scheduler:
    if chosen is not None:
        return chosen
    return Scheduler.JANITOR if cronworkflow.schedule_problems(when) else Scheduler.CRONWORKFLOW


def _cron_job(submission: Submission, when: Schedule, manifest: dict[str, Any], name: str) -> list[dict[str, Any]]:
    account, image = submission.service_account, _options(submission).image
    if not submission.dry_run and (wrong := unqualified({"image": image})):
        raise CommandError(f"{submission.compiled.source}: {wrong[0]}")
    namespace = submission.namespace or manifest["metadata"].get("namespace")
    try:
        namespace = namespace or find(submission.context).namespace
    except AccessError as error:
        raise CommandError(f"{error}; or give --namespace") from error
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
        if not _OBJECT_NAME.fullmatch(submission.name):
            wrong = f"--name {submission.name!r} cannot name an object of Kubernetes"
            raise CommandError(f"{wrong}: write lower-case letters, digits, '-' and '.', such as nightly-2")
        metadata["name"] = submission.name
        metadata.pop("generateName", None)
    if submission.namespace:
        metadata["namespace"] = submission.namespace
    spec = manifest["spec"].get("workflowSpec", manifest["spec"])
    if submission.service_account and not (submission.when and _options(submission).scheduler is Scheduler.CRONJOB):
        spec["serviceAccountName"] = submission.service_account
    _set_arguments(spec, submission.parameters)
    if manifest["kind"] == WORKFLOWS.kind:
        trigger = SCHEDULED if submission.when else MANUAL
        ours = {PIPELINE: label_value(submission.compiled.name), TRIGGER: trigger}
        metadata["labels"] = {**(metadata.get("labels") or {}), **ours}
    return _marked(manifest, submission)


def _marked(manifest: dict[str, Any], submission: Submission) -> dict[str, Any]:
    """Return a manifest with the mark of a demo, if it is one; of a Workflow also its pods, whose jobs get it, too."""
    mark = submission.demo or mark_of(manifest)
    if mark is None or submission.when:
        return {**manifest, "metadata": without_mark(manifest["metadata"])}
    marked = {**manifest, "metadata": mark.put(manifest["metadata"])}
    if manifest["kind"] == WORKFLOWS.kind:
        spec = manifest["spec"]
        marked["spec"] = {**spec, "podMetadata": mark.put(spec.get("podMetadata") or {})}
    return marked


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


def runs_settings(lookup: Found, namespace: str, manifest: Mapping[str, Any]) -> RunSettings:
    """Return what the settings say of runs in a namespace; nothing if they may not be read.

    A warning says so, unless the Workflow or CronWorkflow sets all that the settings could.
    """
    spec = manifest["spec"].get("workflowSpec", manifest["spec"])
    if lookup.warning and not {"ttlStrategy", "podGC"} <= spec.keys():
        warn(f"the Workflow gets no ttlStrategy and podGC by the platform settings: {lookup.warning}")
    layers = [layer.runs for _, layer in lookup.settings.layers(namespace)] if lookup.settings else []
    values = {
        field: next((value for layer in reversed(layers) if (value := getattr(layer, field)) is not None), None)
        for field in RunSettings.__struct_fields__
    }
    return RunSettings(**values)


def retained(manifest: Mapping[str, Any], runs: RunSettings) -> dict[str, Any]:
    """Return a Workflow or CronWorkflow with `ttlStrategy` and `podGC`, unless it has them."""
    inside = ("spec",) if manifest["kind"] == "Workflow" else ("spec", "workflowSpec")
    times = {"secondsAfterSuccess": runs.keep_succeeded, "secondsAfterFailure": runs.keep_failed}
    ttl = {field: round(seconds) for field, seconds in times.items() if seconds is not None}
    added = {"ttlStrategy": ttl, "podGC": {"strategy": _POD_GC[runs.delete_pods]} if runs.delete_pods else {}}

    def with_added(value: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        if path:
            return {**value, path[0]: with_added(value[path[0]], path[1:])}
        return {**{field: part for field, part in added.items() if part}, **value}

    return with_added(manifest, inside)


def clear_manual(api: Api, namespace: str, labels: Mapping[str, str], *, dry_run: bool = False) -> None:
    """Remove the manual runs of the pipeline that `labels` name, with their jobs, and wait until they are gone.

    A dry run only says which.

    Raises:
        CommandError: They are not gone in time; nothing is to be submitted then.
        DemoError: One of them, or of their jobs, is a demo; nothing was removed.
        ApiError: The cluster refuses it.
    """
    selector = f"{TRIGGER}={MANUAL},{PIPELINE}={labels[PIPELINE]}"
    items = [item for item in api.iterate(WORKFLOWS, namespace, labelSelector=selector) if trigger_of(item) == MANUAL]
    runs = {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}
    if runs:  # before anything is removed
        resources = [WORKFLOWS, *(kind.resource for kind in registry.kinds())]
        for resource, item in list_demos(api, namespace, dict.fromkeys(resources)):
            if {uid for _, uid in runs_of(item)} & {*runs.values()}:
                raise DemoError(resource, item["metadata"])
    if dry_run:
        for name in runs:
            say(f"would remove the manual run {name}")
        return
    for name, uid in runs.items():
        say(f"removing the manual run {name}")
        api.delete(WORKFLOWS, namespace, name, uid)
    give_up = time.monotonic() + _GONE_SECONDS
    while left := [name for name, uid in runs.items() if not _gone(api, namespace, name, uid)]:
        if time.monotonic() > give_up:
            raise CommandError(
                f"nothing was submitted: {', '.join(left)} in {namespace} is still being deleted; see its finalizers "
                "with kubectl, and retry",
                ExitCode.PLATFORM,
            )
        time.sleep(_POLL_SECONDS)


def _gone(api: Api, namespace: str, name: str, uid: str) -> bool:
    """Tell whether a Workflow and all that its run launched are gone; delete what has no owner."""
    if not api.gone(WORKFLOWS, namespace, name, uid):
        return False
    launched = RunObjects(api, registry.kinds(), namespace, uid, of_engine=reference_in)
    items = launched.list()
    for item in items:
        if not item.deleting:
            launched.delete(item)
    return not items

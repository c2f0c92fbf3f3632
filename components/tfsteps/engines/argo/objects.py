"""Creates what a submission consists of, and updates a schedule that an earlier submission created."""

import contextlib
import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from tfsteps import typed_json
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.access import find
from tfsteps.kube.backoff import COMMAND_PATIENCE_SECONDS
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.demo import check_changeable
from tfsteps.runs.identity import spec_hash
from tfsteps.systems.kubernetes.system import SPEC_HASH

CRON_WORKFLOWS = Resource("argoproj.io/v1alpha1", "cronworkflows", "CronWorkflow")
CRON_JOBS = Resource("batch/v1", "cronjobs", "CronJob")
CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
RESOURCES = {
    resource.kind: resource
    for resource in (
        WORKFLOWS,
        CRON_WORKFLOWS,
        Resource("v1", "serviceaccounts", "ServiceAccount"),
        Resource("rbac.authorization.k8s.io/v1", "roles", "Role"),
        Resource("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
        CONFIG_MAPS,
        CRON_JOBS,
    )
}
"""The kinds that `tfsteps submit` creates, by name, in the order in which a schedule's objects depend on each other."""

_TRIES = 5  # of an update; controllers write the status of the same object

_Object = Mapping[str, Any]


@contextlib.contextmanager
def cluster(context: str) -> Iterator[Api]:
    """Yield the API of the cluster; raise CommandError if it refuses a request."""
    try:
        yield Api(find(context), patience=COMMAND_PATIENCE_SECONDS)
    except AccessError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        raise CommandError(str(error), ExitCode.PLATFORM if error.unavailable else ExitCode.USAGE) from error


def marked(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object with an annotation of its hash, by which a second call recognizes it; a Workflow is unchanged.

    Submitting a Workflow again means another run, which requires another name.
    """
    if item["kind"] == WORKFLOWS.kind:
        return item
    metadata = item["metadata"]
    mark = {SPEC_HASH: spec_hash(item)}
    return {**item, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **mark}}}


def is_ours(item: _Object) -> bool:
    """Tell whether a submission created an object."""
    return SPEC_HASH in (item["metadata"].get("annotations") or {})


def apply(
    api: Api, objects: list[dict[str, Any]], default: str, agree: Callable[[str], None]
) -> tuple[dict[str, Any], list[str]]:
    """Create all objects, or update them; return the metadata of the last one, and the lines to print.

    Everything is sent as a dry run before. Nothing is printed before the end, because standard output may be closed.

    Args:
        api: The cluster.
        objects: The objects, as `marked` returns them.
        default: Namespace of those that name none.
        agree: Called with the differences if an object exists that an earlier submission created from another content;
            raises CommandError unless they are wanted.
    """
    placed = [(manifest, manifest["metadata"].get("namespace", default)) for manifest in objects]
    differences = [_rehearse(api, item, namespace) for item, namespace in placed]
    if any(differences):
        agree("\n".join(filter(None, differences)))
    applied: dict[str, Any] = {}
    report: list[str] = []
    try:
        for (item, namespace), difference in zip(placed, differences, strict=True):
            applied, done = _apply(api, item, namespace, difference)
            report.append(f"{item['kind']} {applied['name']} {done} in {namespace}")
    except (ApiError, CommandError):
        for line in report:
            say(line)
        if report:
            say("not everything was created; run the same command again to create the rest")
        raise
    return applied, report


def rehearse(api: Api, item: _Object, namespace: str) -> None:
    """Create an object that has any name as a dry run. CommandError if the cluster refuses it."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "name"}
    named = {**item, "metadata": {"generateName": f"{item['metadata'].get('name', 'run')}-", **metadata}}
    with _refusals(f"{_name(item)} cannot be created in {namespace}"):
        api.create(RESOURCES[item["kind"]], namespace, named, dry_run=True)


def _rehearse(api: Api, item: _Object, namespace: str) -> str:
    """Create an object as a dry run; return how the existing one would change, empty = there is none, or it is equal.

    Raises:
        CommandError: The cluster refuses it, or another object has its name.
    """
    with _refusals(f"{_name(item)} cannot be created in {namespace}"):
        try:
            api.create(RESOURCES[item["kind"]], namespace, item, dry_run=True)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return _difference(api, _existing(api, item, namespace), item, namespace)
    return ""


def _apply(api: Api, item: _Object, namespace: str, agreed: str) -> tuple[dict[str, Any], str]:
    """Create or update an object; return its metadata and what was done. `agreed` is the difference that was shown."""
    resource = RESOURCES[item["kind"]]
    with _refusals(f"{_name(item)} cannot be created in {namespace}"):
        try:
            return api.create(resource, namespace, item)["metadata"], "created"
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
    for _ in range(_TRIES):
        existing = _existing(api, item, namespace)
        if _hash(existing) == _hash(item):
            return existing["metadata"], "already exists"
        if _difference(api, existing, item, namespace) != agreed:
            break
        try:
            updated = api.patch(resource, namespace, item["metadata"]["name"], _patch(existing, item))
        except ApiError as error:
            if error.reason != "Conflict":
                raise
        else:
            return updated["metadata"], "updated"
    raise CommandError(f"{_name(item)} in {namespace} was changed meanwhile; run the same command again")


def _existing(api: Api, item: _Object, namespace: str) -> dict[str, Any]:
    """Return the object that has the name of `item`. CommandError if no submission created it, or that is not known."""
    resource, name = RESOURCES[item["kind"]], item["metadata"].get("name", "")
    taken = f"{_name(item)} already exists in {namespace}; delete it or choose another --name"
    if item["kind"] == WORKFLOWS.kind:
        raise CommandError(taken)
    try:
        existing = api.get(resource, namespace, name)
    except ApiError as error:
        raise CommandError(f"{taken} (it cannot be read: {error})") from error
    if not is_ours(existing) or "deletionTimestamp" in existing["metadata"]:
        raise CommandError(taken)
    return existing


def _difference(api: Api, existing: _Object, item: _Object, namespace: str) -> str:
    """Return how an existing object would change, as the API server says; empty = it is from the same submission.

    CommandError if it must not change: it is a demo, or the API server refuses it.
    """
    if _hash(existing) == _hash(item):
        return ""
    name = item["metadata"]["name"]
    with _refusals(f"{_name(item)} cannot be updated in {namespace}"):
        check_changeable(RESOURCES[item["kind"]], existing)
        after = api.patch(RESOURCES[item["kind"]], namespace, name, _patch(existing, item), dry_run=True)
    title = f"{_name(item)} in {namespace}"
    lines = difflib.unified_diff(_lines(existing), _lines(after), f"{title}, now", f"{title}, then", lineterm="")
    return "\n".join(lines) or f"{title}: only its annotation {SPEC_HASH} changes"


def _patch(existing: _Object, item: _Object) -> dict[str, Any]:
    """Return a JSON merge patch that makes an object equal to `item`; a schedule that is paused stays paused."""
    metadata = {key: item["metadata"][key] for key in ("labels", "annotations") if key in item["metadata"]}
    unchanged = {key: existing["metadata"][key] for key in ("uid", "resourceVersion")}
    contents = {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata")}
    if "suspend" in existing.get("spec", {}) and "spec" in contents:
        contents["spec"] = {"suspend": existing["spec"]["suspend"], **contents["spec"]}
    merged = {key: _merge_patch(existing.get(key), value) for key, value in contents.items()}
    return {"metadata": {**metadata, **unchanged}, **merged}


def _merge_patch(old: Any, new: Any) -> Any:
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    return {
        **{key: None for key in old if key not in new},
        **{key: _merge_patch(old.get(key), new[key]) for key in new},
    }


def _lines(item: _Object) -> list[str]:
    """Return the lines of an object as users write it, without what the API server or tfsteps notes in it."""
    contents = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    if item["kind"] == CONFIG_MAPS.kind:
        contents["data"] = {key: _plain(text) for key, text in (item.get("data") or {}).items()}
    contents["labels"] = item["metadata"].get("labels") or {}
    return yaml.safe_dump(contents, width=120).splitlines()


def _plain(text: str) -> Any:
    try:
        return typed_json.decode(text, Any)
    except NOT_READABLE:
        return text


def _hash(item: _Object) -> str:
    return str((item["metadata"].get("annotations") or {}).get(SPEC_HASH, ""))


def _name(item: _Object) -> str:
    return f"{item['kind']} {item['metadata'].get('name', '')}".strip()


@contextlib.contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Turn a refusal of the cluster into a CommandError that begins with `what`."""
    try:
        yield
    except ApiError as error:
        if error.unavailable:
            raise
        raise CommandError(f"{what}: {error}") from error

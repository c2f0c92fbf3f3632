"""Finds out, before anything is created, why a job cannot run on this cluster.

Only a certain refusal is reported. Checks that are forbidden or fail for now report nothing: the launch will show it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.create import create
from tfsteps.systems.kubernetes.job_kind import JobKind, RenderedJob
from tfsteps.systems.kubernetes.permissions import Permission, needed
from tfsteps.systems.kubernetes.preflight.access import denied, how_to_grant
from tfsteps.systems.kubernetes.preflight.quotas import quota_violations
from tfsteps.systems.kubernetes.preflight.references import Reference, references

if TYPE_CHECKING:
    from tfsteps.kube.client import Api

_QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota")
_RANGES = Resource("v1", "limitranges", "LimitRange")
_OPERATORS = {  # values of `managedBy` that mean the operator of this cluster
    "jobset.sigs.k8s.io/jobset-controller",
    "kubeflow.org/training-operator",
    "kubernetes.io/job-controller",
    "trainer.kubeflow.org/trainjob-controller",
}
_UNDECIDED = {401, 409}  # 409: it exists already, which `create` handles


def findings(api: "Api", kind: JobKind, job: TrainingJob, rendered: RenderedJob) -> list[str]:
    """Return why a job cannot be created, or why its pods can never start; each finding says what to do.

    Nothing is created, and each request is sent once. Empty = no problem is known.
    """
    namespace, roles = rendered.namespace, kind.roles(rendered.observed())
    # The launcher's own pod tells who owns the job, and after SIGTERM whether the job goes on.
    own_pod = [Permission("get", PODS)] if api.access.in_pod else []
    forbidden = denied(api, namespace, needed(kind.resource, job, [*kind.permissions(job), *own_pod]))
    problems = []
    if forbidden:
        what = ", ".join(map(str, forbidden))
        how = how_to_grant(api, kind.name, namespace)
        problems.append(f"job system {kind.name}: in namespace {namespace} this launcher may not: {what}; {how}")
    if not any(permission.verb == "create" for permission in forbidden):  # else the dry run fails for that reason
        problems += _refused(api, kind, job, rendered)
    created = {(part["kind"], part["metadata"]["name"]) for part in rendered.dependents}
    for reference in references(rendered.manifest, roles.values()):
        if (reference.resource.kind, reference.name) not in created:
            problems += _missing(api, namespace, reference)
    problems += quota_violations(roles, _listed(api, _QUOTAS, namespace), _listed(api, _RANGES, namespace))
    return problems


def _refused(api: "Api", kind: JobKind, job: TrainingJob, rendered: RenderedJob) -> Iterator[str]:
    """Yield why the API server or a webhook refuses the object, or gives it to another cluster, by a dry run."""
    resource, namespace = kind.resource, rendered.namespace
    try:
        manager = _other_manager(create(api, kind, job, rendered, dry_run=True, once=True))
        if manager:
            yield (
                f"a webhook of the cluster gives the {resource.kind} to {manager} (field `managedBy`), which runs it "
                f"on another cluster; launchers follow the pods of this one only: name a `queue` whose jobs stay here"
            )
    except LaunchError as error:
        yield str(error)
    except ApiError as error:
        unsupported = "does not support dry run" in str(error)
        if error.missing:
            yield f"namespace {namespace} does not exist: create it, or name another"
        elif not (error.unavailable or error.status in _UNDECIDED or unsupported):
            why = kind.explain_rejection(rendered.manifest, str(error)) or error
            yield f"the cluster refuses the {resource.kind}: {why}"


def _other_manager(item: Mapping[str, Any]) -> str:
    """Return the controller that manages an object in place of its operator, as MultiKueue does; empty = none."""
    spec = item.get("spec") or {}
    manager = spec.get("managedBy") or (spec.get("runPolicy") or {}).get("managedBy")
    return "" if manager is None or manager in _OPERATORS else str(manager)


def _missing(api: "Api", namespace: str, reference: Reference) -> Iterator[str]:
    kind = reference.resource.kind
    where = f"{kind} {reference.name}" if reference.everywhere else f"{kind} {namespace}/{reference.name}"
    try:
        item = _get(api, namespace, reference)
    except ApiError as error:
        if error.missing:
            yield f"{where} is missing: create it, or correct its name"
        return
    keys = {**(item.get("data") or {}), **(item.get("binaryData") or {})}
    if reference.key and reference.key not in keys:
        yield f"{where} has no key {reference.key!r}: it has {', '.join(sorted(keys)) or 'none'}"


def _get(api: "Api", namespace: str, reference: Reference) -> dict[str, Any]:
    """Return the object, in the newest version of its API that the cluster serves. ApiError if it cannot be read."""
    *newer, last = (reference.resource, *reference.older)
    where = "" if reference.everywhere else namespace
    for resource in newer:
        try:
            return api.get(resource, where, reference.name, once=True)
        except ApiError as error:
            if error.status != 404 or error.missing:  # else this version is not served
                raise
    return api.get(last, where, reference.name, once=True)


def _listed(api: "Api", resource: Resource, namespace: str) -> Sequence[Mapping[str, Any]]:
    try:
        items: Sequence[Mapping[str, Any]] = api.list(resource, namespace, once=True)["items"] or []
    except ApiError:
        return []
    return items

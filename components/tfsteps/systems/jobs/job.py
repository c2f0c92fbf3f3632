"""Plain Kubernetes Jobs: renders a job as one Indexed Job for each role, and derives its state from them. Pure.

The Job of the decisive role, the chief's or the workers', is the job object: it has the job's name, and it owns the
other Jobs and the headless Service, which are deleted with it. Facts: batch/v1. Kubernetes 1.31 (`successPolicy`) is
needed if the success of worker 0 ends the Job of all workers; everything else needs 1.28.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfsteps.runs.events import ReplicaName, State
from tfsteps.runs.identity import PREFIX, Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import ROLES, Problem, RoleName, TrainingJob, options_of
from tfsteps.systems.jobs.capabilities import CAPABILITIES
from tfsteps.systems.jobs.options import JobsOptions
from tfsteps.systems.jobs.render import DECIDES, JOB, JOBS, PARTS, SERVICES, Rendering
from tfsteps.systems.kubernetes.dependents import UNFINISHED
from tfsteps.systems.kubernetes.job_kind import (
    DEPENDENTS,
    GONE,
    BaseJobKind,
    Between,
    ObjectPatch,
    RenderedJob,
    RoleSpec,
    Verdict,
    true_conditions,
)
from tfsteps.systems.kubernetes.permissions import Permission
from tfsteps.systems.kubernetes.preflight.references import QUEUE_LABEL
from tfsteps.systems.kubernetes.render import gang
from tfsteps.systems.kubernetes.render.indexed_job import replica_of
from tfsteps.systems.kubernetes.render.pod_template import CONTAINER, ROLE_LABEL

_DISMISSED = f"{PREFIX}dismissed"  # annotation of a Job that tfsteps ended after the end of the job
_SUCCEEDED, _FAILED = ("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")  # the first: pods still end
_BACKOFF = "BackoffLimitExceeded"
_Item = Mapping[str, Any]


class IndexedJobs(BaseJobKind):
    """The kind Job of batch/v1, one for each role."""

    name = "jobs"
    resource = JOBS
    operator = "the Job controller"
    container = CONTAINER
    capabilities = CAPABILITIES
    between: Sequence[Between] = (Between(JOBS, JOB),)

    def permissions(self, job: TrainingJob) -> list[Permission]:
        """Return the permissions to create the dependents, to unsuspend them and to end them together."""
        return [Permission("get", SERVICES), Permission("create", SERVICES), *gang.permissions(job)]

    # --- render

    def rules(self, job: TrainingJob) -> list[Problem]:
        """Return what is wrong with a gang, or with a queue of several Jobs."""
        problems = gang.spec_problems(job)
        if job.queue and len(job.roles.items()) > 1:
            wrong = "admits each role's Job separately: the admitted roles would wait for the others"
            fix = "Remove it, use --system jobset, which is admitted as a whole, or give the job one role"
            problems.append(Problem(path=("queue",), value=job.queue, wrong=wrong, fix=fix))
        return problems

    def render(self, job: TrainingJob, identity: Identity, places: OutputPaths, namespace: str) -> RenderedJob:
        """Return the Job of the decisive role, suspended until its dependents exist."""
        return Rendering(job, options_of(job, self.name, JobsOptions), identity, places, namespace).rendered()

    # --- the Jobs and pods of one job

    def watch_selector(self, name: str) -> dict[str, str]:
        """Return what to list and watch: all Jobs of the job."""
        return {"labelSelector": self.selector(name)}

    def group_objects(self, items: Iterable[_Item]) -> list[_Item]:
        """Return the job objects among Jobs, with the Jobs that they own; other Jobs are left out."""
        jobs = [item for item in items if JOB in (item["metadata"].get("labels") or {})]
        parts: dict[str, list[_Item]] = {}
        for item in jobs:
            for owner in item["metadata"].get("ownerReferences") or []:
                parts.setdefault(owner["uid"], []).append(item)
        return [
            {**item, DEPENDENTS: parts.get(item["metadata"]["uid"], [])}
            for item in jobs
            if item["metadata"]["name"] == item["metadata"]["labels"][JOB]
        ]

    def roles(self, item: _Item) -> dict[RoleName, RoleSpec]:
        """Return the roles of a job object and its parts."""
        templates = {_role(job): job["spec"] for job in _jobs(item)}
        return {
            name: RoleSpec(templates[name].get("completions", 1), templates[name]["template"])
            for name in ROLES
            if name in templates
        }

    def selector(self, name: str) -> str:
        """Return the label selector of the pods, and of the Jobs, of the job called `name`."""
        return f"{JOB}={name}"

    def replica(self, meta: _Item, _replicas: object) -> ReplicaName | None:
        """Return which replica a pod is by its labels; None = it is not a replica."""
        return replica_of(meta)

    # --- pause, end

    def pause(self, item: _Item, *, paused: bool) -> list[ObjectPatch]:
        """Return patches of `suspend` for all unfinished Jobs: pods are deleted, and created again on resume."""
        return [_change(job, {"spec": {"suspend": paused}}) for job in _jobs(item) if not _ended(job)]

    def stop_stragglers(self, item: _Item) -> list[ObjectPatch]:
        """Return patches that end the other Jobs of an ended job; a Job that ended by itself keeps its pods."""
        ending = {"metadata": {"annotations": {_DISMISSED: "true"}}, "spec": {"activeDeadlineSeconds": 1}}
        return [_change(job, ending) for job in _jobs(item) if not _ended(job)]

    # --- verdict

    def verdict(self, item: _Item) -> Verdict:
        """Return the verdict of the Jobs: the job fails with any of them, and succeeds with the decisive ones.

        It never succeeds if one of them was deleted and its end was not seen: that one may have failed.
        """
        for job in _jobs(item):
            if (failed := _condition(job, _FAILED)) and _DISMISSED not in _annotations(job):
                return _failure(job, failed)
        unfinished, lost = UNFINISHED in _annotations(item), _lost(item)
        known = [job for job in _jobs(item) if job["metadata"]["name"] not in lost]
        succeeded = all(_condition(job, _SUCCEEDED) for job in known if job is item or DECIDES in _annotations(job))
        if lost and not unfinished:
            message = f"Job {' and Job '.join(lost)} was deleted, and how its replicas ended is not known."
            return Verdict(State.LOST if succeeded else State.UNKNOWN, "PartDeleted", message)
        if succeeded and not lost:
            return Verdict(State.SUCCEEDED)
        if unfinished:
            return Verdict(State.PENDING, "Created")
        if item["spec"].get("suspend"):
            queued = QUEUE_LABEL in (item["metadata"].get("labels") or {})
            return Verdict(State.QUEUED if queued else State.SUSPENDED)
        return Verdict(State.PENDING, "Created" if item.get("status", {}).get("startTime") else "")


def _jobs(item: _Item) -> Iterator[_Item]:
    yield item
    dependents = item.get(DEPENDENTS, ())  # items of a list do not have their kind
    yield from (dependent for dependent in dependents if dependent.get("kind", JOBS.kind) == JOBS.kind)


def _role(job: _Item) -> str:
    return str((job["metadata"].get("labels") or {}).get(ROLE_LABEL, ""))


def _annotations(job: _Item) -> _Item:
    return job["metadata"].get("annotations") or {}


def _condition(job: _Item, kinds: tuple[str, ...]) -> _Item | None:
    """Return the first condition of one of `kinds` whose status is "True"."""
    return next((condition for kind, condition in true_conditions(job).items() if kind in kinds), None)


def _lost(item: _Item) -> list[str]:
    """Return the names of the Jobs of a job that were deleted before their end was seen."""
    parts = [part for part in _jobs(item) if part is not item]
    known = {_role(part) for part in parts if GONE not in part or _ended(part)}
    expected = {*_annotations(item).get(PARTS, "").split(), *map(_role, parts)}
    return [f"{item['metadata']['name']}-{role}" for role in ROLES if role in expected - known]


def _ended(job: _Item) -> bool:
    return bool(_condition(job, (*_SUCCEEDED, *_FAILED)))


def _failure(job: _Item, condition: _Item) -> Verdict:
    """Return why a Job failed. Without restarts, the first failure exceeds the limit, which is not worth a report."""
    reason = condition.get("reason", "")
    if reason == _BACKOFF and not job["spec"].get("backoffLimit"):
        return Verdict(State.FAILED, "ReplicaFailed", f"A replica of {_role(job)} failed.")
    return Verdict(State.FAILED, reason, condition.get("message", ""))


def _change(job: _Item, patch: _Item) -> ObjectPatch:
    return ObjectPatch(resource=JOBS, name=job["metadata"]["name"], patch=patch)

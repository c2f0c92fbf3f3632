"""Plain Kubernetes Jobs: renders a job as one Indexed Job for each role, and derives its state from them. Pure.

The Job of the decisive role, the chief's or the workers', is the job object: it has the job's name, and it owns the
other Jobs and the headless Service, which are deleted with it. Facts: batch/v1. Kubernetes 1.31 (`successPolicy`) is
needed if the success of worker 0 ends the Job of all workers; everything else needs 1.28.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.kube.resource import Resource
from tfsteps.runs.events import ReplicaName, State, Verdict
from tfsteps.runs.identity import PREFIX, Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import ROLES, Problem, ResolvedRole, RoleName, TrainingJob, options_of
from tfsteps.systems.jobs import CAPABILITIES, JobsOptions
from tfsteps.systems.kubernetes.dependents import UNFINISHED
from tfsteps.systems.kubernetes.job_kind import (
    DEPENDENTS,
    GONE,
    BaseJobKind,
    Between,
    ObjectPatch,
    RenderedJob,
    RoleSpec,
    true_conditions,
)
from tfsteps.systems.kubernetes.permissions import Permission
from tfsteps.systems.kubernetes.preflight.references import QUEUE_LABEL
from tfsteps.systems.kubernetes.render import gang
from tfsteps.systems.kubernetes.render.pod_template import (
    CONTAINER,
    INDEX_ENV,
    PORT,
    ROLE_LABEL,
    cluster_hosts,
    indexed_job_spec,
    pod_template,
    replica_of,
    tf_config,
)

_DISMISSED = f"{PREFIX}dismissed"  # annotation of a Job that tfsteps ended after the end of the job
_SUCCEEDED, _FAILED = ("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")  # the first: pods still end
_BACKOFF = "BackoffLimitExceeded"
_Item = Mapping[str, Any]
JOBS = Resource("batch/v1", "jobs", "Job")
SERVICES = Resource("v1", "services", "Service")
JOB = f"{PREFIX}job"
"""Label of the Jobs and pods of one job: the name of its job object."""

DECIDES = f"{PREFIX}decides"
"""Annotation of another Job that must succeed for the job to succeed."""

PARTS = f"{PREFIX}parts"
"""Annotation of a job object: the roles that have a Job of their own beside it, separated by spaces."""

_HOST = 63  # the length limit of a host name


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

    def render(self, job: TrainingJob, identity: Identity, paths: OutputPaths, namespace: str) -> RenderedJob:
        """Return the Job of the decisive role, suspended until its dependents exist."""
        return Rendering(job, options_of(job, self.name, JobsOptions), identity, paths, namespace).rendered()

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


class Rendering(msgspec.Struct, frozen=True, dict=True):
    """The rendering of one job."""

    job: TrainingJob
    options: JobsOptions
    identity: Identity
    paths: OutputPaths
    namespace: str

    def rendered(self) -> RenderedJob:
        """Return the job object with its dependents."""
        jobs = {name: self._job(name, role) for name, role in self.job.resolved_roles().items()}
        first = jobs.pop(self.job.decisive_replica[0])
        if jobs:
            first["metadata"]["annotations"][PARTS] = " ".join(jobs)
        dependents = [*self._service(), *self._pod_group(), *jobs.values()]
        if self.job.queue:
            first["metadata"]["labels"] |= {QUEUE_LABEL: self.job.queue}
        if self.job.keep_for is not None:
            first["spec"]["ttlSecondsAfterFinished"] = round(self.job.keep_for)
        if self.options.suspend or dependents:
            first["spec"]["suspend"] = True
        others_start_it = self.options.suspend or self.job.queue
        unsuspend = {"spec": {"suspend": False}} if dependents and not others_start_it else {}
        return RenderedJob(first, dependents, unsuspend)

    @functools.cached_property
    def _name(self) -> str:
        """The job object's name: `<name>-<role>-<index>` is a host name."""
        longest = max(len(f"-{name}-{role.replicas - 1}") for name, role in self.job.roles.items())
        return self.identity.job_name(self.job.name, _HOST - longest)

    def _name_of(self, role: RoleName) -> str:
        return self._name if role == self.job.decisive_replica[0] else f"{self._name}-{role}"

    @property
    def _labels(self) -> dict[str, str]:
        return {**self.job.labels, **self.identity.labels(), JOB: self._name}

    def _job(self, name: RoleName, role: ResolvedRole) -> dict[str, Any]:
        annotations = dict(self.job.annotations)
        if name == "worker" and name != self.job.decisive_replica[0] and self.job.success == "all_workers":
            annotations[DECIDES] = "true"
        metadata = {
            "name": self._name_of(name),
            "namespace": self.namespace,
            "labels": {**self._labels, ROLE_LABEL: name},
            "annotations": annotations,
        }
        alone = name == self.job.decisive_replica[0] and self.job.success == "chief"
        spec = indexed_job_spec(self.job, role, self._template(name, role), decides_alone=alone)
        return {"apiVersion": JOBS.api, "kind": JOBS.kind, "metadata": metadata, "spec": spec}

    def _template(self, name: RoleName, role: ResolvedRole) -> dict[str, Any]:
        env = [dict(INDEX_ENV), {"name": "TF_CONFIG", "value": tf_config(name, self._hosts)}]
        label = self.options.gpu_label
        template = pod_template(
            self.job, name, role, identity=self.identity, paths=self.paths, gpu_label=label, more_env=env
        )
        template["metadata"]["labels"][JOB] = self._name
        if self.job.replicas > 1:
            template["spec"]["subdomain"] = self._name
        if self.options.priority_class:
            template["spec"]["priorityClassName"] = self.options.priority_class
        return gang.gang_pod(template, self.job.gang, self._name) if self.job.gang else template

    @property
    def _hosts(self) -> dict[RoleName, list[str]]:
        """The address of each replica of the TensorFlow cluster."""
        domain = f"{self._name}.{self.namespace}.svc"
        return cluster_hosts(self.job, lambda role, index: f"{self._name_of(role)}-{index}.{domain}")

    # --- parts

    def _service(self) -> Iterator[dict[str, Any]]:
        """Yield the headless Service that gives the pods host names, before they are ready."""
        if self.job.replicas == 1:
            return
        metadata = {"name": self._name, "namespace": self.namespace, "labels": self._labels}
        spec = {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB: self._name},
            "ports": [{"name": "tensorflow", "port": PORT}],
        }
        yield {"apiVersion": SERVICES.api, "kind": SERVICES.kind, "metadata": metadata, "spec": spec}

    def _pod_group(self) -> Iterator[dict[str, Any]]:
        if self.job.gang:
            yield gang.pod_group(self.job, self._name, self.namespace, self._labels)

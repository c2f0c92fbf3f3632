"""JobSet: renders a job as a JobSet, and derives its state from one. Pure.

Each role is one replicated job, an Indexed Job with an index for each replica. Facts and traps: JobSet 0.10.1, its
source and its observed behaviour on a cluster.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.kube.resource import Resource
from tfsteps.runs.events import ReplicaName, State, Verdict
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import ROLES, Problem, ResolvedRole, RoleName, TrainingJob, format_duration, options_of
from tfsteps.systems.jobset import CAPABILITIES, JobSetOptions
from tfsteps.systems.kubernetes.job_kind import (
    BaseJobKind,
    Between,
    ObjectPatch,
    RenderedJob,
    RoleSpec,
    true_conditions,
)
from tfsteps.systems.kubernetes.permissions import JOBS, Permission
from tfsteps.systems.kubernetes.preflight.references import QUEUE_LABEL
from tfsteps.systems.kubernetes.render import gang
from tfsteps.systems.kubernetes.render.pod_template import (
    CONTAINER,
    INDEX_ENV,
    cluster_hosts,
    indexed_job_spec,
    pod_template,
    replica_of,
    tf_config,
)
from tfsteps.systems.kubernetes.times import age_at

_OWN = "jobset.sigs.k8s.io/jobset-name"  # a label that the controller puts on Jobs and pods
_TRAINERS = ("chief", "worker")
_NAME = 63  # of a pod, whose name ends with five random characters
_FAILED_JOBS, _BY_RULE = "FailedJobs", "FailJobSetFailurePolicyAction"
_LIMIT = "BackoffLimitExceeded"  # the reason of a Job; a JobSet only reports which of its rules applied


class JobSet(BaseJobKind):
    """The kind JobSet."""

    name = "jobset"
    resource = Resource("jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet")
    operator = "the JobSet controller"
    container = CONTAINER
    capabilities = CAPABILITIES
    options = JobSetOptions
    between: Sequence[Between] = (Between(JOBS, _OWN),)

    # --- render

    def permissions(self, job: TrainingJob) -> list[Permission]:
        """Return the permissions to see which pods are the job's, and to create the PodGroup of a gang."""
        return [Permission("list", JOBS), *(gang.permissions(job) if job.gang else [])]

    def rules(self, job: TrainingJob) -> list[Problem]:
        """Return what is wrong with a gang, and with restarts of all replicas together."""
        options = options_of(job, self.name, JobSetOptions)
        return [*gang.spec_problems(job), *(_not_together(job) if options.restart_together else [])]

    def render(self, job: TrainingJob, identity: Identity, paths: OutputPaths, namespace: str) -> RenderedJob:
        """Return the object that is created, with a PodGroup where the job has a gang."""
        options = options_of(job, self.name, JobSetOptions)
        # the name of a pod is `<name>-<role>-0-<index>-<random>`
        tail = max(len(f"-{name}-0-{role.replicas - 1}-12345") for name, role in job.roles.items())
        name = identity.job_name(job.name, _NAME - tail)
        domain = f"{name}.{namespace}.svc"  # the JobSet's headless Service
        hosts = cluster_hosts(job, lambda role, index: f"{name}-{role}-0-{index}.{domain}")
        template = functools.partial(pod_template, job, identity=identity, paths=paths, gpu_label=options.gpu_label)
        labels = {**job.labels, **identity.labels()}
        jobs = []
        for role_name, role in job.resolved_roles().items():
            env = [dict(INDEX_ENV), {"name": "TF_CONFIG", "value": tf_config(role_name, hosts)}]
            pod = template(role_name, role, more_env=env)
            if job.gang:
                pod = gang.gang_pod(pod, job.gang, name)
            rendered_role = _without_restarts(role) if role_name in _together(job, options) else role
            jobs.append(_replicated_job(job, role_name, rendered_role, _prioritized(pod, options)))
        manifest: dict[str, Any] = {
            "apiVersion": self.resource.api,
            "kind": self.resource.kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {**({QUEUE_LABEL: job.queue} if job.queue else {}), **labels},
                "annotations": dict(job.annotations),
            },
            "spec": {"replicatedJobs": jobs, **_policies(job, options)},
        }
        if not job.gang:
            return RenderedJob(manifest)
        manifest["spec"]["suspend"] = True  # a pod is scheduled alone if its group does not exist yet
        others_start_it = options.suspend or job.queue
        unsuspend = {} if others_start_it else {"spec": {"suspend": False}}
        return RenderedJob(manifest, [gang.pod_group(job, name, namespace, labels)], unsuspend)

    # --- the job's pods

    def roles(self, item: Mapping[str, Any]) -> dict[RoleName, RoleSpec]:
        """Return the roles of a JobSet."""
        specs = {job["name"]: job["template"]["spec"] for job in item["spec"]["replicatedJobs"]}
        return {name: RoleSpec(specs[name]["parallelism"], specs[name]["template"]) for name in ROLES if name in specs}

    def selector(self, name: str) -> str:
        return f"{_OWN}={name}"

    def replica(self, meta: Mapping[str, Any], _replicas: Sequence[ReplicaName]) -> ReplicaName | None:
        """Return which replica a pod is by its role and its index in its Job; None = it is not a replica."""
        return replica_of(meta)

    def restart_limit(self, job: TrainingJob) -> int:
        """Return how many restarts of replicas are possible; of those together, the JobSet counts one for all."""
        options = options_of(job, self.name, JobSetOptions)
        together = job.effective_backoff_limit * sum(role.replicas for _, role in job.roles.items())
        return super().restart_limit(job) + (together if _together(job, options) else 0)

    # --- pause

    def pause(self, item: Mapping[str, Any], *, paused: bool) -> list[ObjectPatch]:
        """Return a patch of spec.suspend: the controller suspends the Jobs, which ends their pods."""
        return [ObjectPatch(resource=self.resource, name=item["metadata"]["name"], patch={"spec": {"suspend": paused}})]

    # --- verdict

    def verdict(self, item: Mapping[str, Any]) -> Verdict:
        """Return the verdict of a JobSet. Conditions that no longer hold stay listed with status "False"."""
        status = item.get("status") or {}
        true = true_conditions(item)
        ended = status.get("terminalState")
        if "Failed" in true or ended == "Failed":
            return _failed(item, true.get("Failed", {}))
        if "Completed" in true or ended == "Completed":
            return _verdict_of(true.get("Completed", {}), State.SUCCEEDED)
        if item["spec"].get("suspend") or "Suspended" in true:
            queued = QUEUE_LABEL in (item["metadata"].get("labels") or {})
            return _verdict_of(true.get("Suspended", {}), State.QUEUED if queued else State.SUSPENDED)
        if "RestartingJobSet" in true:  # from 0.11 on, until all pods are ready again
            return _verdict_of(true["RestartingJobSet"], State.RESTARTING)
        return Verdict(State.PENDING, "Created" if status.get("replicatedJobsStatus") else "")


def _replicated_job(job: TrainingJob, name: RoleName, role: ResolvedRole, pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a role. Its Job gets no tfsteps labels: with them it would look like a Job of the system `jobs`."""
    alone = job.success == "chief" and (name, 0) == job.decisive_replica
    spec = indexed_job_spec(job, role, pod, decides_alone=alone)
    return {"name": name, "replicas": 1, "template": {"spec": spec}}


def _prioritized(pod: Mapping[str, Any], options: JobSetOptions) -> dict[str, Any]:
    priority = {"priorityClassName": options.priority_class} if options.priority_class else {}
    return {**pod, "spec": {**priority, **pod["spec"]}}


def _policies(job: TrainingJob, options: JobSetOptions) -> dict[str, Any]:
    """Return the policies of the JobSet. The success of the target Jobs ends all others."""
    trainers = [name for name, _ in job.roles.items() if name in _TRAINERS]
    decisive = trainers if job.success == "all_workers" else [job.decisive_replica[0]]
    policies: dict[str, Any] = {"successPolicy": {"operator": "All", "targetReplicatedJobs": decisive}}
    if failure := _failure_policy(job, options):
        policies["failurePolicy"] = failure
    if job.keep_for is not None:
        policies["ttlSecondsAfterFinished"] = round(job.keep_for)
    if options.suspend:
        policies["suspend"] = True
    return policies


def _together(job: TrainingJob, options: JobSetOptions) -> list[RoleName]:
    """Return the roles of which a failed replica restarts all replicas; empty = each restarts alone."""
    if not options.restart_together:
        return []
    return [name for name, role in job.resolved_roles().items() if name in _TRAINERS and role.restart != "never"]


def _without_restarts(role: ResolvedRole) -> ResolvedRole:
    """Return the role with a Job that fails with its first pod; only its exit codes still matter."""
    restart = "exit_code" if role.restart == "exit_code" else "never"
    return msgspec.structs.replace(role, restart=restart, backoff_limit=0)


def _failure_policy(job: TrainingJob, options: JobSetOptions) -> dict[str, Any]:
    """Return what follows if one of the Jobs has failed for good; empty = the JobSet fails.

    The rules also distinguish an exceeded limit from other failures; the JobSet's own reason does not. A failure
    without a rule restarts the JobSet. It waits for the end of all pods first: a new replica must not join old ones.
    """
    restarts = {name: role.restart for name, role in job.resolved_roles().items()}
    if together := _together(job, options):
        permanent = [name for name in together if restarts[name] == "exit_code"]
        alone = [name for name in restarts if name not in together]
        rules = [
            _fail("DeadlineExceeded", list(restarts), "DeadlineExceeded"),
            *([_fail("PodFailurePolicy", permanent, "PodFailurePolicy")] if permanent else []),
            *([_fail("RestartedAlone", alone)] if alone else []),
        ]
        return {"maxRestarts": job.effective_backoff_limit, "restartStrategy": "BlockingRecreate", "rules": rules}
    limited = [name for name, restart in restarts.items() if restart != "never"]
    return {"maxRestarts": 0, "rules": [_fail(_LIMIT, limited, _LIMIT)]} if limited else {}


def _fail(name: str, roles: Sequence[str], *reasons: str) -> dict[str, Any]:
    """Return a rule by which the JobSet fails with a Job of `roles`; no `reasons` = whatever its reason is."""
    matched = {"onJobFailureReasons": list(reasons)} if reasons else {}
    return {"name": name, "action": "FailJobSet", **matched, "targetReplicatedJobs": list(roles)}


def _failed(item: Mapping[str, Any], condition: Mapping[str, Any]) -> Verdict:
    """Return the verdict of a JobSet that has failed. Its own reason never says that a Job's deadline has passed."""
    reason, message = _failure(item, condition.get("reason", "")), condition.get("message", "")
    limit = min(
        job["template"]["spec"].get("activeDeadlineSeconds", math.inf) for job in item["spec"]["replicatedJobs"]
    )
    if reason in (_FAILED_JOBS, _BY_RULE) and age_at(item, condition) >= limit:
        message = f"A Job was active for longer than its activeDeadlineSeconds, {format_duration(limit)}."
        return Verdict(State.FAILED, "DeadlineExceeded", message)
    return Verdict(State.FAILED, reason, message)


def _failure(item: Mapping[str, Any], reason: str) -> str:
    """Return the reason for a failure: an exceeded limit, or the JobSet's own reason."""
    policy = item["spec"].get("failurePolicy") or {}
    on_limit = any(_LIMIT in (rule.get("onJobFailureReasons") or []) for rule in policy.get("rules") or [])
    if reason == "ReachedMaxRestarts":
        return _LIMIT if policy.get("maxRestarts") else _FAILED_JOBS
    return _LIMIT if reason == _BY_RULE and on_limit else reason


def _not_together(job: TrainingJob) -> Iterator[Problem]:
    """Yield what contradicts restarts of all replicas together."""
    trainers = {name: role for name, role in job.resolved_roles().items() if name in _TRAINERS}
    if all(role.restart == "never" for role in trainers.values()):
        wrong, fix = "restarts nothing: `restart` is `never`", "Write `restart: on_failure`, or remove it"
        yield Problem(path=("systems", "jobset", "restart_together"), value="true", wrong=wrong, fix=fix)
    for name, role in trainers.items():
        if role.backoff_limit is not None:
            wrong = "counts restarts of this role alone, and `restart_together` restarts all roles"
            fix = "Write `backoff_limit` at the top of the job"
            yield Problem(path=("roles", name, "backoff_limit"), value=str(role.backoff_limit), wrong=wrong, fix=fix)


def _verdict_of(condition: Mapping[str, Any], state: State) -> Verdict:
    return Verdict(state, condition.get("reason", ""), condition.get("message", ""))

"""TFJob: renders a job as a TFJob, and derives its state from one. Pure.

Facts and traps: kubeflow/training-operator 1.8 and 1.9, and their observed behaviour on a cluster.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tfsteps.kube.resource import Resource
from tfsteps.runs.events import ReplicaName, State, Verdict
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import Problem, RoleName, TrainingJob, options_of
from tfsteps.systems.kubeflow import CAPABILITIES, KubeflowOptions
from tfsteps.systems.kubernetes.job_kind import BaseJobKind, ObjectPatch, RenderedJob, RoleSpec, true_conditions
from tfsteps.systems.kubernetes.permissions import Permission
from tfsteps.systems.kubernetes.preflight.references import QUEUE_LABEL
from tfsteps.systems.kubernetes.render import gang
from tfsteps.systems.kubernetes.render.command_wrapper import container_of, needs_correction, uncorrected
from tfsteps.systems.kubernetes.render.pod_template import (
    CONTAINER,
    RESTART_POLICIES,
    cluster_hosts,
    pod_template,
    tf_config,
)

_TYPES: dict[RoleName, str] = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
_LABEL = "training.kubeflow.org/"
_NAME = 63  # of a pod, which is also a Service and a host
_CORRECTED = "TFSTEPS_TF_CONFIG"
_INDEX: dict[str, Any] = {
    "name": "TFSTEPS_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{_LABEL}replica-index']"}},
}
_LIMITS = {  # by words of the condition's message: its reason is the same for every failure
    "reached the specified backoff limit": "BackoffLimitExceeded",
    "active longer than specified deadline": "DeadlineExceeded",
}


class TFJob(BaseJobKind):
    """The kind TFJob."""

    name = "kubeflow"
    resource = Resource("kubeflow.org/v1", "tfjobs", "TFJob")
    operator = "the training operator"
    container = CONTAINER
    capabilities = CAPABILITIES
    options = KubeflowOptions

    # --- render

    def rules(self, job: TrainingJob) -> list[Problem]:
        """Return the problems of a gang, and a TF_CONFIG that hangs the chief of parameter servers."""
        return [*gang.spec_problems(job), *uncorrected(job)]

    def render(self, job: TrainingJob, identity: Identity, paths: OutputPaths, namespace: str) -> RenderedJob:
        """Return the object that is created."""
        options = options_of(job, self.name, KubeflowOptions)
        # pods, Services and hosts are named `<name>-<type>-<index>`
        tail = max(len(f"-{name}-{role.replicas - 1}") for name, role in job.roles.items())
        name = identity.job_name(job.name, _NAME - tail)
        domain = f"{namespace}.svc" + (f".{options.service_host}" if options.service_host else "")
        hosts = cluster_hosts(job, lambda role, index: f"{name}-{role}-{index}.{domain}")  # the operator's Services
        # the operator sets no TF_CONFIG if there is only one replica, and one that hangs if there are ps and evaluator
        ours = "TF_CONFIG" if job.replicas == 1 else _CORRECTED if needs_correction(job) else ""
        replicas: dict[str, Any] = {}
        for role_name, role in job.resolved_roles().items():
            env = [dict(_INDEX)]
            if ours:
                env.append({"name": ours, "value": tf_config(role_name, hosts)})
            template = pod_template(job, role_name, role, identity, paths, gpu_label=options.gpu_label, more_env=env)
            if ours == _CORRECTED:
                container = container_of(template, CONTAINER)
                container["command"] = ["env", f"TF_CONFIG=$({_CORRECTED})", *container["command"]]
            pod = gang.gang_pod(template, job.gang, name) if job.gang else template
            replicas[_TYPES[role_name]] = {
                "replicas": role.replicas,
                "restartPolicy": RESTART_POLICIES[role.restart],
                "template": pod,
            }
        spec: dict[str, Any] = {"runPolicy": _run_policy(job, options), "tfReplicaSpecs": replicas}
        if job.success == "all_workers":
            spec["successPolicy"] = "AllWorkers"
        if options.dynamic_workers:
            spec["enableDynamicWorker"] = True
        queue_label = {QUEUE_LABEL: job.queue} if job.queue and options.queue_in == "kueue" else {}
        metadata = {
            "name": name,
            "namespace": namespace,
            "labels": {**job.labels, **queue_label, **identity.labels()},
            "annotations": dict(job.annotations),
        }
        manifest = {"apiVersion": self.resource.api, "kind": self.resource.kind, "metadata": metadata, "spec": spec}
        if not job.gang:
            return RenderedJob(manifest)
        # an operator that creates PodGroups adopts this one, or has created it; other operators ignore it
        return RenderedJob(manifest, [gang.pod_group(job, name, namespace, {**job.labels, **identity.labels()})])

    def permissions(self, job: TrainingJob) -> list[Permission]:
        """Return the permissions for a gang: to create its PodGroup, and to annotate the job once it exists."""
        return gang.permissions(job)

    # --- the job's pods

    def roles(self, item: Mapping[str, Any]) -> dict[RoleName, RoleSpec]:
        """Return the roles of a TFJob."""
        specs = item["spec"]["tfReplicaSpecs"]
        return {
            name: RoleSpec(specs[kind].get("replicas", 1), specs[kind]["template"])
            for name, kind in _TYPES.items()
            if kind in specs
        }

    def selector(self, name: str) -> str:
        return f"{_LABEL}job-name={name}"

    def replica(self, meta: Mapping[str, Any], _replicas: Sequence[ReplicaName]) -> ReplicaName | None:
        """Return which replica a pod is by its labels; None = it is not a replica."""
        labels = meta.get("labels") or {}
        role, index = labels.get(f"{_LABEL}replica-type", ""), labels.get(f"{_LABEL}replica-index", "")
        return ReplicaName(role, int(index)) if role in _TYPES and index.isdigit() else None

    # --- pause

    def pause(self, item: Mapping[str, Any], *, paused: bool) -> list[ObjectPatch]:
        """Return a patch of runPolicy.suspend: the operator deletes the pods, and creates them again on resume."""
        patch = {"spec": {"runPolicy": {"suspend": paused}}}
        return [ObjectPatch(resource=self.resource, name=item["metadata"]["name"], patch=patch)]

    # --- verdict

    def verdict(self, item: Mapping[str, Any]) -> Verdict:
        """Return the verdict of a TFJob.

        Conditions that no longer hold stay listed with status "False". If Succeeded and Failed are both "True", the job
        has failed.
        """
        true = true_conditions(item)
        for kind, state in (("Failed", State.FAILED), ("Succeeded", State.SUCCEEDED)):
            if kind in true:
                return _verdict_of(true[kind], state)
        suspended = item.get("spec", {}).get("runPolicy", {}).get("suspend")
        if suspended or "Suspended" in true:
            return _verdict_of(true.get("Suspended", {}), State.QUEUED if _queue(item) else State.SUSPENDED)
        if "Restarting" in true:
            return _verdict_of(true["Restarting"], State.RESTARTING)
        if "Running" in true:
            return Verdict(State.RUNNING)
        return Verdict(State.PENDING, "Created" if "Created" in true else "")


def _run_policy(job: TrainingJob, options: KubeflowOptions) -> dict[str, Any]:
    """Return `spec.runPolicy`. At the root of `spec`, the same fields would be dropped silently."""
    policy: dict[str, Any] = {
        "cleanPodPolicy": "Running",  # parameter servers never end by themselves; ended pods keep their logs
        "activeDeadlineSeconds": round(job.deadlines.total),
    }
    if any(role.restart != "never" for role in job.resolved_roles().values()):
        policy["backoffLimit"] = (
            job.effective_backoff_limit + 1
        )  # it gives up when this many restarts are reached, not passed
    if job.keep_for is not None:
        policy["ttlSecondsAfterFinished"] = round(job.keep_for)
    if options.suspend:
        policy["suspend"] = True
    scheduling = {
        "queue": job.queue if options.queue_in == "scheduling_policy" else None,
        "priorityClass": options.priority_class,
        "minAvailable": options.min_available,
        "scheduleTimeoutSeconds": options.schedule_timeout and round(options.schedule_timeout),
    }
    policy_fields = {key: value for key, value in scheduling.items() if value}
    if job.gang:
        policy_fields |= gang.scheduling_policy(job.gang, job.replicas)
    if policy_fields:
        policy["schedulingPolicy"] = policy_fields
    return policy


def _verdict_of(condition: Mapping[str, Any], state: State) -> Verdict:
    reason, message = condition.get("reason", ""), condition.get("message", "")
    if state is State.FAILED:
        reason = next((limit for words, limit in _LIMITS.items() if words in message), reason)
    return Verdict(state, reason, message)


def _queue(item: Mapping[str, Any]) -> bool:
    """Tell whether a queue suspended the job, not a user."""
    scheduling = item["spec"].get("runPolicy", {}).get("schedulingPolicy") or {}
    return bool(scheduling.get("queue") or QUEUE_LABEL in (item["metadata"].get("labels") or {}))

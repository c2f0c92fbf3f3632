"""TfJob, v1alpha1: renders a job as a TfJob, and derives its state from one. Pure.

Facts and traps: tensorflow/k8s at commit 2b67180 (2017-12-12), and tf-operator 0.1.0.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.kube.resource import PODS, Resource
from tfsteps.platforms.tfjob_v1alpha1 import layout
from tfsteps.platforms.tfjob_v1alpha1.layout import Api, Part
from tfsteps.platforms.tfjob_v1alpha1.options import CAPABILITIES, TfJobOptions, keeps_operators_tf_config
from tfsteps.runs.events import ReplicaName, State, Verdict
from tfsteps.runs.identity import PREFIX, Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import ROLES, Problem, RoleName, TrainingJob, options_of
from tfsteps.systems.kubernetes.cleanup.retention import retention_policy
from tfsteps.systems.kubernetes.job_kind import (
    DEPENDENTS,
    BaseJobKind,
    Between,
    ObjectPatch,
    RenderedJob,
    RoleSpec,
    TensorBoardLink,
)
from tfsteps.systems.kubernetes.permissions import Permission
from tfsteps.systems.kubernetes.render.command_wrapper import BESIDE, container_of, exporting
from tfsteps.systems.kubernetes.render.pod_template import (
    CONTAINER,
    INDEX_ENV,
    ROLE_LABEL,
    indexed_job_spec,
    pod_template,
    tf_config,
)

_PAUSED, _EVALUATOR = f"{PREFIX}paused", f"{PREFIX}evaluator"  # annotations of a TfJob
_ROLES: dict[str, RoleName] = {"MASTER": "chief", "WORKER": "worker", "PS": "ps"}
_NO_SERVER_PROGRAM = "no such file"  # of grpcServerFilePath, in the operator's reason
_PROGRAM_OF_THE_OPERATOR: Mapping[str, Any] = {"metadata": {}, "spec": {"containers": []}}
JOBS = Resource("batch/v1", "jobs", "Job")
OWN = "tf_job_name"
"""Label of all objects that the operator creates for a job; tfsteps puts it on the evaluator too."""

_CORRECTED = "TFSTEPS_TF_CONFIG"


class TfJob(BaseJobKind):
    """The kind TfJob of one of its two APIs."""

    name = "tfjob-v1alpha1"
    container = CONTAINER  # the operator accepts no template without a container of this name
    capabilities = CAPABILITIES
    shell = BESIDE
    options = TfJobOptions
    between: Sequence[Between] = (Between(JOBS, OWN),)

    def __init__(self, api: Api, kind: str, operator: str) -> None:
        """Keep the API's group, the spelling of the kind there, and the operator's name for messages."""
        self.api = api
        self.resource = Resource(f"{api}/v1alpha1", "tfjobs", kind)
        self.operator = operator

    # --- render

    def permissions(self, job: TrainingJob) -> list[Permission]:
        """Return the permissions to end the Kubernetes Jobs of a TfJob, create the evaluator's, and label pods."""
        options = options_of(job, self.name, TfJobOptions)
        needed = [Permission("list", JOBS), Permission("patch", JOBS)]
        needed += [Permission("create", JOBS)] if job.roles.evaluator else []
        unlabelled = options.default_ps or options.api == "kubeflow.org"
        return [*needed, Permission("patch", PODS)] if unlabelled else needed

    def spec_problems(self, job: TrainingJob) -> list[Problem]:
        """Return what a TfJob does not support; the operator's own parameter servers need no image."""
        options = options_of(job, self.name, TfJobOptions)
        free = ("roles", "ps", "image") if options.default_ps else None
        return [
            *(problem for problem in super().spec_problems(job) if problem.path != free),
            *layout.spec_problems(job, options),
        ]

    def differences(self, job: TrainingJob) -> list[str]:
        """Return what is different in a TfJob."""
        return layout.warnings(job, options_of(job, self.name, TfJobOptions))

    def render(self, job: TrainingJob, identity: Identity, paths: OutputPaths, namespace: str) -> RenderedJob:
        """Return the object that is created, with a Kubernetes Job for the evaluator."""
        options = options_of(job, self.name, TfJobOptions)
        name = identity.job_name(job.name, layout.name_limit(job, self.api))
        context = Context(job, identity, paths, options, name)
        labels = {**job.labels, **identity.labels()}
        metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": dict(job.annotations)}
        spec: dict[str, Any] = {
            "RuntimeId": layout.runtime_id(name),
            "replicaSpecs": [replica_spec(context, part) for part in layout.parts(job, self.api)],
            "terminationPolicy": {"chief": {"replicaName": layout.decisive_type(job, self.api), "replicaIndex": 0}},
        }
        if image := options.tf_image or (job.tensorboard and job.tensorboard.image) or job.image:
            spec["tfImage"] = image
        if job.tensorboard:
            spec["tensorboard"] = tensorboard(context)
        if options.scheduler_name:
            spec["schedulerName"] = options.scheduler_name
        manifest = {"apiVersion": self.resource.api, "kind": self.resource.kind, "metadata": metadata, "spec": spec}
        if not job.roles.evaluator:
            return RenderedJob(manifest)
        metadata["annotations"] = {**job.annotations, _EVALUATOR: str(job.roles.evaluator.replicas)}
        return RenderedJob(manifest, [evaluator(context, namespace)])

    # --- the job's pods

    def roles(self, item: Mapping[str, Any]) -> dict[RoleName, RoleSpec]:
        """Return the roles of a TfJob; a worker may be its MASTER. Default parameter servers have no template."""
        specs: dict[RoleName, RoleSpec] = {}
        for spec in item["spec"]["replicaSpecs"]:
            template = spec.get("template") or _PROGRAM_OF_THE_OPERATOR
            labels = (template.get("metadata") or {}).get("labels") or {}
            role = labels.get(ROLE_LABEL, _ROLES[spec["tfReplicaType"]])
            before = specs[role].replicas if role in specs else 0
            specs[role] = RoleSpec(before + spec.get("replicas", 1), template)
        if evaluators := int((item["metadata"].get("annotations") or {}).get(_EVALUATOR, "0")):
            templates_seen = [part["spec"]["template"] for part in item.get(DEPENDENTS, ())]
            specs["evaluator"] = RoleSpec(evaluators, templates_seen[0] if templates_seen else _PROGRAM_OF_THE_OPERATOR)
        return {name: specs[name] for name in ROLES if name in specs}

    def selector(self, name: str) -> str:
        return f"{OWN}={name}"

    def replica(self, meta: Mapping[str, Any], replicas: Sequence[ReplicaName]) -> ReplicaName | None:
        """Return which replica a pod is, by the operator's labels; only an evaluator's pod has none of them.

        Default parameter servers, and all pods of tf-operator 0.1.0, have no label of ours.
        """
        labels = meta.get("labels") or {}
        kind, task = labels.get("job_type", ""), labels.get("task_index", "0")
        has_chief = ReplicaName("chief", 0) in replicas
        by_type = "worker" if kind == "MASTER" and not has_chief else _ROLES.get(kind, "")
        role = labels.get(ROLE_LABEL) or by_type
        if role not in ROLES or not task.isdigit():
            return None
        after_master = kind == "WORKER" and self.api == "tensorflow.org" and not has_chief
        return ReplicaName(role, int(task) + after_master)

    def pod_labels(self, item: Mapping[str, Any], replica: ReplicaName) -> dict[str, str]:
        """Return the labels of the run for the pods to which the operator does not copy them."""
        return {**(item["metadata"].get("labels") or {}), ROLE_LABEL: replica.role}

    def other_name(self, item: Mapping[str, Any]) -> str:
        """Return the RuntimeId, by which the operator's documents find a job's pods."""
        return str((item.get("spec") or {}).get("RuntimeId") or "")

    def tensorboard_link(self, item: Mapping[str, Any]) -> TensorBoardLink | None:
        """Return the TensorBoard of a job; its status does not mention it, but its Service's name is known."""
        meta = item["metadata"]
        if not item["spec"].get("tensorboard"):
            return None
        service = f"{meta['name']}-tensorboard-{item['spec']['RuntimeId']}"
        return TensorBoardLink(path=f"/api/v1/namespaces/{meta['namespace']}/services/{service}:80/proxy/")

    # --- pause, end

    def pause(self, item: Mapping[str, Any], *, paused: bool) -> list[ObjectPatch]:
        """Return the suspension of all the job's Kubernetes Jobs; the operator accepts it. 0.1.0 has none."""
        if self.api == "kubeflow.org":
            return []
        note = {"metadata": {"annotations": {_PAUSED: "true" if paused else None}}}
        annotation = ObjectPatch(resource=self.resource, name=item["metadata"]["name"], patch=note)
        jobs = _jobs(item, "", {"suspend": paused})
        return [annotation, jobs] if paused else [jobs, annotation]

    def stop_stragglers(self, item: Mapping[str, Any]) -> list[ObjectPatch]:
        """Return patches that end the job's Kubernetes Jobs, because the operator does not. Ended pods are kept.

        The operator reports success when the MASTER's container has ended, a second or two before its Job is complete.
        If the pod is deleted in this time, the Job would run the program again: so it gets no further tries. If the
        MASTER has failed, Kubernetes would restart it: in a new pod, or in the same pod, which cannot be kept then.
        """
        others = _jobs(item, ",job_type!=MASTER", {"suspend": True})
        if self.verdict(item).state is not State.FAILED:
            last_try = _jobs(item, ",job_type=MASTER", {"backoffLimit": 0})
            return [others] if retention_policy(item).on_end == "keep" else [last_try, others]
        master: Mapping[str, Any] = next(
            (
                replica_spec
                for replica_spec in item["spec"]["replicaSpecs"]
                if replica_spec["tfReplicaType"] == "MASTER"
            ),
            {},
        )
        in_place = master.get("template", {}).get("spec", {}).get("restartPolicy") != "Never"
        return [_jobs(item, ",job_type=MASTER", {"suspend": True} if in_place else {"backoffLimit": 0}), others]

    # --- verdict

    def verdict(self, item: Mapping[str, Any]) -> Verdict:
        """Return the verdict of a TfJob: its state first.

        A restarted operator sets ended jobs to phase Failed, and does not change their state.
        """
        status = item.get("status") or {}
        state, phase, reason = (status.get(key) or "" for key in ("state", "phase", "reason"))
        if state == "Succeeded":
            return Verdict(State.SUCCEEDED, state, reason)
        if state == "Failed" or phase == "Failed":
            if not state and _NO_SERVER_PROGRAM in reason:
                reason += (
                    "; `grpcServerFilePath` of the operator's configuration has to name the default parameter server"
                )
            return Verdict(State.FAILED, "MasterFailed" if state == "Failed" else "SetupFailed", reason)
        if _PAUSED in (item["metadata"].get("annotations") or {}):
            return Verdict(State.SUSPENDED, "Paused", "Paused by tfsteps; `tfsteps resume` continues it.")
        if failed := _failed_types(status):
            words = f"{failed} has failed, and the TfJob continues: only its MASTER decides."
            return Verdict(State.RUNNING, "ReplicaFailed", words)
        return Verdict(State.RUNNING if phase == "Running" else State.PENDING, "" if phase == "Running" else phase)


KINDS: Mapping[Api, TfJob] = {
    "tensorflow.org": TfJob("tensorflow.org", "TfJob", "the operator of tensorflow/k8s"),
    "kubeflow.org": TfJob("kubeflow.org", "TFJob", "tf-operator 0.1.0"),
}
"""The kinds by the group of their API."""


def _jobs(item: Mapping[str, Any], which: str, spec: Mapping[str, Any]) -> ObjectPatch:
    """Return a change of the spec of a job's Kubernetes Jobs; `which` is added to the label selector."""
    return ObjectPatch(resource=JOBS, selector=f"{OWN}={item['metadata']['name']}{which}", patch={"spec": spec})


def _failed_types(status: Mapping[str, Any]) -> str:
    """Return the types of failed replicas, without the MASTER; empty = none."""
    listed = status.get("replicaStatuses") or []
    failed = [
        status_entry.get("tf_replica_type", "") for status_entry in listed if status_entry.get("state") == "Failed"
    ]
    return " and ".join(kind for kind in failed if kind != "MASTER")


class Context(msgspec.Struct, frozen=True):
    """The inputs of all templates of one TfJob; `name` is the name of the TfJob."""

    job: TrainingJob
    identity: Identity
    paths: OutputPaths
    options: TfJobOptions
    name: str

    @property
    def keeps_tf_config(self) -> bool:
        """Whether the replicas get TF_CONFIG as the operator writes it."""
        return keeps_operators_tf_config(self.job)

    def hosts(self) -> Mapping[str, list[str]]:
        """Return TF_CONFIG's cluster."""
        api, port = self.options.api, self.options.tf_port
        return layout.hosts(self.job, api, self.name, port, by_type=self.keeps_tf_config)

    def pod(self, name: RoleName, env: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the pod template of a role, with the additional variables `env`."""
        role = self.job.resolved_roles()[name]
        pod = pod_template(
            self.job, name, role, self.identity, self.paths, gpu_label=self.options.gpu_label, more_env=env
        )
        if self.options.priority_class:
            pod["spec"].setdefault("priorityClassName", self.options.priority_class)
        return pod


def replica(context: Context, part: Part) -> dict[str, Any]:
    """Return the pod template of the replicas of one type.

    The operator appends its own TF_CONFIG to `env`, which calls the decisive task `master`. TensorFlow 2 refuses that
    name, so a shell sets the correct TF_CONFIG and then runs the program. Where the operator's is kept, a shell is
    needed only for an index that is not the operator's.
    """
    role = context.job.resolved_roles()[part.role]
    index = {"fieldRef": {"fieldPath": "metadata.labels['task_index']"}}
    variables = {"TFSTEPS_INDEX": f"$((TFSTEPS_TASK_INDEX + {part.first}))" if part.first else "$TFSTEPS_TASK_INDEX"}
    env: list[dict[str, Any]] = [{"name": "TFSTEPS_TASK_INDEX", "valueFrom": index}]
    if not context.keeps_tf_config:
        config = tf_config(part.role, context.hosts()).replace("$(TFSTEPS_INDEX)", "INDEX")
        env.append({"name": _CORRECTED, "value": config})
        variables["TF_CONFIG"] = f"${{{_CORRECTED}%INDEX*}}$TFSTEPS_INDEX${{{_CORRECTED}#*INDEX}}"
    elif not part.first:
        env, variables = [{"name": "TFSTEPS_INDEX", "valueFrom": index}], {}
    pod = context.pod(part.role, env)
    pod["spec"]["restartPolicy"] = "Never" if role.restart == "never" else "OnFailure"
    container = container_of(pod, CONTAINER)
    if variables and container.get("command"):
        container["command"] = exporting(container["command"], variables)
    return pod


def replica_spec(context: Context, part: Part) -> dict[str, Any]:
    """Return one of `spec.replicaSpecs`; default parameter servers have no template."""
    spec = {"tfReplicaType": part.type, "replicas": part.replicas, "tfPort": context.options.tf_port}
    own_program = part.type == "PS" and context.options.default_ps
    return spec if own_program else {**spec, "template": replica(context, part)}


def tensorboard(context: Context) -> dict[str, Any]:
    """Return `spec.tensorboard`; it mounts the same volumes as the decisive replica."""
    pod = context.pod(context.job.decisive_replica[0], [])
    fields = {
        "logDir": context.paths.tensorboard(context.job),
        "serviceType": context.options.tensorboard_service,
        "volumes": pod["spec"].get("volumes"),
        "volumeMounts": container_of(pod, CONTAINER).get("volumeMounts"),
    }
    return {key: value for key, value in fields.items() if value}


def evaluator(context: Context, namespace: str) -> dict[str, Any]:
    """Return the Kubernetes Job of the evaluator: the operator does not manage it."""
    config = tf_config("evaluator", context.hosts())
    pod = context.pod("evaluator", [dict(INDEX_ENV), {"name": "TF_CONFIG", "value": config}])
    pod["metadata"]["labels"][OWN] = context.name
    labels = {**context.job.labels, **context.identity.labels(), OWN: context.name}
    return {
        "apiVersion": JOBS.api,
        "kind": JOBS.kind,
        "metadata": {"name": f"{context.name}-evaluator", "namespace": namespace, "labels": labels},
        "spec": indexed_job_spec(context.job, context.job.resolved_roles()["evaluator"], pod),
    }

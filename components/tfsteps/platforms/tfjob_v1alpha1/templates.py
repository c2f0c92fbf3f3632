"""The parts of a TfJob: the pod templates of its types, its TensorBoard, and the evaluator's Kubernetes Job. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps.kube.resource import Resource
from tfsteps.platforms.tfjob_v1alpha1 import layout
from tfsteps.platforms.tfjob_v1alpha1.layout import Part
from tfsteps.platforms.tfjob_v1alpha1.options import TfJobOptions, keeps_operators_tf_config
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import RoleName, TrainingJob
from tfsteps.systems.kubernetes.render.command_wrapper import container_of, exporting
from tfsteps.systems.kubernetes.render.indexed_job import INDEX_ENV, indexed_job_spec
from tfsteps.systems.kubernetes.render.pod_template import CONTAINER, pod_template, tf_config

JOBS = Resource("batch/v1", "jobs", "Job")
OWN = "tf_job_name"
"""Label of all objects that the operator creates for a job; tfsteps puts it on the evaluator too."""

_CORRECTED = "TFSTEPS_TF_CONFIG"


class Context(msgspec.Struct, frozen=True):
    """The inputs of all templates of one TfJob; `name` is the name of the TfJob."""

    job: TrainingJob
    identity: Identity
    places: OutputPaths
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
            self.job, name, role, self.identity, self.places, gpu_label=self.options.gpu_label, more_env=env
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
        "logDir": context.places.tensorboard(context.job),
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

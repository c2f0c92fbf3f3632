"""TrainJob: renders a job as a TrainJob, and derives its state from one. Pure.

All replicas are ranks of one Indexed Job, `node` of the runtime, in the order chief, worker, ps, evaluator. Facts and
traps: Kubeflow Trainer 2.0.0 to 2.3.0, their source and CRDs, and the observed behaviour of 2.0.0 on a cluster.
"""

import functools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from tfsteps import spec
from tfsteps.kube.resource import PODS, Resource
from tfsteps.runs.events import ReplicaName, State, Verdict
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import EnvSource, Problem, Role, RoleName, TrainingJob, dotted, options_of
from tfsteps.systems.base import LaunchError
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
from tfsteps.systems.kubernetes.render.command_wrapper import BESIDE
from tfsteps.systems.kubernetes.render.pod_template import INDEX, ROLE_LABEL, exit_code_policy, pod_template
from tfsteps.systems.trainjob import CAPABILITIES, TrainJobOptions, overrides
from tfsteps.systems.trainjob.overrides import CONTAINER

_JOBSETS = Resource("jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet")
_OWN = "jobset.sigs.k8s.io/jobset-name"  # a label of the Jobs and pods of the TrainJob's JobSet, which has its name
_NAME = 63  # of a pod, whose name ends with five random characters
_NO_RUNTIME = "must be created before the TrainJob is created"  # part of the message of Trainer's webhook
ROLES = "TFSTEPS_ROLES"
WORKING_DIR = "TFSTEPS_WORKING_DIR"
RUNTIMES = Resource("trainer.kubeflow.org/v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime")
FOLDER = "manifests/trainjob-runtimes"
_LABEL = "trainer.kubeflow.org/"
_MIRRORED, _SERVERS = "tensorflow-multi-worker-mirrored", "tensorflow-parameter-server"
_RESTARTS = ("never", "on_failure", "exit_code")
_NO_LIMIT = 1_000_000  # a runtime serves jobs with any backoff limit; tfsteps counts the restarts
_TASK = pathlib.Path(__file__).with_name("task.sh")


class TrainJob(BaseJobKind):
    """The kind TrainJob."""

    name = "trainjob"
    resource = Resource("trainer.kubeflow.org/v1alpha1", "trainjobs", "TrainJob")
    operator = "Kubeflow Trainer"
    container = CONTAINER
    capabilities = CAPABILITIES
    shell = BESIDE
    options = TrainJobOptions
    between: Sequence[Between] = (Between(_JOBSETS), Between(JOBS, _OWN))

    # --- render

    def permissions(self, _job: TrainingJob) -> list[Permission]:
        """Return the permissions to see which pods are the job's, and to label them: Trainer does not."""
        return [Permission("patch", PODS), Permission("list", JOBS), Permission("list", _JOBSETS)]

    def rules(self, job: TrainingJob) -> Iterable[Problem]:
        """Return why values of the job are not possible in a TrainJob."""
        return overrides.field_problems(job)

    def differences(self, job: TrainingJob) -> list[str]:
        """Return what does not reach the pods."""
        notice = "Trainer 2.0 puts `annotations` on the TrainJob and its JobSet, not on the pods."
        return [notice] if job.annotations else []

    def render(self, job: TrainingJob, identity: Identity, paths: OutputPaths, namespace: str) -> RenderedJob:
        """Return the object that is created, as Trainer 2.2 or newer takes it."""
        options = options_of(job, self.name, TrainJobOptions)
        template = functools.partial(_template, job, identity, paths, options)
        roles, arguments = rank_arguments(job)
        shared = template()
        shared["metadata"]["labels"].pop(ROLE_LABEL)
        container = shared["spec"]["containers"][0]
        role_variables = [
            variable for name, role in job.roles.items() for variable in sources(name, role, template(name))
        ]
        trainer = {
            "numNodes": job.replicas,
            "image": container["image"],
            "args": arguments,
            "env": [*_env(container, roles), *role_variables],
            "resourcesPerNode": container.get("resources"),
        }
        spec: dict[str, Any] = {
            "runtimeRef": {"name": options.runtime or runtime_name(job)},
            "trainer": {key: value for key, value in trainer.items() if value},
            **overrides.overrides(shared),
        }
        if options.suspend:
            spec["suspend"] = True
        tail = len(f"-{CONTAINER}-0-{job.replicas - 1}-12345")  # the name of a pod is `<name>-node-0-<rank>-<random>`
        metadata = {
            "name": identity.job_name(job.name, _NAME - tail),
            "namespace": namespace,
            "labels": {**job.labels, **({QUEUE_LABEL: job.queue} if job.queue else {}), **identity.labels()},
            "annotations": dict(job.annotations),
        }
        manifest = {"apiVersion": self.resource.api, "kind": self.resource.kind, "metadata": metadata, "spec": spec}
        return RenderedJob(manifest)

    def explain_rejection(self, item: Mapping[str, Any], refusal: str) -> str:
        if unknown := overrides.unknown_fields(refusal):
            names = ", ".join(overrides.FIELDS if overrides.FIELDS[-1] in unknown else unknown)
            return f"its Kubeflow Trainer does not know {names}: upgrade Trainer, {overrides.RUNTIME}"
        if _NO_RUNTIME not in refusal:
            return ""
        name = item["spec"]["runtimeRef"]["name"]
        fix = f"`kubectl apply -k {FOLDER}`, or name another in `systems.trainjob.runtime`"
        return f"it has no ClusterTrainingRuntime {name}: {fix}"

    def older(self, job: TrainingJob, manifest: Mapping[str, Any], refusal: str) -> dict[str, Any] | None:
        """Return the TrainJob for the Trainer before, if the cluster does not know the field for the pods' template.

        Labels that this Trainer cannot put on the pods are put there by the launcher.
        """
        newer = manifest["spec"]
        version = overrides.older(newer, refusal)
        if version is None:
            return None
        if uses := overrides.unsupported(job, version):
            names = ", ".join(dict.fromkeys(dotted(use.path) for use in uses))
            wrong = f"the cluster's Kubeflow Trainer, {version.trainer}, cannot set {names}"
            raise LaunchError(f"{wrong}: upgrade Trainer, {overrides.RUNTIME}", retryable=False)
        rest = {key: value for key, value in newer.items() if key not in overrides.FIELDS}
        annotations = {} if version.metadata or not job.annotations else {"annotations": dict(job.annotations)}
        spec = {**rest, **annotations, **overrides.overrides(overrides.overridden(newer), version)}
        return {**manifest, "spec": spec}

    # --- the job's pods

    def roles(self, item: Mapping[str, Any]) -> dict[RoleName, RoleSpec]:
        """Return the roles of a TrainJob; the template is the TrainJob's part, without the runtime's."""
        trainer = item["spec"]["trainer"]
        template = overrides.overridden(item["spec"])
        pod = dict(template.get("spec") or {})
        container: dict[str, Any] = {
            "name": CONTAINER,
            "image": trainer["image"],
            "args": trainer["args"],
            "env": trainer["env"],
            "resources": trainer.get("resourcesPerNode") or {},
        }
        for more in pod.pop("containers", []):
            container |= more
        whole = {"metadata": template.get("metadata") or {}, "spec": {**pod, "containers": [container]}}
        roles_text = next(variable["value"] for variable in trainer["env"] if variable["name"] == ROLES)
        partial = item["spec"]["runtimeRef"]["name"] not in _own_runtimes()
        return {name: RoleSpec(count, whole, partial) for name, count in role_counts(roles_text).items()}

    def selector(self, name: str) -> str:
        """Return the label selector of the pods of the job called `name`: its JobSet has that name, too."""
        return f"{_OWN}={name}"

    def replica(self, meta: Mapping[str, Any], replicas: Sequence[ReplicaName]) -> ReplicaName | None:
        """Return which replica a pod is by its rank; None = it is not a replica."""
        labels = meta.get("labels") or {}
        rank = labels.get(INDEX, "")
        if labels.get("jobset.sigs.k8s.io/replicatedjob-name") != CONTAINER or not rank.isdigit():
            return None
        return replicas[int(rank)] if int(rank) < len(replicas) else None

    def pod_labels(self, item: Mapping[str, Any], replica: ReplicaName) -> dict[str, str]:
        """Return the labels that the launcher puts on a replica's pod, for Trainer does not."""
        labels = item["metadata"].get("labels") or {}
        return {**{key: value for key, value in labels.items() if key != QUEUE_LABEL}, ROLE_LABEL: replica.role}

    # --- pause

    def pause(self, item: Mapping[str, Any], *, paused: bool) -> list[ObjectPatch]:
        """Return the change of spec.suspend, which Trainer passes on to the JobSet."""
        return [ObjectPatch(resource=self.resource, name=item["metadata"]["name"], patch={"spec": {"suspend": paused}})]

    # --- verdict

    def verdict(self, item: Mapping[str, Any]) -> Verdict:
        """Return the verdict of a TrainJob: it reports only a suspension and its end. Failed wins over Complete."""
        true = true_conditions(item)
        queued = QUEUE_LABEL in (item["metadata"].get("labels") or {})
        ends = {"Failed": State.FAILED, "Complete": State.SUCCEEDED}
        held = {"Suspended": State.QUEUED if queued else State.SUSPENDED}
        for kind, state in {**ends, **held}.items():
            if kind in true:
                return Verdict(state, true[kind].get("reason", ""), true[kind].get("message", ""))
        if item["spec"].get("suspend"):
            return Verdict(held["Suspended"])
        return Verdict(State.PENDING, "Created" if (item.get("status") or {}).get("conditions") else "")


def _template(
    job: TrainingJob, identity: Identity, paths: OutputPaths, options: TrainJobOptions, name: RoleName | None = None
) -> dict[str, Any]:
    """Return the pod template of a role; without a name, the fields that all roles share."""
    roles = job.resolved_roles()
    first = next(iter(roles))
    role = roles[name] if name else msgspec.structs.replace(roles[first], env=job.env)
    return pod_template(job, name or first, role, identity, paths, gpu_label=options.gpu_label, more_env=[])


def _env(container: Mapping[str, Any], roles: str) -> list[dict[str, Any]]:
    """Return the variables that all replicas share; the role is not one of them."""
    rank_variables = [{"name": ROLES, "value": roles}]
    if folder := container.get("workingDir"):
        rank_variables.append({"name": WORKING_DIR, "value": folder.replace("$(", "$$(")})
    return [*(variable for variable in container["env"] if variable["name"] != "TFSTEPS_ROLE"), *rank_variables]


def rank_arguments(job: TrainingJob) -> tuple[str, list[str]]:
    """Return the value of TFSTEPS_ROLES and the container's arguments: the programs of the roles."""
    programs = {name: _program(job, name, role) for name, role in job.roles.items()}
    first, *others = programs.values()
    if all(other == first for other in others):
        return _roles(job, {}), first
    return _roles(job, programs), [word for program in programs.values() for word in program]


def _roles(job: TrainingJob, programs: Mapping[RoleName, Sequence[str]]) -> str:
    """Return `chief=1:4 worker=2:3`, with the number of words of each program; `chief=1 worker=2` without programs."""
    words = {name: f":{len(program)}" for name, program in programs.items()}
    return " ".join(f"{name}={role.replicas}{words.get(name, '')}" for name, role in job.roles.items())


def role_counts(roles: str) -> dict[RoleName, int]:
    """Return the number of replicas of each role, from the value of TFSTEPS_ROLES. ValueError if it is not valid."""
    pairs = [word.split(":")[0].split("=") for word in roles.split()]
    if unknown := [name for name, _ in pairs if name not in spec.ROLES]:
        raise ValueError(f"{', '.join(unknown)} is no role")
    return {cast("RoleName", name): int(count) for name, count in pairs}


def _program(job: TrainingJob, name: RoleName, role: Role) -> list[str]:
    """Return a role's command line, preceded by `env` and the role's variables if it has any."""
    variables = [
        f"{key}={value if isinstance(value, str) else f'$({_variable(name, key)})'}" for key, value in role.env.items()
    ]
    command = job.resolved_roles()[name].program
    return ["env", *variables, *command] if variables else command


def sources(name: RoleName, role: Role, template: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the variables of a role that come from objects of the cluster, under names that include the role.

    Args:
        name: The name of the role.
        role: The role.
        template: The pod template of a job with this role only.
    """
    names = {key for key, value in role.env.items() if isinstance(value, EnvSource)}
    env = template["spec"]["containers"][0]["env"]
    yield from (
        {**variable, "name": _variable(name, variable["name"])} for variable in env if variable["name"] in names
    )


def _variable(name: RoleName, key: str) -> str:
    return f"TFSTEPS_{name.upper()}_{key}"


def runtime_name(job: TrainingJob) -> str:
    """Return the name of the runtime for a job, from its strategy, success policy and restart policy."""
    restart = next((role.restart for _, role in job.roles.items() if role.restart), job.restart)
    return _name(_SERVERS if job.roles.ps else _MIRRORED, job.success == "all_workers", restart)


def runtimes() -> Iterator[dict[str, Any]]:
    """Yield every ClusterTrainingRuntime that `runtime_name` can return."""
    for kind, all_workers in ((_MIRRORED, False), (_MIRRORED, True), (_SERVERS, False)):
        for restart in _RESTARTS:
            yield {
                "apiVersion": RUNTIMES.api,
                "kind": RUNTIMES.kind,
                "metadata": {
                    "name": _name(kind, all_workers, restart),
                    "labels": {f"{_LABEL}framework": "tensorflow", "app.kubernetes.io/part-of": "tfsteps"},
                },
                "spec": {
                    "mlPolicy": {"numNodes": 1},
                    "template": {"spec": {"replicatedJobs": [_node(restart, alone=not all_workers)]}},
                },
            }


@functools.cache
def _own_runtimes() -> frozenset[str]:
    return frozenset(runtime["metadata"]["name"] for runtime in runtimes())


def _name(kind: str, all_workers: bool, restart: str) -> str:
    return kind + "-all-workers" * all_workers + ("" if restart == "never" else f"-{restart.replace('_', '-')}")


def _node(restart: str, *, alone: bool) -> dict[str, Any]:
    """Return the replicated job. The completion index of a pod is its rank, and rank 0 is the decisive replica.

    Args:
        restart: As in a job file.
        alone: Whether the success of rank 0 ends the job; otherwise all ranks must succeed.
    """
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "backoffLimit": 0 if restart == "never" else _NO_LIMIT,
        "podReplacementPolicy": "Failed",
        "template": {
            "spec": {"restartPolicy": "OnFailure" if restart == "on_failure" else "Never", "containers": [_container()]}
        },
    }
    if restart == "exit_code":
        spec["podFailurePolicy"] = exit_code_policy(CONTAINER)
    if alone:
        spec["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    step = {"labels": {f"{_LABEL}trainjob-ancestor-step": "trainer"}}
    return {"name": CONTAINER, "template": {"metadata": step, "spec": spec}}


def _container() -> dict[str, Any]:
    """Return the container. Its command sets TF_CONFIG, because Trainer does not."""
    fields = {
        "TFSTEPS_JOB": "metadata.labels['jobset.sigs.k8s.io/jobset-name']",
        "TFSTEPS_NAMESPACE": "metadata.namespace",
    }
    return {
        "name": CONTAINER,
        "command": ["sh", "-c", _TASK.read_text(), "tensorflow"],
        "env": [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()],
    }

"""Renders a role as the pod template of its replicas. Pure: the same job gives the same template.

For kinds that consist of Jobs, also as a batch/v1 Job with one index for each replica. Facts: the Job controller of
Kubernetes 1.28 and later.
"""

import copy
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.runs.events import ReplicaName
from tfsteps.runs.identity import PREFIX, Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import ROLES, EnvSource, Problem, ResolvedRole, Resources, RoleName, TrainingJob, is_uri, rules
from tfsteps.spec.fields import ResourceName
from tfsteps.spec.pod import Toleration, Volume
from tfsteps.systems.expansion import escaped

CONTAINER = rules.CONTAINER
PORT = 2222
"""The port of TensorFlow's servers."""

ROLE_LABEL = f"{PREFIX}role"
GPU_RESOURCE = "TFSTEPS_GPU_RESOURCE"
"""Variable of a launcher: the cluster's resource name of GPUs."""

_GPU = "nvidia.com/gpu"
_ISTIO = "sidecar.istio.io/inject"  # an Istio proxy outlives the program, and the job would never end
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  where TensorFlow and NCCL look for it
_KEYS = {"volumeMounts": "mountPath", "volumeDevices": "devicePath"}
"""The key of an item of a list, other than its name: as Kubernetes' strategic merge patch has it."""

RESTART_POLICIES = {"never": "Never", "on_failure": "OnFailure", "always": "Always", "exit_code": "ExitCode"}
"""Restart policies of roles in Kubernetes' words, with the operators' ExitCode."""
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_ENV: Mapping[str, Any] = {
    "name": "TFSTEPS_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}},
}
"""The replica's index, for a container's `env`. Declared first, later values can refer to it."""

_PERMANENT = list(range(1, 128))  # codes of a program; higher codes mean that a signal ended it


def pod_template(
    job: TrainingJob,
    name: RoleName,
    role: ResolvedRole,
    identity: Identity,
    paths: OutputPaths,
    *,
    gpu_label: str,
    more_env: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return the pod template of a role; the patches of job and role are merged into it last.

    Args:
        job: The job.
        name: The role's name.
        role: The role.
        identity: The job's identity.
        paths: Its folders.
        gpu_label: The node label that `gpu_type` selects by.
        more_env: Variables that the job system adds, in the form of a container's `env`.
    """
    need = role.resources
    mounts = [_mount(f"volume-{i}", volume) for i, volume in enumerate(role.volumes)]
    sources = [{"name": f"volume-{i}", **_source(volume)} for i, volume in enumerate(role.volumes)]
    if need.shared_memory:
        mounts.append({"name": "shared-memory", "mountPath": _SHARED_MEMORY})
        sources.append({"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": need.shared_memory}})
    ours = {  # the variables of docs/design.md that are the same for all replicas of a role
        "TFSTEPS_RUN_ID": identity.run,
        "TFSTEPS_TASK": identity.task,
        "TFSTEPS_ATTEMPT": str(identity.attempt),
        "TFSTEPS_ROLE": name,
        "TFSTEPS_OUTPUT_DIR": paths.output,
        "TFSTEPS_MODEL_DIR": paths.model,
        "TFSTEPS_LOG_DIR": paths.logs,
        "PYTHONUNBUFFERED": "1",
    }
    container = {
        "name": CONTAINER,
        "image": role.image,
        "imagePullPolicy": job.image_pull_policy,
        "command": list(role.command),
        "args": list(role.args),
        "workingDir": role.working_dir,
        "env": [*({"name": key, "value": escaped(value)} for key, value in ours.items()), *more_env, *_env(role.env)],
        "resources": _resources(need),
        "volumeMounts": mounts,
    }
    gpu_type = {gpu_label: need.gpu_type} if need.gpu_type else {}
    spec = {
        "containers": [_filled(container)],
        "volumes": sources,
        "nodeSelector": {**role.node_selector, **gpu_type},
        "tolerations": [_toleration(toleration) for toleration in role.tolerations],
        "serviceAccountName": job.service_account,
        "imagePullSecrets": [{"name": secret} for secret in job.image_pull_secrets],
    }
    metadata = {
        "labels": {**job.labels, **identity.labels(), ROLE_LABEL: name},
        "annotations": {_ISTIO: "false", **job.annotations},
    }
    rendered = {"metadata": _filled(metadata), "spec": _filled(spec)}
    for patch in (job.pod, role.pod):
        if patch:
            rendered = merged(rendered, patch)
    return rendered


_ADD_IMAGE = (
    "Add `image:` to the job or to the role: a stock image of TensorFlow with `code: .`, or one that you build; "
    "`tfsteps init --dockerfile` writes its Dockerfile"
)


def pod_problems(job: TrainingJob) -> Iterator[Problem]:
    """Yield what no pod of a job can do: start without an image, ask for GPUs by a wrong name, write its output."""
    for name, resolved in job.resolved_roles().items():
        if not resolved.image:
            yield Problem(path=("roles", name, "image"), wrong="is missing", fix=_ADD_IMAGE)
    try:
        typed_json.convert(os.environ.get(GPU_RESOURCE) or _GPU, ResourceName)
    except msgspec.ValidationError:
        needs = {("roles", name) if role.resources else (): role.resources for name, role in job.roles.items()}
        for path, need in needs.items():
            if (need or job.resources).gpu and not (need or job.resources).gpu_resource:
                value = repr(os.environ[GPU_RESOURCE])
                yield Problem(
                    path=(*path, "resources", "gpu"),
                    wrong=f"cannot be asked for: {GPU_RESOURCE}={value} is not the name of a resource",
                    allowed="domain/name, such as amd.com/gpu",
                    fix="Correct it in the launcher's environment, or set `gpu_resource`",
                )
    folder = job.output_dir or "/"
    around = [volume for volume in job.volumes if f"{folder}/".startswith(f"{volume.mount.rstrip('/')}/")]
    volume = max(around, key=lambda volume: len(volume.mount), default=None)
    if is_uri(folder):
        return
    if not folder.startswith("/"):
        wrong = "is relative, and a pod has no folder of the job file"
        fix = "Write a path on a volume, `/data/{run_id}`, or a URI, `gs://bucket/{run_id}`"
        yield Problem(path=("output_dir",), value=repr(folder), wrong=wrong, fix=fix)
    elif volume and volume.read_only:
        wrong = f"is on the volume at {volume.mount}, which is mounted read-only"
        fix = "Remove `read_only` from that volume, or write a path on another one"
        yield Problem(path=("output_dir",), value=repr(folder), wrong=wrong, fix=fix)


def tf_config(name: RoleName, hosts: Mapping[Any, Sequence[str]]) -> str:
    """Return TF_CONFIG for the replicas of role `name` as JSON text; Kubernetes inserts the index.

    The variable TFSTEPS_INDEX must precede it in `env`. The evaluator is a task, but not in the cluster: the parameter
    server strategy would wait for it for ever.

    Args:
        name: The role.
        hosts: `host:port` of each replica of each role, the evaluator's left out; by the names of tasks.
    """
    config = {"cluster": hosts, "task": {"type": name, "index": "INDEX"}, "environment": "cloud"}
    return json.dumps(config).replace('"INDEX"', "$(TFSTEPS_INDEX)")


def cluster_hosts(job: TrainingJob, host: Callable[[RoleName, int], str]) -> dict[RoleName, list[str]]:
    """Return `host:port` of each replica in TF_CONFIG's cluster: all but the evaluator.

    The only replica of a job has no peer, and is at localhost: it needs neither a Service nor its name in the DNS.
    """
    alone = job.replicas == 1
    return {
        name: [f"{'localhost' if alone else host(name, index)}:{PORT}" for index in range(role.replicas)]
        for name, role in job.roles.items()
        if name != "evaluator"
    }


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `over` into `under`: mappings by key, lists of items by what identifies one, any other value as a whole."""
    result = copy.deepcopy(dict(under))
    for field, value in over.items():
        old, key = result.get(field), _KEYS.get(field, "name")
        if isinstance(old, dict) and isinstance(value, Mapping):
            result[field] = merged(old, value)
        elif old and _keyed(old, key) and _keyed(value, key):
            result[field] = _merged_by_key(old, value, key)
        else:
            result[field] = copy.deepcopy(value)
    return result


def _keyed(value: Any, key: str) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) and key in item for item in value)


def _merged_by_key(under: list[dict[str, Any]], over: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    result = {item[key]: item for item in under}
    for item in over:
        result[item[key]] = merged(result.get(item[key], {}), item)
    return list(result.values())


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Drop fields without a value: None, empty texts, lists and mappings."""
    return {key: value for key, value in fields.items() if value is not None and value not in ("", [], {})}


def _env(variables: Mapping[str, str | EnvSource]) -> Iterator[dict[str, Any]]:
    for name, value in variables.items():
        if isinstance(value, str):
            yield {"name": name, "value": value}
        elif value.field:
            yield {"name": name, "valueFrom": {"fieldRef": {"fieldPath": value.field}}}
        elif value.secret:
            yield {"name": name, "valueFrom": {"secretKeyRef": {"name": value.secret, "key": value.key}}}
        else:
            yield {"name": name, "valueFrom": {"configMapKeyRef": {"name": value.config_map, "key": value.key}}}


def _resources(need: Resources) -> dict[str, Any]:
    name = need.gpu_resource or os.environ.get(GPU_RESOURCE) or _GPU
    gpu = {name: str(need.gpu)} if need.gpu else {}
    requests = {"cpu": _quantity(need.cpu), "memory": _quantity(need.memory)}
    limits = {"cpu": _quantity(need.cpu_limit), "memory": _quantity(need.memory_limit), **gpu}
    return _filled({"requests": _filled(requests), "limits": _filled(limits)})


def _quantity(amount: float | None) -> str | None:
    """Return an amount as Kubernetes writes it: in thousandths if it is not whole."""
    if amount is None:
        return None
    return str(int(amount)) if float(amount).is_integer() else f"{round(amount * 1000)}m"


def _mount(name: str, volume: Volume) -> dict[str, Any]:
    return _filled(
        {"name": name, "mountPath": volume.mount, "subPath": volume.sub_path, "readOnly": volume.read_only or None}
    )


def _source(volume: Volume) -> dict[str, Any]:
    if volume.pvc:
        return {"persistentVolumeClaim": _filled({"claimName": volume.pvc, "readOnly": volume.read_only or None})}
    if volume.secret:
        return {"secret": {"secretName": volume.secret}}
    if volume.config_map:
        return {"configMap": {"name": volume.config_map}}
    if volume.host_path:
        return {"hostPath": {"path": volume.host_path}}
    if volume.nfs:
        return {"nfs": {"server": volume.nfs.server, "path": volume.nfs.path}}
    return {"emptyDir": _filled({"sizeLimit": volume.empty_dir, "medium": "Memory" if volume.in_memory else None})}


def _toleration(toleration: Toleration) -> dict[str, Any]:
    seconds = None if toleration.seconds is None else round(toleration.seconds)
    return _filled(
        {
            "key": toleration.key,
            "operator": toleration.operator,
            "value": toleration.value,
            "effect": toleration.effect,
            "tolerationSeconds": seconds,
        }
    )


def indexed_job_spec(
    job: TrainingJob, role: ResolvedRole, template: Mapping[str, Any], *, decides_alone: bool = False
) -> dict[str, Any]:
    """Return a JobSpec whose index i is replica i of the role.

    Args:
        job: The job.
        role: The role.
        template: Its pod template. The role's restart policy wins over the template's.
        decides_alone: Whether the success of index 0 ends the Job, and with it the other replicas.
    """
    in_place = role.restart == "on_failure"
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": role.replicas,
        "parallelism": role.replicas,
        # restarts in place end a Job when they reach the limit, failed pods when they pass it
        "backoffLimit": allowed_restarts(job, role) + in_place,
        "podReplacementPolicy": "Failed",  # only after the old pod is gone: both have the host name of the index
        "activeDeadlineSeconds": round(job.deadlines.total),
        "template": {**template, "spec": {**template["spec"], "restartPolicy": "OnFailure" if in_place else "Never"}},
    }
    if role.restart == "exit_code":
        spec["podFailurePolicy"] = exit_code_policy(CONTAINER)
    if decides_alone and role.replicas > 1:
        spec["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    return spec


def exit_code_policy(container: str) -> dict[str, Any]:
    """Return the podFailurePolicy by which a permanent exit code of `container` fails its Job at once."""
    codes = {"containerName": container, "operator": "In", "values": _PERMANENT}
    return {"rules": [{"action": "FailJob", "onExitCodes": codes}]}


def allowed_restarts(job: TrainingJob, role: ResolvedRole) -> int:
    """Return how many restarts the role's replicas may have, all together."""
    if role.restart == "never":
        return 0
    return job.effective_backoff_limit if role.backoff_limit is None else role.backoff_limit


def replica_of(meta: Mapping[str, Any]) -> ReplicaName | None:
    """Return which replica the pod with this `metadata` is; None = it is not a replica."""
    labels = meta.get("labels") or {}
    role, index = labels.get(ROLE_LABEL, ""), labels.get(INDEX, "")
    return ReplicaName(role, int(index)) if role in ROLES and index.isdigit() else None

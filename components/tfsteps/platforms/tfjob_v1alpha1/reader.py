"""Reads a TfJob, v1alpha1 of tensorflow.org and kubeflow.org. Pure."""

from tfsteps.spec import RoleName
from tfsteps.systems.manifest.draft import NO_LIMIT, Draft, Imported
from tfsteps.systems.manifest.fields import Fields, NotUnderstoodError
from tfsteps.systems.manifest.pod import imported, read_metadata, read_pod, read_replicas, read_restart, restarting

SYSTEM = "tfjob-v1alpha1"
_ROLES: dict[str, RoleName] = {"MASTER": "chief", "WORKER": "worker", "PS": "ps"}
_LIMIT = 6  # of a Kubernetes Job, which each replica is


def read_tfjob_v1alpha1(manifest: Fields, source: str, name: str, api: str) -> Imported:
    """Return the job of a TfJob of tensorflow.org or kubeflow.org. NotUnderstoodError if it is none."""
    draft = Draft("spec.replicaSpecs")
    read_metadata(draft, manifest, name)
    draft.option(SYSTEM, "api", "kubeflow.org" if api.startswith("kubeflow.org/") else None)
    specs, misspelled = manifest.mappings("spec", "replicaSpecs"), manifest.mappings("spec", "replica_specs")
    if specs and misspelled:
        raise NotUnderstoodError("spec has replicaSpecs and replica_specs; remove the second, which no operator reads")
    if misspelled:  # as in samples of the operator's README
        draft.note("spec.replica_specs: the operator reads only replicaSpecs, and ran no replica; here they are roles")
    decisive = _decisive(manifest)
    bare: set[RoleName] = set()
    ports = set()
    for spec in specs or misspelled:
        kind = spec.take(str, "tfReplicaType") or "MASTER"
        if kind not in _ROLES:
            raise NotUnderstoodError(f"{spec.where('tfReplicaType')} = {kind!r}: expected MASTER, WORKER or PS")
        ports.add(spec.take(int, "tfPort") or 2222)
        spec.take(bool, "IsDefaultPS")
        role, template = _ROLES[kind], spec.inside("template")
        policy = read_restart(template, "spec", "restartPolicy")
        if not read_replicas(draft, role, spec):
            spec.take(dict, "template")
        elif kind == "PS" and not any(template.left()):
            bare.add(role)
            draft.option(SYSTEM, "default_ps", value=True)
        else:
            draft.roles[role] |= {
                "restart": _restart(policy, decisive=kind == decisive),
                **read_pod(draft, role, template),
            }
    if len(ports) > 1:
        raise NotUnderstoodError(f"tfPort is {' and '.join(map(str, sorted(ports)))}: a job file has one for all roles")
    draft.option(SYSTEM, "tf_port", next(iter(ports - {2222}), None))
    manifest.take(str, "spec", "RuntimeId")  # a part of names
    draft.option(SYSTEM, "tf_image", manifest.take(str, "spec", "tfImage"))
    draft.option(SYSTEM, "scheduler_name", manifest.take(str, "spec", "schedulerName"))
    _read_tensorboard(draft, manifest.inside("spec", "tensorboard"))
    if restarting(draft):
        draft.decide(("backoff_limit",), NO_LIMIT, f"a TfJob has no limit; each replica restarts {_LIMIT} times")
    draft.deadline(None)
    reason = "its program reads the operator's TF_CONFIG, with a `master`; for TensorFlow 2 remove this"
    draft.decide(("systems", SYSTEM, "tf_config"), "operator", reason)
    return imported(draft, manifest, source, SYSTEM, frozenset(bare))


def _decisive(manifest: Fields) -> str:
    """Take `terminationPolicy`, and return the type whose task 0 decides."""
    chief = manifest.inside("spec", "terminationPolicy", "chief")
    kind, index = chief.take(str, "replicaName") or "MASTER", chief.take(int, "replicaIndex") or 0
    if kind not in ("MASTER", "WORKER") or index:
        raise NotUnderstoodError(f"{chief.where()} is {kind} {index}: in a job file, chief 0 or worker 0 decides")
    return kind


def _restart(policy: str, *, decisive: bool) -> str:
    """Return the restart policy: the operator takes exit codes 1 to 127 of the decisive replica for its end."""
    if policy == "never":
        return policy
    return "exit_code" if decisive else "on_failure"


def _read_tensorboard(draft: Draft, board: Fields) -> None:
    folder = board.take(str, "logDir")
    if not folder:
        return
    draft.fields["tensorboard"] = {}
    draft.decide(("output_dir",), folder, "the TensorBoard's logDir")
    draft.decide(("outputs", "logs"), ".")
    service = board.take(str, "serviceType")
    draft.option(SYSTEM, "tensorboard_service", service if service != "ClusterIP" else None)
    volumes, mounts = board.take(list, "volumes"), board.take(list, "volumeMounts")
    if volumes or mounts:
        draft.note("spec.tensorboard.volumes: the TensorBoard mounts what the replica that decides mounts")

"""Reads a TFJob, kubeflow.org/v1 and the versions v1beta2, v1beta1 and v1alpha2 before it. Pure."""

from tfsteps.spec import RoleName
from tfsteps.spec.units import write_duration
from tfsteps.systems.manifest.draft import NO_LIMIT, Draft, Imported
from tfsteps.systems.manifest.fields import Fields, NotUnderstoodError
from tfsteps.systems.manifest.pod import imported, read_metadata, read_pod, read_replicas, read_restart, restarting

SYSTEM = "kubeflow"
_TYPES: dict[str, RoleName] = {
    "chief": "chief",
    "master": "chief",
    "worker": "worker",
    "ps": "ps",
    "evaluator": "evaluator",
}
_CLEAN_UP = {"None": "keep", "Running": "keep", "All": "delete_pods"}
_POLICY = ("activeDeadlineSeconds", "backoffLimit", "cleanPodPolicy", "ttlSecondsAfterFinished", "schedulingPolicy")


def read_tfjob(manifest: Fields, source: str, name: str, api: str) -> Imported:
    """Return the job of a TFJob of an API version: v1, v1beta2, v1beta1 or v1alpha2.

    Raises:
        NotUnderstoodError: It is no TFJob.
    """
    draft = Draft("spec.tfReplicaSpecs", reads_gangs=True)
    read_metadata(draft, manifest, name, kueue=True)
    specs = manifest.inside("spec", "tfReplicaSpecs")
    for kind in manifest.names("spec", "tfReplicaSpecs"):
        _read_role(draft, kind, specs.inside(kind))
    version = api.rpartition("/")[2]
    if version == "v1":
        _without_effect(draft, manifest)
    # before v1 the fields of runPolicy were those of spec
    _read_policy(draft, manifest.inside("spec", "runPolicy") if version == "v1" else manifest.inside("spec"))
    success = manifest.take(str, "spec", "successPolicy")
    if success == "AllWorkers":
        draft.fields["success"] = "all_workers"
    elif success:
        raise NotUnderstoodError(f"spec.successPolicy = {success!r}: expected AllWorkers, or nothing")
    draft.option(SYSTEM, "dynamic_workers", manifest.take(bool, "spec", "enableDynamicWorker"))
    return imported(draft, manifest, source, SYSTEM)


def _read_role(draft: Draft, kind: str, spec: Fields) -> None:
    name = _TYPES.get(kind.lower())
    if name is None:
        raise NotUnderstoodError(f"{spec.where()} is no replica type: expected Chief, Master, Worker, PS or Evaluator")
    policy = read_restart(spec, "restartPolicy") or "never"
    template = spec.inside("template")
    if overridden := template.take(str, "spec", "restartPolicy"):
        draft.note(f"{template.where('spec', 'restartPolicy')} = {overridden}: had no effect; the replica type's has")
    if not read_replicas(draft, name, spec):
        spec.take(dict, "template")
        return
    draft.roles[name] |= {"restart": policy, **read_pod(draft, name, template)}
    if kind.lower() == "master":
        reason = "was Master: TF_CONFIG calls it chief now, for TensorFlow 2 refuses the name master"
        draft.comments["roles", "chief"] = reason


def _without_effect(draft: Draft, manifest: Fields) -> None:
    """Note the fields of runPolicy that stand one level too high, where the operator does not look."""
    for field in _POLICY:
        value = manifest.take(object, "spec", field)
        if value is not None:
            draft.note(f"spec.{field} = {value}: had no effect; a TFJob of v1 has it below spec.runPolicy")


def _read_policy(draft: Draft, policy: Fields) -> None:
    limit = policy.take(int, "backoffLimit")
    if restarting(draft):
        if limit is None:
            draft.decide(("backoff_limit",), NO_LIMIT, "the TFJob has no limit")
        else:
            reason = "the operator ends the job when backoffLimit is reached, tfsteps when this is passed"
            most = max(limit - 1, 0)
            if most > NO_LIMIT:
                most = draft.lowered(policy.where("backoffLimit"), limit, NO_LIMIT)
            draft.decide(("backoff_limit",), most, reason)
    draft.deadline(policy.take(int, "activeDeadlineSeconds"))
    clean = policy.take(str, "cleanPodPolicy")
    if clean:
        if clean not in _CLEAN_UP:
            raise NotUnderstoodError(f"cleanPodPolicy = {clean!r}: expected {', '.join(_CLEAN_UP)}")
        draft.fields["on_end"] = _CLEAN_UP[clean]
    draft.time_to_live(policy.take(int, "ttlSecondsAfterFinished"))
    draft.suspend(SYSTEM, policy.take(bool, "suspend"))
    scheduling = policy.inside("schedulingPolicy")
    draft.option(SYSTEM, "min_available", scheduling.take(int, "minAvailable"))
    draft.option(SYSTEM, "priority_class", scheduling.take(str, "priorityClass"))
    if seconds := scheduling.take(int, "scheduleTimeoutSeconds"):
        draft.option(SYSTEM, "schedule_timeout", write_duration(seconds))
    if queue := scheduling.take(str, "queue"):
        if kueue := draft.fields.get("queue"):
            draft.note(f"{scheduling.where('queue')} = {queue}: the job has a queue of Kueue, {kueue}, and takes one")
        else:
            draft.fields["queue"] = queue
            draft.option(SYSTEM, "queue_in", "scheduling_policy")

"""Reads a TrainJob, whose nodes are workers. Pure."""

from tfsteps.systems.manifest.draft import Draft, Imported
from tfsteps.systems.manifest.fields import Fields
from tfsteps.systems.manifest.pod import add_role, imported, read_metadata, read_pod


def read_trainjob(manifest: Fields, source: str, name: str, _api: str) -> Imported:
    """Return the job of a TrainJob: its nodes are workers. NotUnderstoodError if it is none."""
    draft = Draft()
    read_metadata(draft, manifest, name, kueue=True)
    runtime = manifest.take(str, "spec", "runtimeRef", "name") or ""
    manifest.take(str, "spec", "runtimeRef", "kind")
    manifest.take(str, "spec", "runtimeRef", "apiGroup")
    draft.note(
        f"spec.runtimeRef.name = {runtime!r}: what this runtime sets is not part of the TrainJob, and was not read; "
        "tfsteps has runtimes of its own, which set TF_CONFIG"
    )
    trainer = manifest.inside("spec", "trainer")
    if not add_role(draft, "worker", trainer.where(), {trainer.where("numNodes"): trainer.count("numNodes")}):
        return imported(draft, manifest, source, "trainjob")  # which refuses it
    container = {
        "name": "node",
        "resources": trainer.take(dict, "resourcesPerNode") or {},
        **{field: trainer.take(str, field) for field in ("image",)},
        **{field: trainer.take(list, field) for field in ("command", "args", "env")},
    }
    pod = Fields({"spec": {"containers": [{key: value for key, value in container.items() if value}]}})
    draft.roles["worker"] |= {"restart": "never", **read_pod(draft, "worker", pod, container="")}
    if "image" not in draft.roles["worker"] or "command" not in draft.roles["worker"]:
        draft.note("image and command: a job file needs them where the runtime has set them")
    draft.suspend("trainjob", manifest.take(bool, "spec", "suspend"))
    draft.deadline(manifest.take(int, "spec", "activeDeadlineSeconds"))
    return imported(draft, manifest, source, "trainjob")

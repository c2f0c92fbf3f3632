"""Reads a ToyJob for `tfsteps import`."""

from tfsteps.systems.manifest.draft import Draft, Imported
from tfsteps.systems.manifest.fields import Fields
from tfsteps.systems.manifest.pod import imported, read_metadata


def read_toy(manifest: Fields, source: str, name: str, _api: str) -> Imported:
    """Return the job of a ToyJob."""
    draft = Draft()
    read_metadata(draft, manifest, name)
    draft.fields["command"] = manifest.take(list, "spec", "command")
    draft.roles["worker"] = {"replicas": manifest.take(int, "spec", "workers") or 1}
    return imported(draft, manifest, source, "toybox")

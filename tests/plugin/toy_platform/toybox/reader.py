"""Reads a ToyJob for `tfsteps import`."""

from tfsteps.imports.draft import Draft, Imported
from tfsteps.imports.fields import Fields
from tfsteps.imports.pod import imported, read_metadata


def read_toy(manifest: Fields, source: str, name: str, _api: str) -> Imported:
    """Return the job of a ToyJob."""
    draft = Draft()
    read_metadata(draft, manifest, name)
    draft.fields["command"] = manifest.take(list, "spec", "command")
    draft.roles["worker"] = {"replicas": manifest.take(int, "spec", "workers") or 1}
    return imported(draft, manifest, source, "toybox")

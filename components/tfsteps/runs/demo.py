"""The mark of a demo, on an object of a cluster or on a run of this machine: no command deletes or changes it.

On an object it is a label, so that nobody has to read settings to find it. Only the value `true` is the mark.
"""

import contextlib
import pathlib
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.runs import store
from tfsteps.runs.identity import PREFIX

DEMO, PICTURE = f"{PREFIX}demo", f"{PREFIX}picture"
SELECTOR = f"{DEMO}=true"
PICTURE_LENGTH = 8192
"""Characters of the address of a picture: each pod of a run has a copy, and all annotations may have 256 KiB."""

_FILE = "demo.json"


class Mark(msgspec.Struct, frozen=True):
    """The mark of a demo.

    Attributes:
        picture: Address of its picture, `https://` or `data:image/`; empty = it has none.
    """

    picture: str = ""

    def put(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata of an object with this mark in place of any other."""
        labels = {**(metadata.get("labels") or {}), DEMO: "true"}
        noted = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != PICTURE}
        annotations = {**noted, **({PICTURE: self.picture} if self.picture else {})}
        return {**metadata, "labels": labels, **({"annotations": annotations} if annotations else {})}


class DemoError(ApiError):
    """An object of a cluster was not deleted or changed, because it is a demo. No request was sent."""

    def __init__(self, resource: Resource, metadata: Mapping[str, Any]) -> None:
        """Say how to remove the mark."""
        namespace, name = metadata["namespace"], metadata["name"]
        kind = f"{resource.plural}.{resource.api.rpartition('/')[0]}".rstrip(".")
        command = shlex.join(["kubectl", "label", "--namespace", namespace, kind, name, f"{DEMO}-"])
        why = f"{resource.kind} {namespace}/{name} is a demo, and demos are read-only"
        super().__init__(f"{why}; to change or delete it, remove its label: `{command}`", 409, "Demo", about=name)


def mark_of(item: Mapping[str, Any]) -> Mark | None:
    """Return the mark of an object; None = it is no demo. An address of a picture that is not allowed is left out."""
    metadata = item["metadata"]
    if (metadata.get("labels") or {}).get(DEMO) != "true":
        return None
    picture = (metadata.get("annotations") or {}).get(PICTURE, "")
    return Mark("" if picture_problem(picture) else picture)


def check_changeable(resource: Resource, item: Mapping[str, Any]) -> None:
    """Raise DemoError if an object must not be deleted or changed; `item` has its name and namespace."""
    if mark_of(item):
        raise DemoError(resource, item["metadata"])


def without_mark(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of an object that is no demo."""
    marks = {"labels": DEMO, "annotations": PICTURE}
    kept = {
        field: {key: text for key, text in metadata[field].items() if key != mark}
        for field, mark in marks.items()
        if metadata.get(field)
    }
    return {**metadata, **kept}


def picture_problem(address: str) -> str:
    """Return why `address` cannot be that of a picture, and what is allowed; empty = it can, or there is none."""
    if len(address) > PICTURE_LENGTH:
        return f"has {len(address)} characters, at most {PICTURE_LENGTH} are allowed: write an https:// address"
    if address and not (
        address.startswith(("https://", "data:image/")) and address.isascii() and address.isprintable()
    ):
        return "is no address of a picture: write one that begins with https:// or data:image/"
    return ""


# --- runs of this machine


def read(folder: pathlib.Path) -> Mark | None:
    """Return the mark of the run in a run folder; None = it is no demo. A damaged mark is one.

    OSError if it cannot be read: it is not known then whether there is one.
    """
    try:
        return typed_json.decode((folder / _FILE).read_bytes(), Mark)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NOT_READABLE:
        return Mark()


def write(run: str, mark: Mark) -> None:
    """Mark a run of this machine, which need not have begun. OSError if that fails."""
    folder = store.run_folder(run)
    store.make_private(folder)
    with store.open_private(folder / _FILE, "wb") as file:
        file.write(msgspec.json.encode(mark))


def forget_unstarted(run: str) -> None:
    """Remove the mark of a run that has no attempt."""
    if not store.attempts(run):
        with contextlib.suppress(OSError):
            (store.run_folder(run) / _FILE).unlink(missing_ok=True)
            store.run_folder(run).rmdir()

"""Reads what all manifests have: name, labels, annotations, and what is said of a strategy by the roles. Pure."""

import re

from tfsteps.imports.draft import Draft, Imported
from tfsteps.imports.fields import Fields, NotUnderstoodError
from tfsteps.spec import RoleName
from tfsteps.systems.kubernetes.preflight.references import QUEUE_LABEL

_OURS = ("tfsteps.dev/", "app.kubernetes.io/managed-by")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
RESTARTS = {"Never": "never", "OnFailure": "on_failure", "Always": "always", "ExitCode": "exit_code"}


def read_metadata(draft: Draft, manifest: Fields, name: str, *, kueue: bool = False) -> None:
    """Take `metadata`: name, labels and annotations.

    Args:
        draft: The job file.
        manifest: The manifest.
        name: The job's name; empty = the manifest's.
        kueue: Whether the queue of such a job is the label of Kueue.

    Raises:
        NotUnderstoodError: There is no name.
    """
    generated = manifest.take(str, "metadata", "generateName") or ""
    draft.fields["name"] = name or job_name(manifest.take(str, "metadata", "name") or generated)
    if not draft.fields["name"]:
        raise NotUnderstoodError("metadata.name is missing: give one with --name")
    for field in ("labels", "annotations"):
        values = manifest.take(dict, "metadata", field) or {}
        if kueue and field == "labels" and QUEUE_LABEL in values:
            draft.fields["queue"] = values.pop(QUEUE_LABEL)
        values.pop(_APPLIED, None)
        for key in [key for key in values if key.startswith(_OURS)]:
            draft.note(f"metadata.{field}[{key}]: tfsteps sets it itself")
            del values[key]
        if values:
            draft.fields[field] = values


def job_name(text: str) -> str:
    """Return a job's name made of a text; empty = it has no character for one."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-0123456789")[:63].rstrip("-")


def read_replicas(draft: Draft, name: RoleName, fields: Fields) -> int:
    """Take `replicas`, and add the role; return their number, 0 = the role is left out."""
    if name in draft.roles:
        raise NotUnderstoodError(f"{fields.where()} is a second {name}; a job file has one")
    count = fields.take(int, "replicas")
    replicas = 1 if count is None else count
    if replicas < 1:
        draft.note(f"{fields.where('replicas')} = {replicas}: the role {name} is left out")
        return 0
    draft.roles[name] = {} if replicas == 1 else {"replicas": replicas}
    return replicas


def read_restart(fields: Fields, *path: str) -> str:
    """Take a restart policy; return it as a job file has it, empty = it is missing."""
    policy = fields.take(str, *path)
    if policy and policy not in RESTARTS:
        raise NotUnderstoodError(f"{fields.where(*path)} = {policy!r}: expected {', '.join(RESTARTS)}")
    return RESTARTS[policy] if policy else ""


def read_strategy(draft: Draft) -> None:
    """Set the strategy where the roles alone do not say it."""
    if "ps" in draft.roles and (missing := {"chief", "worker"} - set(draft.roles)):
        reason = f"parameter servers without a {missing.pop()}: a program in TensorFlow 1's graph mode"
        draft.decide(("strategy",), "between_graph", reason)


def restarting(draft: Draft) -> bool:
    """Tell whether any role is restarted."""
    return any(role.get("restart", "never") != "never" for role in draft.roles.values())


def imported(
    draft: Draft, manifest: Fields, source: str, system: str, bare: frozenset[RoleName] = frozenset()
) -> Imported:
    """Return the finished job of a manifest, of which all that is understood has been taken.

    Raises:
        NotUnderstoodError: No role is left.
    """
    if not draft.roles:
        raise NotUnderstoodError("it has no replicas")
    read_strategy(draft)
    draft.report(manifest)
    job = draft.finished(bare)
    return Imported(source, system, job, draft.comments, draft.notes)

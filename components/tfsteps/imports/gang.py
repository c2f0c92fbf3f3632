"""Finds the gang of a job in what its pods, its scheduling policy and the PodGroups beside it say together. Pure."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.spec import Gang, TrainingJob, dotted
from tfsteps.spec.problems import shown
from tfsteps.spec.units import write_duration
from tfsteps.systems.kubernetes.render.gang import POD_GROUP_LABEL, POD_GROUPS
from tfsteps.systems.manifest.draft import Imported, prune
from tfsteps.systems.manifest.fields import Fields

_NUMBERS = ("min_available", "schedule_timeout")  # of a scheduling policy
_AFTER = TrainingJob.__struct_fields__[TrainingJob.__struct_fields__.index("gang") + 1 :]  # written after it
_VOLCANO = "volcano"
_VOLCANO_GROUPS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


def pod_groups(documents: Iterable[Any]) -> dict[str, Fields]:
    """Return the PodGroups of scheduler-plugins among documents, by name."""
    groups = {}
    for document in documents:
        if isinstance(document, dict) and (document.get("apiVersion"), document.get("kind")) == (
            POD_GROUPS.api,
            POD_GROUPS.kind,
        ):
            group = Fields(document)
            groups[group.take(str, "metadata", "name") or ""] = group
    return groups


def group_names(manifest: Any) -> list[str]:
    """Return the groups of scheduler-plugins that labels anywhere in a manifest name, such as those of its pods."""
    if isinstance(manifest, list):
        return [name for item in manifest for name in group_names(item)]
    if not isinstance(manifest, Mapping):
        return []
    labels = manifest.get("labels")
    name = labels.get(POD_GROUP_LABEL) if isinstance(labels, Mapping) else None
    names = [name] if isinstance(name, str) else []
    return list(dict.fromkeys([*names, *(group for item in manifest.values() for group in group_names(item))]))


def left_over(name: str, group: Fields) -> Iterator[str]:
    """Yield what a PodGroup has that no job has taken: all of it, or fields of its own."""
    left = dict(group.left())
    if ("kind",) in left:
        yield f"PodGroup {name} ({POD_GROUPS.api}) is no job, and is left as it is"
        return
    for path, value in left.items():
        if path[0] == "spec":
            yield f"PodGroup {name}: {dotted(path)} = {shown(value)}: the group of a job has no field for it"


def with_gang(job: Imported, groups: Mapping[str, Fields]) -> Imported:
    """Return a job with a `gang` if it is certain that it had one which a job file can have; else say why not.

    Args:
        job: The job, with its group in the pods' labels, and the numbers of a scheduling policy in `systems`.
        groups: The PodGroups beside it. Its own loses what becomes the gang, so that no second job takes it.
    """
    fields, comments, notes = copy.deepcopy(job.job), dict(job.comments), list(job.notes)
    pods = _pods(fields)
    schedulers = [pod.get("spec", {}).get("schedulerName") for pod in pods]
    scheduler = schedulers[0] if all(name == schedulers[0] for name in schedulers) else None
    names = [pod.get("metadata", {}).get("labels", {}).get(POD_GROUP_LABEL) for pod in pods]
    group = next((name for name in names if name is not None), None)
    options = fields.get("systems", {}).get(job.system, {}) if job.reads_gangs else {}
    if any(key in pod.get("metadata", {}).get("annotations", {}) for pod in pods for key in _VOLCANO_GROUPS):
        notes.append("the pods' PodGroup of Volcano: `gang` has none of them; all runs of this job join this one")
    if group is not None:
        reason = _why_none(job, group, names, scheduler, groups)
        if not reason:
            seconds = groups[group].take(int, "spec", "scheduleTimeoutSeconds")
            least = groups[group].take(int, "spec", "minMember")
            groups[group].take(str, "kind")  # so that it is not reported as left
            policy = {name: options.pop(name) for name in _NUMBERS if name in options}
            notes += [
                f"schedulingPolicy: {name} = {value}: the PodGroup has the numbers" for name, value in policy.items()
            ]
            _write(fields, job.system, scheduler, least, write_duration(seconds) if seconds else None)
        else:
            stays = f"label {POD_GROUP_LABEL} = {group} of the pods stays, so that all runs of this job join one group"
            notes.append(f"{stays}: {reason}")
    elif policy := {name: options[name] for name in _NUMBERS if name in options}:
        if scheduler in (None, _VOLCANO):
            comments["systems", job.system, next(iter(policy))] = (
                "for Volcano, whose groups `gang` does not have"
                if scheduler
                else "the scheduler is the operator's: if it is one of scheduler-plugins, write `gang` in place of this"
            )
        else:
            least, timeout = (options.pop(name, None) for name in _NUMBERS)
            _write(fields, job.system, scheduler, least, timeout)
    return msgspec.structs.replace(job, job=fields, comments=comments, notes=notes)


def _pods(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the pod patches of all roles: one, if it is the job's."""
    return [fields["pod"]] if "pod" in fields else [role.get("pod", {}) for role in fields["roles"].values()]


def _why_none(job: Imported, group: Any, names: list[Any], scheduler: Any, groups: Mapping[str, Fields]) -> str:
    """Return why a group of the pods becomes no gang; empty = it does."""
    if not job.reads_gangs:
        return "on this job system, import does not read gangs"
    if any(name != group for name in names):
        return "a `gang` is of all replicas, and not all roles are in this group"
    if scheduler in (None, _VOLCANO):
        return "no one scheduler of the pods looks at it: name it as `gang.scheduler`"
    if group not in groups:
        return "the PodGroup is not beside the job: add it to the file, and import it again for a `gang`"
    if ("spec", "minMember") not in dict(groups[group].left()):
        return "its minMember is missing, or another job of the file has taken it"
    return ""


def _write(fields: dict[str, Any], system: str, scheduler: Any, least: int | None, timeout: str | None) -> None:
    """Set the gang, and take what it renders to out of the pods; remove options that have become empty."""
    gang = {
        "scheduler": scheduler if scheduler != Gang().scheduler else None,
        "min_available": least if least != sum(role.get("replicas", 1) for role in fields["roles"].values()) else None,
        "timeout": timeout,
    }
    for pod in _pods(fields):
        del pod["spec"]["schedulerName"]
        pod.get("metadata", {}).get("labels", {}).pop(POD_GROUP_LABEL, None)
    for place in (fields, *fields["roles"].values()):
        if "pod" in place:
            prune(place)
    last = {name: fields.pop(name) for name in _AFTER if name in fields}
    fields |= {"gang": {key: value for key, value in gang.items() if value is not None}, **last}
    if fields.get("systems", {}).get(system) == {}:
        del fields["systems"]  # an imported job has options of one system

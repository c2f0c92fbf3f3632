"""Reads what manifests have in common: their metadata, and the pod template of a role. Pure.

What a template has without a field becomes the `pod` of its role. This is the inverse of
`systems.kubernetes.render.pod_template`: the fields of a role render to what the template has. A field that would
render to anything else stays in the pod patch, such as a request without a limit.
"""

import contextlib
import math
import re
from collections.abc import Mapping
from typing import Any

from tfsteps.spec import RoleName
from tfsteps.spec.decode import Document, decode
from tfsteps.spec.fields import EnvName
from tfsteps.spec.pod import EnvSource, Resources, Toleration, Volume
from tfsteps.spec.units import parse_bytes
from tfsteps.systems.expansion import references
from tfsteps.systems.kubernetes.preflight.references import QUEUE_LABEL
from tfsteps.systems.kubernetes.render.pod_template import CONTAINER
from tfsteps.systems.manifest.draft import Draft, Imported
from tfsteps.systems.manifest.fields import Fields, NotUnderstoodError

_OURS = re.compile(r"TF_CONFIG|TFSTEPS_.*")
_RENDERED_VOLUME = re.compile(r"volume-[0-9]+|shared-memory")
_GPUS = re.compile("[1-9][0-9]{0,2}")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  of a container
_NVIDIA = "nvidia.com/gpu"
_ISTIO = "sidecar.istio.io/inject"
_PORT = [{"containerPort": 2222, "name": "tfjob-port"}]

_OUR_KEYS = ("tfsteps.dev/", "app.kubernetes.io/managed-by")
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
        for key in [key for key in values if key.startswith(_OUR_KEYS)]:
            draft.note(f"metadata.{field}[{key}]: tfsteps sets it itself")
            del values[key]
        if values:
            draft.fields[field] = values


def job_name(text: str) -> str:
    """Return a job's name made of a text; empty = it has no character for one."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-0123456789")[:63].rstrip("-")


def read_replicas(draft: Draft, name: RoleName, fields: Fields) -> int:
    """Take `replicas`, and add the role; return their number, 0 = the role is left out."""
    count = fields.count("replicas")
    return add_role(draft, name, fields.where(), {fields.where("replicas"): count})


def add_role(draft: Draft, name: RoleName, where: str, counts: Mapping[str, int | None]) -> int:
    """Add a role; return the number of its replicas, 0 = it is left out.

    Args:
        draft: The job file.
        name: The role.
        where: The field that describes it.
        counts: The fields whose product is the number of replicas; None = 1.
    """
    if name in draft.roles:
        raise NotUnderstoodError(f"{where} is a second {name}; a job file has one")
    replicas = math.prod(1 if count is None else count for count in counts.values())
    if not replicas:
        zero = next(field for field, count in counts.items() if count == 0)
        draft.no_replicas.append(zero)
        draft.note(f"{zero} = 0: the role {name} is left out")
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
        if zeros := " and ".join(f"{field} is 0" for field in draft.no_replicas):
            raise NotUnderstoodError(f"{zeros}, expected at least 1 replica of one role; raise the number")
        raise NotUnderstoodError(
            f"{draft.roles_at} is missing or empty: expected a role with at least 1 replica; add one"
        )
    read_strategy(draft)
    draft.report(manifest)
    job = draft.finished(bare)
    return Imported(source, system, job, draft.comments, draft.notes, draft.reads_gangs)


def read_pod(draft: Draft, name: RoleName, template: Fields, *, container: str = CONTAINER) -> dict[str, Any]:
    """Take a pod template, and return the fields of a role.

    Args:
        draft: Takes the decisions and notes.
        name: The role.
        template: The pod template; `restartPolicy` must have been taken before.
        container: Name of the container that trains; empty = the one of a job file's name, else the first.

    Raises:
        NotUnderstoodError: It has no such container, or is no pod template.
    """
    _check_shape(template)
    metadata, spec = template.take(dict, "metadata") or {}, template.take(dict, "spec") or {}
    containers: list[dict[str, Any]] = spec.get("containers", [])
    if not containers:
        raise NotUnderstoodError(f"{template.where('spec', 'containers')} is missing: expected a list of containers")
    trains = next((item for item in containers if item["name"] == (container or CONTAINER)), None)
    if trains is None and container:
        names = ", ".join(item["name"] for item in containers)
        where = template.where("spec", "containers")
        raise NotUnderstoodError(f"{where} has {names}, and no container `{container}`, which the operator looks for")
    trains = trains or containers[0]
    role: dict[str, Any] = {}
    for field, key in (("image", "image"), ("command", "command"), ("args", "args"), ("working_dir", "workingDir")):
        if value := trains.pop(key, None):
            role[field] = value
    if trains.get("ports") == _PORT:
        del trains["ports"]  # the operator's default
    role["env"] = _env(draft, name, trains)
    role["resources"] = _resources(trains)
    role["volumes"] = _volumes(spec, trains, role["resources"])
    role["node_selector"] = spec.pop("nodeSelector", {})
    role["tolerations"] = _tolerations(spec)
    trains["name"] = CONTAINER
    spec["containers"] = [trains, *(item for item in containers if item is not trains)]
    if len(trains) == 1 and len(containers) == 1:
        del spec["containers"]
    metadata.pop("creationTimestamp", None)
    annotations = metadata.get("annotations", {})
    if annotations.get(_ISTIO) == "false":
        del annotations[_ISTIO]
    metadata = {key: value for key, value in metadata.items() if value}
    role["pod"] = {key: value for key, value in (("metadata", metadata), ("spec", spec)) if value}
    return {field: value for field, value in role.items() if value}


def _check_shape(template: Fields) -> None:
    """Raise NotUnderstoodError if a part that is looked into is no pod template's."""
    for part in ("labels", "annotations"):
        template.inside("metadata", part)
    for part in ("imagePullSecrets", "tolerations"):
        template.mappings("spec", part)
    template.named("spec", "volumes")
    for kind in ("containers", "initContainers"):
        for container in template.named("spec", kind):
            container.named("env")
            container.named("volumeMounts")
            for part in ("requests", "limits"):
                container.inside("resources", part)


def _fits(value: Any, into: Any) -> bool:
    """Tell whether a job file's field of a type takes a value."""
    return not decode(Document(value), into)[1]


def _env(draft: Draft, name: RoleName, container: dict[str, Any]) -> dict[str, Any]:
    """Take the variables that a job file can have; the others stay, and those that refer to them."""
    variables: dict[str, Any] = {}
    staying: list[dict[str, Any]] = []
    for item in container.pop("env", []):
        key, value = item["name"], _value(item)
        if _OURS.fullmatch(key):
            draft.note(f"{key} of {name}: tfsteps sets this variable itself")
            continue
        known = {entry["name"] for entry in staying}
        late = isinstance(value, str) and references(value) & known
        if value is None or late or key in known or key in variables or not _fits(key, EnvName):
            staying.append(item)
        else:
            variables[key] = value
    if staying:
        container["env"] = staying
    return variables


def _value(item: Mapping[str, Any]) -> Any:
    """Return the value of a variable in a job file; None = a job file cannot have it."""
    source = item.get("valueFrom")
    if source is None:
        return item.get("value", "")
    match source:
        case {"secretKeyRef": {"name": str(name), "key": str(key), **more}} if not more and len(source) == 1:
            value = {"secret": name, "key": key}
        case {"configMapKeyRef": {"name": str(name), "key": str(key), **more}} if not more and len(source) == 1:
            value = {"config_map": name, "key": key}
        case {"fieldRef": {"fieldPath": str(path), **more}} if more in ({}, {"apiVersion": "v1"}) and len(source) == 1:
            value = {"field": path}
        case _:
            return None
    return value if _fits(value, EnvSource) else None


# --- resources


def _resources(container: dict[str, Any]) -> dict[str, Any]:
    """Take what a job file has for resources: a request without a limit stays, for a job file's has a limit too."""
    parts = container.pop("resources", {})
    requests, limits = parts.get("requests", {}), parts.get("limits", {})
    result: dict[str, Any] = {}
    for key in ("cpu", "memory"):
        limit = limits.get(key)
        request = requests.get(key, limit)
        part = {key: request} if request == limit else {key: request, "limits": {key: limit}}
        if limit is not None and _fits(part, Resources):
            result |= {key: request}
            if request != limit:
                result.setdefault("limits", {})[key] = limit
            limits.pop(key)
            requests.pop(key, None)
    gpus = sorted((key for key in limits if "/" in key and "gpu" in key.rpartition("/")[2]), key=_NVIDIA.__ne__)
    for key in gpus[:1]:
        count = str(limits[key])
        if _GPUS.fullmatch(count) and int(count) <= 128 and str(requests.get(key, count)) == count:
            result |= {"gpu": int(count), **({} if key == _NVIDIA else {"gpu_resource": key})}
            limits.pop(key)
            requests.pop(key, None)
    if "limits" in result:
        result["limits"] = result.pop("limits")  # written last
    if left := {key: value for key, value in parts.items() if value}:
        container["resources"] = left
    return result


def _bytes(value: Any) -> float:
    """Return an amount of memory; infinite if it cannot be read."""
    with contextlib.suppress(ValueError, TypeError):
        if (amount := parse_bytes(str(value))) is not None:
            return amount
    return float("inf")


# --- volumes


def _volumes(spec: dict[str, Any], container: dict[str, Any], need: dict[str, Any]) -> list[dict[str, Any]]:
    """Take the volumes that only the training container mounts, and a job file can have; the size of /dev/shm, too.

    None is taken if a volume that stays has a name that rendered volumes have: a patch is merged by their names.
    """
    sources, mounts = spec.get("volumes", []), container.get("volumeMounts", [])
    others = [item for kind in ("containers", "initContainers") for item in spec.get(kind, []) if item is not container]
    shared = {mount["name"] for other in others for mount in other.get("volumeMounts", [])}
    taken: dict[str, list[dict[str, Any]]] = {}
    size = None
    for source in sources:
        name = source["name"]
        volume_mounts = [mount for mount in mounts if mount["name"] == name]
        if name in shared or not volume_mounts or name in taken:
            continue
        volumes = [_volume(source, mount) for mount in volume_mounts]
        if size is None and len(volume_mounts) == 1 and (size := _shared_memory(source, volume_mounts[0], need)):
            taken[name] = []
        elif all(volume and _fits(volume, Volume) for volume in volumes) and (
            "emptyDir" not in source or len(volume_mounts) < 2
        ):
            taken[name] = [volume for volume in volumes if volume]
    names = {item["name"] for item in (*mounts, *sources)} - taken.keys()
    if any(_RENDERED_VOLUME.fullmatch(name) for name in names):
        return []
    if size:
        need["shared_memory"] = size
    ordered = [volume for mount in mounts for volume in taken.get(mount["name"], []) if _of(mount, volume)]
    _keep(spec, "volumes", [source for source in sources if source["name"] not in taken])
    _keep(container, "volumeMounts", [mount for mount in mounts if mount["name"] not in taken])
    return ordered


def _of(mount: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    return bool(mount.get("mountPath") == volume["mount"])


def _keep(place: dict[str, Any], key: str, items: list[Any]) -> None:
    place.pop(key, None)
    if items:
        place[key] = items


def _volume(source: Mapping[str, Any], mount: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a volume of a job file; None = it cannot have this one."""
    kinds = [kind for kind in source if kind != "name"]
    if len(kinds) != 1 or not set(mount) <= {"name", "mountPath", "subPath", "readOnly"} or "mountPath" not in mount:
        return None
    read_only = bool(mount.get("readOnly"))
    volume: dict[str, Any]
    match source:
        case {"persistentVolumeClaim": {"claimName": str(claim), **more}} if set(more) <= {"readOnly"}:
            volume, read_only = {"pvc": claim}, read_only or bool(more.get("readOnly"))
        case {"secret": {"secretName": str(name), **more}} if not more:
            volume = {"secret": name}
        case {"configMap": {"name": str(name), **more}} if not more:
            volume = {"config_map": name}
        case {"hostPath": {"path": str(path), **more}} if more in ({}, {"type": ""}):
            volume = {"host_path": path}
        case {"nfs": {"server": str(server), "path": str(path), **more}} if more in ({}, {"readOnly": False}):
            volume = {"nfs": {"server": server, "path": path}}
        case {"emptyDir": {"sizeLimit": size, **more}} if more in ({}, {"medium": ""}, {"medium": "Memory"}):
            volume = {"empty_dir": size, **({"in_memory": True} if more.get("medium") else {})}
        case _:
            return None
    volume["mount"] = mount["mountPath"]
    if mount.get("subPath"):
        volume["sub_path"] = mount["subPath"]
    return {**volume, "read_only": True} if read_only else volume


def _shared_memory(source: Mapping[str, Any], mount: Mapping[str, Any], need: Mapping[str, Any]) -> Any:
    """Return the size of /dev/shm if that is what a volume is for, and it fits into the memory limit; else None."""
    match source:
        case {"emptyDir": {"medium": "Memory", "sizeLimit": size, **more}} if not more:
            limit = need.get("limits", {}).get("memory", need.get("memory"))
            small = limit is None or _bytes(size) <= _bytes(limit)
            plain = mount.get("mountPath") == _SHARED_MEMORY and len(mount) == 2
            return size if plain and small and _fits({"shared_memory": size}, Resources) else None
    return None


def _tolerations(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Take the tolerations, if a job file can have all of them: a patch replaces the whole list."""
    names = {
        "key": "key",
        "operator": "operator",
        "value": "value",
        "effect": "effect",
        "tolerationSeconds": "seconds",
    }
    items = spec.get("tolerations", [])
    if not all(set(item) <= set(names) for item in items):
        return []
    result = [{names[key]: value for key, value in item.items() if value != ""} for item in items]
    result = [{k: v for k, v in item.items() if (k, v) != ("operator", "Equal")} for item in result]
    if not all(_fits(item, Toleration) for item in result):
        return []
    spec.pop("tolerations", None)
    return result

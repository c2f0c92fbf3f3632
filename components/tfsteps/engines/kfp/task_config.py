"""`dsl.TaskConfig`, the settings of an author on a task: from a compiled pipeline, and to the fields of a job.

The driver passes it as Kubernetes JSON, with the field names of a pod spec. A field is None if it is not set, and with
kfp.local. Settings for the launcher are left out: variables TFSTEPS_*, and a mounted Secret with a file that one of
them names.
"""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.spec import Problem, SpecError

_GPU = "nvidia.com/gpu"
_OURS = "TFSTEPS_"
_NAMED = "a"  # the name of an object that only the run knows


def partial_job(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what `config` says, as part of a job.

    Raises:
        SpecError: It is not what the driver writes, or a job description does not support the source of a volume or
            variable.
    """
    config = _checked(config or {})
    fields = {
        "resources": _resources(config.get("resources") or {}),
        "node_selector": config.get("nodeSelector") or {},
        "tolerations": [_toleration(toleration) for toleration in config.get("tolerations") or []],
        "env": dict(_env(config.get("env") or [])),
        "volumes": list(_volumes(config)),
        "pod": {"spec": {"affinity": config["affinity"]}} if config.get("affinity") else {},
    }
    return {field: value for field, value in fields.items() if value}


class _NamedItem(msgspec.Struct):
    name: str


class _Variable(_NamedItem):
    source: dict[str, Any] | None = msgspec.field(name="valueFrom", default=None)


class _ConfigMount(_NamedItem):
    path: str = msgspec.field(name="mountPath")


class _ConfigResources(msgspec.Struct):
    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class _Config(msgspec.Struct, rename="camel"):
    """The shape that the functions below rely on."""

    resources: _ConfigResources | None = None
    node_selector: dict[str, Any] | None = None
    tolerations: list[dict[str, Any]] | None = None
    env: list[_Variable] | None = None
    volumes: list[_NamedItem] | None = None
    volume_mounts: list[_ConfigMount] | None = None
    affinity: dict[str, Any] | None = None


def _checked(config: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        typed_json.convert(config, _Config)
    except msgspec.ValidationError as error:
        fix = "Give the input a `dsl.TaskConfig`"
        wrong = f"is not what Kubeflow Pipelines writes ({error})"
        raise SpecError([Problem(path=("task_config",), wrong=wrong, fix=fix)], "inputs") from error
    return config


def _resources(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return requests with the limits beside them; a limit alone is a request too, as Kubernetes has it."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    result: dict[str, Any] = {name: {**limits, **requests}.get(name) for name in ("cpu", "memory")}
    result["limits"] = {name: limits[name] for name in ("cpu", "memory") if name in limits}
    extended = {name: _count(count) for name, count in {**requests, **limits}.items() if "/" in name}
    resource = _GPU if _GPU in extended else next(iter(extended), "")  # the accelerator of the author
    result["gpu"] = extended.get(resource, 0)
    result["gpu_resource"] = resource if result["gpu"] and resource != _GPU else ""
    return {name: value for name, value in result.items() if value}


def _count(count: str | float) -> str | float:
    """Return the number that a text has; any other value is left to the parser of jobs."""
    return int(count) if isinstance(count, str) and count.isascii() and count.isdigit() and len(count) < 20 else count


def _toleration(toleration: Mapping[str, Any]) -> dict[str, Any]:
    names = {"key": "key", "operator": "operator", "value": "value", "effect": "effect", "tolerationSeconds": "seconds"}
    return {target: toleration[source] for source, target in names.items() if toleration.get(source) not in (None, "")}


def _env(variables: list[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    for variable in variables:
        name, source = variable["name"], variable.get("valueFrom") or {}
        if name.startswith(_OURS):
            continue  # for the launcher: the replicas get their own variables
        match source:
            case {"secretKeyRef": {"name": secret, "key": key}}:
                yield name, {"secret": secret, "key": key}
            case {"configMapKeyRef": {"name": config_map, "key": key}}:
                yield name, {"config_map": config_map, "key": key}
            case {"fieldRef": {"fieldPath": field}}:
                yield name, {"field": field}
            case {} if not source:
                yield name, variable.get("value", "")
            case _:
                raise _unknown(
                    ("env", name), "has a source that jobs do not support", "a value, Secret, ConfigMap or field"
                )


def _volumes(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    sources = {volume["name"]: volume for volume in config.get("volumes") or []}
    mounts = config.get("volumeMounts") or []
    launchers = [_holding(mounts, str(variable.get("value"))) for variable in _launchers(config)]
    for mount in mounts:
        source = sources.get(mount["name"], {"name": mount["name"]})
        if "secret" in source and mount in launchers:
            continue
        entry: dict[str, Any] = {"mount": mount["mountPath"], **_source(source)}
        if mount.get("subPath"):
            entry["sub_path"] = mount["subPath"]
        if mount.get("readOnly"):
            entry["read_only"] = True
        yield entry


def _launchers(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the variables for the launcher."""
    return [variable for variable in config.get("env") or [] if variable["name"].startswith(_OURS)]


def _holding(mounts: list[Mapping[str, Any]], file: str) -> Mapping[str, Any] | None:
    """Return the mount in which a file is: the innermost one. None = it is in no mount, or no file."""
    folders = {pathlib.PurePosixPath(mount["mountPath"]): mount for mount in mounts}
    path = pathlib.PurePosixPath(file)
    return next((folders[folder] for folder in (path, *path.parents) if folder in folders), None)


def _source(volume: Mapping[str, Any]) -> dict[str, Any]:
    match volume:
        case {"persistentVolumeClaim": {"claimName": claim}}:
            return {"pvc": claim}
        case {"secret": {"secretName": secret}}:
            return {"secret": secret}
        case {"configMap": {"name": config_map}}:
            return {"config_map": config_map}
        case {"hostPath": {"path": path}}:
            return {"host_path": path}
        case {"nfs": {"server": server, "path": path}}:
            return {"nfs": {"server": server, "path": path}}
        case {"emptyDir": {"sizeLimit": size, **rest}}:
            return {"empty_dir": size, **({"in_memory": True} if rest.get("medium") == "Memory" else {})}
        case _:
            allowed = "a PVC, Secret, ConfigMap, host path, NFS export, or an emptyDir with a size limit"
            raise _unknown(("volumes", volume["name"]), "has a source that jobs do not support", allowed)


def _unknown(path: tuple[str, ...], wrong: str, allowed: str) -> SpecError:
    problem = Problem(path=("task_config", *path), wrong=wrong, allowed=allowed, fix="Use another source on the task")
    return SpecError([problem], "task_config")


def task_config(container: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables and volumes of a task, as Kubernetes JSON.

    Args:
        container: The task's container.
        settings: What kfp.kubernetes set on the task, of the platform settings.
    """
    volumes = list(_set_volumes(settings))
    return {
        "env": [*(container.get("env") or []), *_set_variables(settings)],
        "volumes": [volume for volume, _ in volumes],
        "volumeMounts": [mount for _, mount in volumes],
    }


def _set_variables(settings: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    sources = (("secretAsEnv", "secret", "secretKeyRef"), ("configMapAsEnv", "configMap", "configMapKeyRef"))
    for field, kind, reference in sources:
        for source in settings.get(field) or []:
            for pair in source.get("keyToEnv") or []:
                key = {"name": _name(source, f"{kind}Name"), "key": pair.get(f"{kind}Key") or _NAMED}
                yield {"name": pair["envVar"], "valueFrom": {reference: key}}
    for source in settings.get("fieldPathAsEnv") or []:
        yield {"name": source["name"], "valueFrom": {"fieldRef": {"fieldPath": source["fieldPath"]}}}


def _set_volumes(settings: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each volume with its mount."""
    sources = (
        ("pvcMount", "pvcName", "persistentVolumeClaim", "claimName"),
        ("secretAsVolume", "secretName", "secret", "secretName"),
        ("configMapAsVolume", "configMapName", "configMap", "name"),
    )
    for field, named, kind, key in sources:
        for i, source in enumerate(settings.get(field) or []):
            name = f"{field}-{i}"
            mount = {"name": name, "mountPath": source["mountPath"], "subPath": source.get("subPath", "")}
            yield {"name": name, kind: {key: _name(source, named)}}, mount


def _name(source: Mapping[str, Any], field: str) -> str:
    constant = (source.get(f"{field}Parameter") or {}).get("runtimeValue", {}).get("constant")
    return str(source.get(field) or constant or _NAMED)

"""Short forms of a replica's GPUs, CPU, memory and volumes: `2(T4)`, `2~4`, `data(pvc-share):/mnt`.

They are the notations of cube-studio. Each stands for fields of the job file, and is replaced by these before the
fields are read: everything after that sees, and prints, the fields alone.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from tfsteps.spec.pod import Resources, Volume
from tfsteps.spec.problems import RefusedError
from tfsteps.spec.spelling import nearest
from tfsteps.spec.units import parse_bytes, parse_cores

Expanded = tuple[Any, Mapping[str, RefusedError]]
"""The value with fields in place of short forms, and by field why its short form is refused."""

_WIDE = str.maketrans("（），：", "(),:")  # noqa: RUF001  full-width characters, as Chinese keyboards type them
_GPU = re.compile(r"(-1|[0-9]+|0?\.[0-9]+)\s*(?:\(\s*([^\s(),]+)\s*(?:,\s*([^\s(),]+)\s*)?\))?")
_VIRTUAL_GPU = re.compile(r"[^\s,()]+\s*,\s*(0?\.[0-9]+)\s*(?:\([^()]*\))?")  # memory and share, of cube-studio
_GPU_ALLOWED = "2, 2(TYPE), 2(VENDOR,TYPE), a fraction such as 0.5, or -1 for all GPUs of the node"
_VOLUME = re.compile(r"([^()]+)\(([^()]*)\)(?:\s*:\s*(\S+))?")
_VOLUME_ALLOWED = (
    "NAME(pvc):/PATH, NAME(pvc-share):/PATH, NAME(storage):/PATH, /FOLDER(hostpath):/PATH, NAME(configmap):/PATH, "
    "NAME(secret):/PATH, SERVER/FOLDER(nfs):/PATH, SIZE(memory):/PATH"
)
_SOURCES: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "pvc": lambda name: {"pvc": name, "personal": True},
    "pvc-share": lambda name: {"pvc": name},
    "storage": lambda name: {"pvc": name},
    "hostpath": lambda folder: {"host_path": folder},
    "configmap": lambda name: {"config_map": name},
    "secret": lambda name: {"secret": name},
    "nfs": lambda export: {"nfs": dict(zip(("server", "path"), re.split(r"(?=/)", export, maxsplit=1), strict=False))},
    "memory": lambda size: {"empty_dir": size, "in_memory": True},
}


def expand_volume(value: Any) -> Expanded:
    """Return the fields of a volume in a short form, such as `data(pvc-share):/mnt`; any other value unchanged.

    Raises:
        RefusedError: The text is none of the short forms.
    """
    text = value.translate(_WIDE).strip() if isinstance(value, str) else ""
    if "(" not in text:
        return value, {}
    if re.search(r"[,;]", text):
        raise RefusedError("has several volumes", "Write each in an entry of its own", _VOLUME_ALLOWED)
    if not (match := _VOLUME.fullmatch(text)):
        raise RefusedError("is not a volume", "Correct it", _VOLUME_ALLOWED)
    source, kind, mount = match[1].strip(), match[2].strip(), match[3]
    if kind not in _SOURCES:
        guess = nearest(kind, _SOURCES)
        fix = f"Write `({guess})`" if guess else "Choose one of these"
        raise RefusedError(f"has the unknown kind {kind!r}", fix, ", ".join(_SOURCES))
    if not mount:
        raise RefusedError("has no mount path", f"Write `{source}({kind}):/PATH`", _VOLUME_ALLOWED)
    return {**_SOURCES[kind](source), "mount": mount}, {}


def expand_resources(value: Any) -> Expanded:
    """Return resources with fields in place of `gpu: 2(T4)`, `cpu: 2~4` and `memory: 4G~8G`; others unchanged."""
    if not isinstance(value, dict):
        return value, {}
    plain, refused = dict(value), dict[str, RefusedError]()
    for field in ("gpu", "cpu", "memory"):
        try:
            plain |= _gpu(plain) if field == "gpu" else _range(plain, field)
        except RefusedError as error:
            refused[field] = error
            del plain[field]
    return plain, refused


def _gpu(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that `gpu` sets; empty = it is a number, or not a short form."""
    gpu = value.get("gpu")
    if isinstance(gpu, bool) or not isinstance(gpu, int | float | str):
        return {}
    text = str(gpu).translate(_WIDE).strip()
    match = _GPU.fullmatch(text)
    if not match:
        if share := _VIRTUAL_GPU.fullmatch(text):
            setting = "the setting `gpu.fraction` of the platform names its resource"
            fix = f"Write the share alone, `gpu: {share[1]}`: {setting}"
            raise RefusedError("asks for a part of a GPU's memory, too, which no setting names", fix, _GPU_ALLOWED)
        if "(" in text or ")" in text:
            raise RefusedError("is not a number of GPUs", "Correct it", _GPU_ALLOWED)
        return {}
    count, first, second = match.groups()
    if count.isdecimal() and not first:
        return {}
    vendor, type_ = (first, second) if second else (None, first)
    if type_ and not float(count):
        raise RefusedError("names a type, and no GPU is requested", "Write the number of GPUs, or 0 alone")
    kind = {"-1": "all_gpus"}.get(count, "gpu" if count.isdecimal() else "gpu_fraction")
    amounts = {"gpu": 0, kind: {"all_gpus": True, "gpu": int(float(count)), "gpu_fraction": float(count)}[kind]}
    names = {"gpu_type": type_, "gpu_resource" if "/" in (vendor or "") else "gpu_vendor": vendor}
    fields = amounts | {name: text for name, text in names.items() if text}
    for name, part in fields.items():
        if name != "gpu" and value.get(name) not in (None, part):
            raise RefusedError(f"sets {name} to {part}, and `{name}: {value[name]}` is set, too", "Keep one of the two")
    return fields


def _range(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return the request and limit that a range in `cpu` or `memory` sets; empty = it is no range."""
    text, limits = value.get(field), value.get("limits") or {}
    if not isinstance(text, str) or "~" not in text or not isinstance(limits, dict):
        return {}
    low, _, high = (part.strip() for part in text.partition("~"))
    parse, example = (parse_cores, "2~4") if field == "cpu" else (parse_bytes, "4Gi~8Gi")
    allowed = f"REQUEST~LIMIT, such as {example}"
    try:
        request, limit = parse(low), parse(high)
    except ValueError as error:
        raise RefusedError(f"{error}, nor a range", "Correct it", allowed) from error
    if request > limit:
        raise RefusedError("has a request above its limit", f"Write `{high}~{low}`", allowed)
    if limits.get(field) is not None:
        raise RefusedError(f"sets the limit that limits.{field} sets, too", "Keep one of the two")
    return {field: low, "limits": {**limits, field: high}}


SHORT_FORMS: Mapping[type, Callable[[Any], Expanded]] = {Resources: expand_resources, Volume: expand_volume}
"""The types that have short forms, each with the function that replaces these by fields."""

"""Finds, in an Argo manifest, what Argo refuses, drops without a message, or fails at run time."""

import functools
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfsteps import typed_json
from tfsteps.engines.argo import launchers
from tfsteps.engines.argo.references import Workflow
from tfsteps.spec.problems import Path, dotted, shown
from tfsteps.spec.spelling import nearest
from tfsteps.text import timezones
from tfsteps.yaml_reader import documents

API = "argoproj.io/"
_LIST = "List"
_CHOICES = {
    "retryPolicy": ("Always", "OnFailure", "OnError", "OnTransientError"),
    "concurrencyPolicy": ("Allow", "Forbid", "Replace"),
}
_GC = ("OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess")
_CRON_NAME = 52  # characters: Argo appends the time to it

_Node = Mapping[str, Any]
_WORDS = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
_EVERY = re.compile(r"@every (\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+")
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+) ")
_OF_CONTROLLER = {"", "Local", "UTC"}  # Go supports these without zone data
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_LENGTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]  # days of each month, at most
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: list[tuple[str, int, int, list[str]]] = [
    ("minute", 0, 59, []),
    ("hour", 0, 23, []),
    ("day of month", 1, 31, []),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _DAYS),
]
FILE = pathlib.Path(__file__).with_name("fields.json")
"""Made from the JSON schemas of Argo Workflows 3.7.3 to 4.1.2 by tests/argo/fields.py, which describes its format."""

_PLAIN: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "scalar": (str, int, float, bool),
    "any": (object,),
}


def lint_messages(compiled: str) -> list[str]:
    """Return a sentence for each problem of Argo manifests: which manifest, where in it, and what is wrong.

    Args:
        compiled: Manifests, YAML or JSON. Manifests of other kinds are ignored; it is a problem if there is none of
            Argo.

    Raises:
        YamlError: It is neither YAML nor JSON.
    """
    if not any(map(_is_argos, manifests(documents(compiled)))):
        return [f"there is no manifest with apiVersion: {API}v1alpha1 in it"]
    checked = _checked(compiled)
    others = _others(checked)
    return [f"{_name(manifest)}: {sentence}" for manifest in checked for sentence in _manifest(manifest, others)]


def warnings(compiled: str) -> list[str]:
    """Return a sentence for each thing that fails on some versions of Argo, and for each input that must still be set.

    Args:
        compiled: As for `problems`. Manifests with unknown fields or other types have no warnings.

    Raises:
        YamlError: It is neither YAML nor JSON.
    """
    return [*cautions(compiled), *missing_arguments(compiled)]


def cautions(compiled: str) -> list[str]:
    """Return the warnings that are not about inputs to be set; arguments and errors as for `warnings`."""
    argos = [manifest for manifest in manifests(documents(compiled)) if _is_argos(manifest)]
    others = _others([manifest for manifest in argos if _is_known(manifest)])
    return [f"{_name(manifest)}: {sentence}" for manifest in argos for sentence in _cautions(manifest, others)]


def _cautions(manifest: _Node, others: Mapping[launchers.TemplateKey, _Node]) -> Iterator[str]:
    if not _is_known(manifest):
        yield "this kind is not checked"
    elif _is_shaped(manifest):
        if manifest["spec"].get("schedule"):
            yield "spec.schedule: Argo 4 has no such field, and starts nothing; write schedules: [...]"
        if numbers := [*_not_text(manifest["spec"], ("spec",))]:
            more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
            yield f"{dotted(numbers[0])}{more}: it is not text, and the full CRDs of Argo 3.7 and 4 refuse it; quote it"
        yield from _workflow(manifest, others).cautions()


def _not_text(value: Any, path: Path) -> Iterator[Path]:
    """Yield the paths of values of parameters that are numbers, true or false. Argo itself reads them as text."""
    if isinstance(value, dict):
        if path[-2:-1] == ("parameters",):
            yield from ((*path, key) for key in ("value", "default") if isinstance(value.get(key), int | float))
        for key, item in value.items():
            yield from _not_text(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _not_text(item, (*path, i))


def missing_arguments(compiled: str) -> list[str]:
    """Return the warnings about inputs that must be set at submission; arguments and errors as for `warnings`."""
    checked = [manifest for manifest in _checked(compiled) if _is_shaped(manifest)]
    others = _others(checked)
    return [
        f"{_name(manifest)}: {sentence}" for manifest in checked for sentence in _workflow(manifest, others).warnings()
    ]


def manifests(read: Iterable[Any]) -> Iterator[Any]:
    """Yield the manifests of a file, those in a `kind: List` too."""
    for document in read:
        if isinstance(document, dict) and document.get("kind") == _LIST and isinstance(document.get("items"), list):
            yield from manifests(document["items"])
        else:
            yield document


def _checked(compiled: str) -> list[Any]:
    return [manifest for manifest in manifests(documents(compiled)) if _is_argos(manifest) and _is_known(manifest)]


def _is_known(manifest: _Node) -> bool:
    """Tell whether the kind of a manifest is checked, or a misspelled one of those; Argo ignores any other."""
    kind = manifest.get("kind")
    return not isinstance(kind, str) or kind in kinds() or nearest(kind, kinds()) is not None


def _is_shaped(manifest: _Node) -> bool:
    return manifest.get("kind") in kinds() and not any(violations(manifest))


def _others(checked: list[Any]) -> dict[launchers.TemplateKey, _Node]:
    """Return the specs of the known templates: the shipped ones, and those in the same file."""
    return launchers.known_templates(filter(_is_shaped, checked))


def _workflow(manifest: _Node, others: Mapping[launchers.TemplateKey, _Node]) -> Workflow:
    kind, spec = manifest["kind"], manifest["spec"]
    spec = spec["workflowSpec"] if kind == "CronWorkflow" else spec
    return Workflow(spec, template="Template" in kind, others=others)


def _is_argos(manifest: Any) -> bool:
    return isinstance(manifest, dict) and str(manifest.get("apiVersion", "")).startswith(API)


def _name(manifest: _Node) -> str:
    meta = manifest.get("metadata") or {}
    return f"{manifest.get('kind', 'no kind')} {meta.get('name') or meta.get('generateName') or 'without a name'}"


def _manifest(manifest: _Node, others: Mapping[launchers.TemplateKey, _Node]) -> Iterator[str]:
    kind = manifest.get("kind")
    if kind not in kinds():
        yield f"kind: {shown(kind)} is not one of {', '.join(kinds())}"
        return
    type_problems = list(violations(manifest))
    yield from type_problems
    if type_problems:  # the next checks rely on the types
        return
    spec = manifest["spec"]
    yield from _metadata(kind, manifest["metadata"])
    if kind == "CronWorkflow":
        yield from _schedules(spec)
        spec = spec["workflowSpec"]
    yield from _workflow(manifest, others).lint_messages()
    yield from _choices(spec, "spec")


def _metadata(kind: str, meta: _Node) -> Iterator[str]:
    if not meta.get("name") and not meta.get("generateName"):
        yield "metadata.name: it is missing"
    if kind == "ClusterWorkflowTemplate" and meta.get("namespace"):
        yield "metadata.namespace: a ClusterWorkflowTemplate is in no namespace"
    if kind == "CronWorkflow" and len(meta.get("name") or "") > _CRON_NAME:
        yield f"metadata.name: longer than {_CRON_NAME} characters, which leaves no room for the time of a run"


def _schedules(spec: _Node) -> Iterator[str]:
    schedules = spec.get("schedules") or ([spec["schedule"]] if spec.get("schedule") else [])
    if not schedules:
        yield "spec.schedules: it is missing"
    for i, schedule in enumerate(schedules):
        if problem := cron_problem(schedule):
            yield f"spec.schedules[{i}]: {shown(schedule)} {problem}"
    if problem := zone_problem(spec.get("timezone") or ""):
        yield f"spec.timezone: {shown(spec['timezone'])} {problem}"
    yield from _choices({key: value for key, value in spec.items() if key != "workflowSpec"}, "spec")


def _choices(node: Any, path: str) -> Iterator[str]:
    """Check, at any depth, the fields that allow only a few values; Argo's schema describes them as text."""
    if isinstance(node, list):
        for i, item in enumerate(node):
            yield from _choices(item, f"{path}[{i}]")
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        allowed = _GC if key == "strategy" and path.endswith("podGC") else _CHOICES.get(key, ())
        if allowed and isinstance(value, str) and value not in allowed:
            yield f"{path}.{key}: {shown(value)} is not one of {', '.join(allowed)}"
        yield from _choices(value, f"{path}.{key}")


def cron_problem(schedule: str) -> str:
    """Return what is wrong with a schedule, as a phrase that follows it; empty = nothing."""
    if (zone := _ZONE.match(schedule)) and (problem := zone_problem(zone[1])):
        return f"names a time zone that {problem}"
    text = _ZONE.sub("", schedule, count=1)
    if text.startswith("@"):
        known = text in _WORDS or _EVERY.fullmatch(text)
        return "" if known else f"is not one of {', '.join(sorted(_WORDS))} and @every with a duration"
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"has {len(fields)} fields; Argo expects 5: minute, hour, day of month, month, day of week"
    values: list[set[int]] = []
    for field, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        values.append(set())
        for part in field.split(","):
            if not (fires := _part(part, low, high, names)):
                return f"has no {name} from {low} to {high} in {part!r}"
            values[-1].update(fires)
    _, _, days, months, _ = values
    if fields[-1][0] in "*?" and min(days) > max(_LENGTHS[month - 1] for month in months):
        return "never fires: there is no such day"
    return ""


def zone_problem(name: str) -> str:
    """Return what is wrong with a time zone, as a phrase that follows it; empty = nothing."""
    fix = "" if name in _OF_CONTROLLER else timezones.fix(name)
    return f"{timezones.WRONG}, so nothing is ever started. {fix}" if fix else ""


def _part(part: str, low: int, high: int, names: list[str]) -> range:
    """Return the values of `*`, `a`, `a-b`, each optionally with `/step`; empty = others than `low` to `high`."""
    whole, slash, step = part.partition("/")
    if slash and not (step.isascii() and step.isdigit() and int(step)):
        return range(0)
    numbers = [low, high] if whole in {"*", "?"} else [_number(end, low, names) for end in whole.split("-")]
    ends = [end for end in numbers if end is not None and low <= end <= high]
    if len(ends) != len(numbers) or len(ends) > 2 or ends != sorted(ends):
        return range(0)
    last = high if slash and len(ends) == 1 else ends[-1]
    return range(ends[0], last + 1, int(step) if slash else 1)


def _number(text: str, low: int, names: list[str]) -> int | None:
    if text.lower() in names:
        return names.index(text.lower()) + low
    return int(text) if text.isascii() and text.isdigit() else None


@functools.cache
def _types() -> dict[str, dict[str, str]]:
    return typed_json.decode(FILE.read_bytes(), dict[str, dict[str, str]])


def kinds() -> list[str]:
    """Return the kinds of manifest in the table."""
    return [name for name, fields in _types().items() if "kind" in fields and "metadata!" in fields]


def violations(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each unknown field, missing field, and field of another type of a manifest."""
    yield from _object(manifest, _types()[manifest["kind"]], ())


def _value(value: Any, kind: str, path: Path) -> Iterator[str]:
    match kind[0], value:
        case _, None:
            return
        case "[", list():
            for i, item in enumerate(value):
                yield from _value(item, kind[1:-1], (*path, i))
        case "{", dict():
            for key, item in value.items():
                yield from _value(item, kind[1:-1], (*path, key))
        case _, dict() if kind in _types():
            yield from _object(value, _types()[kind], path)
        case _ if not _is_plain(value, kind):
            yield f"{dotted(path)}: {shown(value)} is not {_type_name(kind)}"


def _is_plain(value: Any, kind: str) -> bool:
    whole_or_not = kind in {"integer", "number"}
    return isinstance(value, _PLAIN.get(kind, ())) and not (isinstance(value, bool) and whole_or_not)


def _object(value: Mapping[str, Any], fields: Mapping[str, str], path: Path) -> Iterator[str]:
    for key, item in value.items():
        if kind := fields.get(key) or fields.get(f"{key}!"):
            yield from _value(item, kind, (*path, key))
        else:
            yield f"{dotted((*path, key))}: Argo has no such field{_suggestion(str(key), fields)}"
    for key in fields:
        if key.endswith("!") and value.get(key[:-1]) is None and path[-1:] != ("templateDefaults",):
            yield f"{dotted((*path, key[:-1]))}: it is missing"


def _suggestion(key: str, fields: Mapping[str, str]) -> str:
    guess = nearest(key, [field.rstrip("!") for field in fields])
    return f"; did you mean {guess}?" if guess else ""


def _type_name(kind: str) -> str:
    return {"[": "a list", "{": "a mapping"}.get(kind[0], f"of type {kind}" if kind in _PLAIN else "a mapping")

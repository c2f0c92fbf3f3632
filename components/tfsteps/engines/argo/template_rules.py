"""Rules for a single template of a Workflow."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfsteps import yaml_reader
from tfsteps.spec.problems import shown

_GRAPHS = ("steps", "dag")
_PODS = ("container", "containerSet", "script", "resource", "data", "http", "plugin", "suspend")
_NAME = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9]*")
_UNDERSCORED = re.compile(r"[-a-zA-Z0-9_]+")
_SOURCES = ("path", "parameter", "expression", "jsonPath", "jqFilter", "event", "supplied", "configMapKeyRef")
_LONGEST = 128
_REFERENCE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_KEY = r"(?:[-a-z0-9.]+/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_REQUIREMENT = (
    rf"\s*(?:!?\s*{_KEY}|{_KEY}\s*(?:==?|!=)\s*{_VALUE}|{_KEY}\s*[<>]\s*\d+"
    rf"|{_KEY}\s+(?:not)?in\s*\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\))\s*"
)
_SELECTOR = re.compile(rf"{_REQUIREMENT}(?:,{_REQUIREMENT})*")

_Node = Mapping[str, Any]


def lint_messages(template: _Node, where: str, defaults: _Node) -> Iterator[str]:
    """Yield a sentence for each problem of a template.

    Args:
        template: A template of valid types.
        where: Prefix of each sentence.
        defaults: The Workflow's `templateDefaults`.
    """
    yield from name_problem(template.get("name") or "", where)
    types = [field for field in (*_PODS, *_GRAPHS) if template.get(field) is not None]
    if len(types) != 1:
        allowed = ", ".join((*_PODS, *_GRAPHS))
        yield f"{where}: {' and '.join(types) or 'no type'}; a template has exactly one of {allowed}"
    for side in ("inputs", "outputs"):
        for kind in ("parameters", "artifacts"):
            names = [declared["name"] for declared in (template.get(side) or {}).get(kind) or []]
            yield from twice(names, f"{where}.{side}.{kind}")
            for name in names:
                yield from name_problem(name, f"{where}.{side}.{kind}", underscore=True)
    yield from _outputs(template, where)
    yield from _graph(template, where) if is_graph(template) else _pod(template, where, defaults)


def _resource(resource: _Node, where: str) -> Iterator[str]:
    """Check what a `resource` template creates, and the conditions that it waits for: label selectors of Kubernetes."""
    manifest = _REFERENCE.sub("reference", resource.get("manifest") or "")
    try:
        yaml_reader.documents(manifest)
    except yaml_reader.YamlError as error:
        yield f"{where}.resource.manifest, line {error.line}: {error.wrong}. {error.fix}"
    for field in ("successCondition", "failureCondition"):
        condition = _REFERENCE.sub("reference", resource.get(field) or "").strip()
        if condition and not _SELECTOR.fullmatch(condition):
            yield (
                f"{where}.resource.{field}: {shown(resource[field])} is not a condition that Argo can read. Write a "
                "path and a value without quotes, such as status.succeeded > 0; several are separated by commas"
            )


def is_graph(template: _Node) -> bool:
    """Tell whether a template calls others and creates no pod itself."""
    return any(template.get(field) is not None for field in _GRAPHS)


def name_problem(name: str, where: str, *, underscore: bool = False) -> Iterator[str]:
    """Yield the problem of a name of a template, task, parameter or artifact; the last two may contain `_`."""
    pattern = _UNDERSCORED if underscore else _NAME
    if not name:
        yield f"{where}: its name is missing"
    elif "{{" not in name and (not pattern.fullmatch(name) or len(name) > _LONGEST):
        yield f"{where}: {shown(name)} is not a valid name; use letters, digits and '-'{' and _' if underscore else ''}"


def twice(names: Sequence[Any], where: str) -> Iterator[str]:
    """Yield a sentence for each name that occurs more than once."""
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"{where}: {shown(name)} is defined twice"


def _outputs(template: _Node, where: str) -> Iterator[str]:
    fit = {"container": ("path",), "script": ("path",), "steps": ("parameter", "expression")}
    fit["dag"] = fit["steps"]
    for parameter in (template.get("outputs") or {}).get("parameters") or []:
        source = parameter.get("valueFrom") or {}
        sources = [key for key in _SOURCES if source.get(key) is not None]
        field = f"{where}.outputs.parameters.{parameter['name']}"
        if not sources and parameter.get("value") is None:
            yield f"{field}: it has neither value nor valueFrom"
        if len(sources) > 1:
            yield f"{field}: {' and '.join(sources)}; give one"
        for kind, allowed in fit.items():
            if template.get(kind) is not None and len(sources) == 1 and sources[0] not in allowed:
                yield f"{field}: valueFrom.{sources[0]} is not for {kind}, which takes {' or '.join(allowed)}"


def _graph(template: _Node, where: str) -> Iterator[str]:
    if template.get("activeDeadlineSeconds") is not None:
        yield f"{where}.activeDeadlineSeconds: only templates that make a pod take one"


def _pod(template: _Node, where: str, defaults: _Node) -> Iterator[str]:
    if template.get("parallelism") is not None:
        yield f"{where}.parallelism: only steps and dag take it"
    deadline = template.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and deadline < 0:
        yield f"{where}.activeDeadlineSeconds: {deadline} is less than 0"
    yield from _resource(template.get("resource") or {}, where)
    for kind in ("container", "script"):
        if template.get(kind) is not None and not {**(defaults.get(kind) or {}), **template[kind]}.get("image"):
            yield f"{where}.{kind}.image: it is missing"

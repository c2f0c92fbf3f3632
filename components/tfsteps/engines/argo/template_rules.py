"""Rules for a single template of a Workflow: its fields, its tasks or steps with their order, and their loops."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps import yaml_reader
from tfsteps.engines.argo import workflow
from tfsteps.engines.argo.launchers import text
from tfsteps.engines.authoring import REFERENCE
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
_RESULTS = {"Succeeded", "Failed", "Errored", "Skipped", "Omitted", "Daemoned", "AnySucceeded", "AllFailed"}
_DEPENDS = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_]*)(?:\.([A-Za-z]+))?")
_ITEM = re.compile(r"\{\{\s*item(?:\.([^\s{}]+))?\s*\}\}")

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


class TemplateCall(msgspec.Struct, frozen=True):
    """One task of a DAG, or one step of Steps.

    Attributes:
        node: The task or step of the manifest.
        before: Names of the calls that have ended when it starts.
    """

    node: _Node
    before: frozenset[str]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.node.get("name"))


def calls(template: _Node) -> list[TemplateCall]:
    """Return the tasks or steps of a template."""
    if template.get("dag") is None:
        result: list[TemplateCall] = []
        for group in template["steps"]:
            before = frozenset(call.name for call in result)
            result += [TemplateCall(node, before) for node in group or []]
        return result
    tasks = template["dag"].get("tasks") or []
    direct = {task["name"]: [other for other, _ in _depends(task)] for task in tasks}
    return [TemplateCall(task, frozenset(_closure(task["name"], direct))) for task in tasks]


def call_messages(template: _Node) -> Iterator[str]:
    """Yield a sentence for each problem of the order of a template's tasks or steps."""
    yield from twice([call.name for call in calls(template)], "names")
    if template.get("dag") is not None:
        yield from _dag(template["dag"])


def loops(call: _Node) -> list[str]:
    """Return the names of the loops of a task or step; more than one is a problem."""
    return [loop for loop in workflow.LOOPS if call.get(loop) is not None]


def _dag(dag: _Node) -> Iterator[str]:
    tasks = {task["name"]: task for task in dag.get("tasks") or []}
    fields = {key for task in tasks.values() for key, value in task.items() if value}
    if {"depends", "dependencies"} <= fields:
        yield "depends and dependencies exclude each other in one DAG"
    if {"depends", "continueOn"} <= fields:
        yield "continueOn and depends exclude each other in one DAG; write depends: other.Succeeded || other.Failed"
    ordered = bool({"depends", "dependencies"} & fields)
    for call in calls({"dag": dag}):
        for other, result in _depends(call.node):
            yield from (f"{call.name}: {sentence}" for sentence in _dependency(other, result, tasks))
        if call.name in call.before:
            yield f"{call.name}: it depends on itself"
        if ordered and call.name[:1].isdigit():
            yield f"{call.name}: begins with a digit, which Argo forbids in a DAG with dependencies"
    for target in (dag.get("target") or "").split():
        if target not in tasks and "{{" not in target:
            yield f"target {shown(target)} does not exist"


def _depends(task: _Node) -> list[tuple[str, str]]:
    """Return the tasks that a task depends on, and their results that it names; an empty result = it names none."""
    return _DEPENDS.findall(task.get("depends") or "") or [
        (dependency, "") for dependency in task.get("dependencies") or []
    ]


def _dependency(other: str, result: str, tasks: Mapping[str, _Node]) -> Iterator[str]:
    if other not in tasks:
        yield f"it depends on {shown(other)}, which does not exist"
    elif result and result not in _RESULTS:
        yield f"{shown(result)} is not one of {', '.join(sorted(_RESULTS))}"
    elif result in {"AnySucceeded", "AllFailed"} and not loops(tasks[other]):
        yield f"{other}.{result} requires a loop, and {other} has none"


def _closure(name: str, direct: Mapping[str, list[str]]) -> set[str]:
    closure: set[str] = set()
    pending = list(direct[name])
    while pending:
        if (dependency := pending.pop()) not in closure:
            closure.add(dependency)
            pending += direct.get(dependency, [])
    return closure


def loop_problem(call: _Node) -> str:
    """Return the problem of the list that a task or step loops over; empty = none, or the list is not known yet."""
    param = call.get("withParam")
    if param is None or REFERENCE in param or isinstance(_decoded(param), list):
        return ""
    return f"withParam: {shown(param)} is not a list as JSON; write one, such as '[1, 2]', or use withItems"


def loop_items(call: _Node) -> list[Any]:
    """Return the constant items of a loop; empty = none are known, or there is no loop."""
    listed = call.get("withItems")
    if listed is None:
        listed = _decoded(call.get("withParam") or "")
    return [item for item in listed if REFERENCE not in text(item)] if isinstance(listed, list) else []


def missing_item(name: str, call: _Node) -> str:
    """Return why the variable `item.KEY` has no value in a loop over constants; empty = it has one, or may have one.

    Args:
        name: The variable.
        call: The task or step with the loop.
    """
    key = name.removeprefix("item.")
    for item in [0] if call.get("withSequence") is not None else loop_items(call):
        if not isinstance(item, Mapping):
            return f"cannot be replaced: the items are not mappings, one is {shown(item)}; write {{{{item}}}}"
        if key not in item:
            known = ", ".join(map(str, item)) or "none"
            return f"cannot be replaced: an item has the keys {known}, and no {shown(key)}; correct one of the two"
    return ""


def rounds(call: _Node, arguments: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the distinct arguments of the iterations of a loop over constants; without a loop, the arguments."""
    seen: list[Mapping[str, str]] = []
    for item in loop_items(call) or [None]:
        values = {name: value if item is None else _with(item, value) for name, value in arguments.items()}
        if values not in seen:
            seen.append(values)
            yield values


def _with(item: Any, value: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match[1] is None:
            return text(item)
        return text(item[match[1]]) if isinstance(item, Mapping) and match[1] in item else match[0]

    return _ITEM.sub(replaced, value)


def _decoded(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return None

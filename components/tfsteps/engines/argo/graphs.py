"""The order of the tasks of a DAG or of the steps of Steps: which of them have ended when another one starts."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.engines.argo import workflow
from tfsteps.engines.argo.template_rules import twice
from tfsteps.spec.problems import shown

_RESULTS = {"Succeeded", "Failed", "Errored", "Skipped", "Omitted", "Daemoned", "AnySucceeded", "AllFailed"}
_DEPENDS = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_]*)(?:\.([A-Za-z]+))?")

_Node = Mapping[str, Any]


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


def lint_messages(template: _Node) -> Iterator[str]:
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

"""Whether a step of a Workflow will still wait for a job that a `launch` step has left running. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tfsteps.answer import Answer, known, unknown
from tfsteps.engines.argo.node_names import lies_within, without_groups
from tfsteps.engines.argo.workflow import LOOPS, NO_NODES, ended_steps, entrypoint, template_name, templates

_Node = Mapping[str, Any]

PROGRAM = "tfsteps.steps.wait.launcher"
"""The module that the container of a wait runs."""

_JOB = "job"
_OUTPUT = re.compile(r"\{\{\s*(?:tasks|steps)\.([^.\s{}]+)\.outputs\.")


class Wait(NamedTuple):
    """A call of the component `wait`.

    Attributes:
        task: Its name among the tasks or steps of its template.
        producer: The task or step whose output is the job; empty = the job comes from outside of the template, or that
            is not known.
    """

    task: str
    producer: str = ""


FindWait = Callable[[_Node, _Node], Wait | None]
"""Given a Workflow and a task or step of it, returns the wait that this one stands for; None = it stands for none."""


def find_wait(workflow: _Node, call: _Node) -> Wait | None:
    """Find the waits in a Workflow as tfsteps or its authors write it."""
    named = _callee(call)
    called = [call["inline"]] if call.get("inline") else [item for item in templates(workflow) if item["name"] == named]
    if not any(PROGRAM in ((item.get("container") or {}).get("command") or []) for item in called):
        return None
    parameters = (call.get("arguments") or {}).get("parameters") or []
    job = next((str(parameter.get("value", "")) for parameter in parameters if parameter["name"] == _JOB), "")
    found = _OUTPUT.search(job)
    return Wait(str(call["name"]), found[1] if found else "")


def awaited(workflow: _Node, step: str, find: FindWait) -> Answer:
    """Return whether a wait that has not ended may be for the job of a step; unknown = the Workflow has no nodes."""
    graphs = _Graphs(workflow)
    if not graphs.ended:
        return unknown(NO_NODES)
    waits = ((graph, find(workflow, call)) for graph, call in graphs.calls)
    return known(any(wait and graphs.may_wait(without_groups(step), graph, wait) for graph, wait in waits))


class _Graphs:
    """The templates that call others, with their nodes.

    Attributes:
        calls: The name of each such template, with each of its tasks or steps.
        ended: Of the nodes, by name without tries and groups, whether they have ended.
    """

    def __init__(self, workflow: _Node) -> None:
        self.calls = [(str(template["name"]), call) for template in templates(workflow) for call in _calls(template)]
        self.ended: dict[str, bool] = {}
        self._entrypoint = entrypoint(workflow)
        self._nodes: dict[str, set[str]] = {}  # by template
        for name, node, ended in ended_steps(workflow):
            path = without_groups(name)
            self.ended[path] = ended and self.ended.get(path, True)
            self._nodes.setdefault(template_name(node), set()).add(path)

    def may_wait(self, step: str, graph: str, wait: Wait) -> bool:
        """Tell whether a wait in the template `graph` may be for the job of `step`, and has not ended."""
        callers = self._nodes.get(graph, set())
        if wait.producer:
            callers = {node for node in callers if lies_within(step, f"{node}.{wait.producer}")}
        elif not self._is_complete(graph, frozenset()):
            return True
        return not all(self._is_over(node, wait.task) for node in callers)

    def _is_over(self, node: str, task: str) -> bool:
        """Tell whether a task or step below `node` has ended, or will not run."""
        return self.ended.get(node, False) or self.ended.get(f"{node}.{task}", False)

    def _is_complete(self, graph: str, within: frozenset[str]) -> bool:
        """Tell whether all calls of a template have a node; `within` = it is called by these."""
        if graph == self._entrypoint:
            return True
        sites = [(name, call) for name, call in self.calls if _callee(call) == graph]
        if not sites or graph in within:  # called by name from elsewhere, or by itself
            return False
        return all(self._is_complete(name, within | {graph}) and self._is_called(name, call) for name, call in sites)

    def _is_called(self, graph: str, call: _Node) -> bool:
        """Tell whether a task or step has all its nodes below each node of its template; those of a loop come late."""
        task, loops = str(call["name"]), any(call.get(loop) for loop in LOOPS)
        callers = self._nodes.get(graph, set())
        return all(self._is_over(node, task) or (not loops and f"{node}.{task}" in self.ended) for node in callers)


def _calls(template: _Node) -> Iterator[_Node]:
    yield from (template.get("dag") or {}).get("tasks") or []
    for group in template.get("steps") or []:
        yield from group or []


def _callee(call: _Node) -> str:
    return str((call.get("templateRef") or {}).get("template") or call.get("template") or "")

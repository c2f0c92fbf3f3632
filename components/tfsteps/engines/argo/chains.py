"""Inputs of steps through chains of calls: constants that the templates in between take as inputs and pass on."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.engines.argo import call_inputs, graphs, launchers, loops, template_rules
from tfsteps.engines.argo.inputs import UNKNOWN
from tfsteps.engines.unclear import REFERENCE

_ANY = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_WORKFLOW = re.compile(r"\{\{\s*workflow\.parameters\.([^\s{}]+)\s*\}\}")
_PARAMETER = re.compile(r"\{\{.*?\b(inputs|workflow)\.parameters\b", re.DOTALL)
_WHEN = "when"
_MOST = 1000  # templates with different inputs: more than Workflows have; limits the check

_Node = Mapping[str, Any]
_Templates = Mapping[Any, _Node]
_Path = tuple[str, ...]


def lint_messages(
    spec: _Node,
    others: Mapping[str, _Node],
    starts: tuple[str, ...],
    parameters: Mapping[str, str] | None,
    *,
    complete: bool,
) -> Iterator[tuple[_Path, str]]:
    """Yield the path of calls to a tfsteps step, and a problem of an input that it gets through them.

    Each call passes its own values to a template; values that are only known at run time, such as items of a loop, are
    accepted. A chain with the same values as an earlier one is not reported again. Templates that call themselves are
    not followed.

    Args:
        spec: The Workflow's spec.
        others: The specs of the known WorkflowTemplates, by name.
        starts: The fields of the spec that name the templates to run.
        parameters: The Workflow's arguments as text, by name; None = any values. An empty one is not known.
        complete: Whether an empty input stays empty; otherwise it may be set later.
    """
    known = _constants(parameters or {})
    spec = _resolved(spec, known)
    chains = _Chains({name: _resolved(other, known) for name, other in others.items()}, complete=complete)
    templates = call_inputs.by_name(spec)
    for field in starts:
        target = templates.get(spec.get(field), {})
        arguments = {**_constants(launchers.defaults(target)), **known} if parameters is not None else {}
        yield from chains.graph(target, arguments, templates, ())
    for name, hook in (spec.get("hooks") or {}).items():
        yield from chains.call(hook, {}, templates, (f"spec.hooks.{name}",))
    for template in templates.values():  # templates that only others call
        if id(template) not in chains.entered:
            yield from chains.graph(template, {}, templates, ())


def _constants(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value and REFERENCE not in value}


def _resolved(node: Any, parameters: Mapping[str, str]) -> Any:
    """Return a part of a manifest with the Workflow's parameters replaced."""
    match node:
        case str() if REFERENCE in node:
            return _WORKFLOW.sub(lambda match: parameters.get(match[1], match[0]), node)
        case Mapping():
            return {key: value if key == _WHEN else _resolved(value, parameters) for key, value in node.items()}
        case list():
            return [_resolved(item, parameters) for item in node]
    return node


class _Chains:
    """The calls of a Workflow, from its entry points."""

    def __init__(self, others: Mapping[str, _Node], *, complete: bool) -> None:
        self._others = others
        self._complete = complete
        self._seen: set[tuple[int, tuple[tuple[str, str], ...]]] = set()
        self.entered: list[int] = []  # ids of templates, in the order of their first call

    def graph(
        self,
        template: _Node,
        arguments: Mapping[str, str],
        templates: _Templates,
        path: _Path,
        outer: tuple[int, ...] = (),
    ) -> Iterator[tuple[_Path, str]]:
        """Follow the calls of a template; `outer` has the ids of the templates that lead to it."""
        key = (id(template), tuple(sorted(arguments.items())))
        if not template_rules.is_graph(template) or key in self._seen or id(template) in outer:
            return
        self._seen.add(key)
        self.entered.append(id(template))
        for call in graphs.calls(template) if len(self._seen) <= _MOST else ():
            where = f"template {template.get('name')}, {call.name}"
            hooks = {f"{where}.hooks.{name}": hook for name, hook in (call.node.get("hooks") or {}).items()}
            for here, node in {where: call.node, **hooks}.items():
                yield from self.call(node, arguments, templates, (*path, here), (*outer, id(template)))

    def call(
        self, node: _Node, inputs: Mapping[str, str], templates: _Templates, path: _Path, outer: tuple[int, ...] = ()
    ) -> Iterator[tuple[_Path, str]]:
        """Check the inputs of a tfsteps step in a call, or follow the call."""
        if ref := node.get("templateRef"):
            templates = call_inputs.by_name(self._others.get(ref.get("name", ""), {}))
        target = node.get("inline") or templates.get((ref or node).get("template"))
        if not target or _PARAMETER.search(node.get(_WHEN) or ""):  # whether it runs may depend on the same values
            return
        arguments = {name: launchers.filled(value, inputs) for name, value in call_inputs.arguments_of(node).items()}
        for values in loops.rounds(node, arguments):
            if launchers.component(launchers.inner(target, values, templates)[0]):
                sentences = call_inputs.lint_messages(target, values, templates, "", complete=self._complete)
                yield from ((path, sentence) for sentence in sentences)
            else:
                passed = {name: _ANY.sub(UNKNOWN, value) for name, value in values.items()}
                within = {**launchers.defaults(target), **passed}
                yield from self.graph(target, within, templates, path, outer)

"""The inputs that the calls of a Workflow pass to steps of tfsteps, and the outputs that they are connected with.

Also through chains of calls: constants that the templates in between take as inputs and pass on.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.engines.argo import inputs, launchers, template_rules
from tfsteps.engines.argo.inputs import UNKNOWN
from tfsteps.engines.argo.interface import Input, Interface
from tfsteps.engines.argo.template_rules import TemplateCall
from tfsteps.engines.authoring import REFERENCE
from tfsteps.spec import Problem

_OUTPUT = re.compile(r"\{\{\s*(?:tasks|steps)\.([^.\s{}]+)\.outputs\.parameters\.([^.\s{}]+)\s*\}\}")
_CARRIED = {"system.Model": "STRING", "system.Metrics": "STRUCT"}
_NAMES = {"STRING": "text", "LIST": "a list", "STRUCT": "a mapping", "NUMBER_DOUBLE": "a number"}
_METRICS = ("metrics", "job")

_ANY = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_WORKFLOW = re.compile(r"\{\{\s*workflow\.parameters\.([^\s{}]+)\s*\}\}")
_PARAMETER = re.compile(r"\{\{.*?\b(inputs|workflow)\.parameters\b", re.DOTALL)
_WHEN = "when"
_MOST = 1000  # templates with different inputs: more than Workflows have; limits the check

_Node = Mapping[str, Any]
_Templates = Mapping[Any, _Node]
_Path = tuple[str, ...]


def by_name(spec: _Node) -> dict[Any, _Node]:
    """Return the templates of a spec by name; empty = the spec has none, or is not known."""
    return {template.get("name"): template for template in spec.get("templates") or []}


def arguments_of(node: _Node) -> dict[str, str]:
    """Return the arguments of a task, a step or a hook as text; UNKNOWN for one without a value."""
    parameters = (node.get("arguments") or {}).get("parameters") or []
    return {
        parameter["name"]: UNKNOWN if parameter.get("value") is None else launchers.value_of(parameter)
        for parameter in parameters
    }


def lint_messages(
    target: _Node, arguments: Mapping[str, str], templates: _Templates, where: str, *, complete: bool
) -> Iterator[str]:
    """Yield a sentence for each wrong input of the tfsteps step that a template runs; none if it runs no such step.

    Problems of the template itself are not repeated: `template_messages` reports them.

    Args:
        target: The template.
        arguments: The arguments of the call.
        templates: The templates that it can call.
        where: Prefix of each sentence.
        complete: Whether an empty input stays empty; otherwise it may be set later.
    """
    template, arguments = launchers.inner(target, arguments, templates)
    if not (interface := launchers.component(template)):
        return
    texts = launchers.inputs(template, arguments)
    if not complete:
        texts = {name: text or UNKNOWN for name, text in texts.items()}
    elsewhere = set(template_messages(template, ""))
    sentences = (
        f": {problem}"
        for problem in [*inputs.input_problems(interface, texts), *_without_metrics(interface, template, texts)]
    )
    yield from (f"{where}{sentence}" for sentence in sentences if sentence not in elsewhere)


def template_messages(template: _Node, where: str) -> list[str]:
    """Return a sentence for each wrong input that a launcher's template sets itself."""
    interface = launchers.component(template)
    texts = launchers.inputs(template, {}) if interface else {}
    return [f"{where}: {problem}" for problem in inputs.input_problems(interface, texts)] if interface else []


def _without_metrics(interface: Interface, template: _Node, texts: Mapping[str, str]) -> Iterator[Problem]:
    brought = any(texts.get(name) for name in _METRICS) or (template.get("inputs") or {}).get("artifacts")
    if interface.name == "evaluate_gate" and not brought:
        fix = "Connect it with an output of the train step"
        yield Problem(path=("metrics",), wrong="is missing, and so is `job`: there is nothing to compare", fix=fix)


# --- outputs of other steps


def connection_messages(
    target: _Node,
    arguments: Mapping[str, str],
    templates: _Templates,
    producers: Mapping[str, tuple[TemplateCall, _Node | None]],
    where: str,
) -> Iterator[str]:
    """Yield a sentence for each input of a tfsteps step that gets an output of another step which it cannot use.

    Args:
        target: The template that runs the step.
        arguments: The arguments of the call.
        templates: The templates that it can call.
        producers: The other tasks or steps of the graph, each with its template; None if that is not known.
        where: Prefix of each sentence.
    """
    template, arguments = launchers.inner(target, arguments, templates)
    interface = launchers.component(template)
    texts = launchers.inputs(template, arguments) if interface else {}
    for declared in interface.inputs if interface else ():
        match = _OUTPUT.fullmatch(texts.get(declared.name, ""))
        call, source = producers.get(match[1], (None, None)) if match else (None, None)
        producer = launchers.component(source) if source else None
        if interface and match and call and producer:
            reasons = _type_mismatch(interface, declared, call, producer, match[2])
            yield from (f"{where}: {declared.name}: {match[0]} {reason}" for reason in reasons)


def _type_mismatch(
    interface: Interface, declared: Input, call: TemplateCall, producer: Interface, output: str
) -> Iterator[str]:
    """Yield why an input cannot use an output of another step; nothing if there is no such output."""
    types = {candidate.name: _CARRIED.get(candidate.type, candidate.type) for candidate in producer.outputs}
    if output not in types:
        return
    kind = "LIST" if template_rules.loops(call.node) else types[output]
    allowed = f"Allowed: {_NAMES.get(declared.type, declared.type)}"
    if declared.type not in {"STRING", kind} and template_rules.loops(call.node):
        yield f"is a list of all rounds of {call.name}. {allowed}. Connect it within the loop"
    elif declared.type not in {"STRING", kind}:
        fits = " or ".join(f"`{name}`" for name, carried in types.items() if carried == declared.type)
        yield f"is {_NAMES.get(kind, kind)}. {allowed}. Connect it with {fits or 'another output'}"
    elif interface.name == "wait" and producer.name != "launch":
        why = f"is of the step {producer.name}, whose job has ended"
        yield f"{why}. Allowed: the output `job` of a launch step. Connect it with that"


def chain_messages(
    spec: _Node,
    others: Mapping[launchers.TemplateKey, _Node],
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
        others: The specs of the known templates of other manifests.
        starts: The fields of the spec that name the templates to run.
        parameters: The Workflow's arguments as text, by name; None = any values. An empty one is not known.
        complete: Whether an empty input stays empty; otherwise it may be set later.
    """
    known = _constants(parameters or {})
    spec = _resolved(spec, known)
    chains = _Chains({name: _resolved(other, known) for name, other in others.items()}, complete=complete)
    templates = by_name(spec)
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

    def __init__(self, others: Mapping[launchers.TemplateKey, _Node], *, complete: bool) -> None:
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
        for call in template_rules.calls(template) if len(self._seen) <= _MOST else ():
            where = f"template {template.get('name')}, {call.name}"
            hooks = {f"{where}.hooks.{name}": hook for name, hook in (call.node.get("hooks") or {}).items()}
            for here, node in {where: call.node, **hooks}.items():
                yield from self.call(node, arguments, templates, (*path, here), (*outer, id(template)))

    def call(
        self, node: _Node, inputs: Mapping[str, str], templates: _Templates, path: _Path, outer: tuple[int, ...] = ()
    ) -> Iterator[tuple[_Path, str]]:
        """Check the inputs of a tfsteps step in a call, or follow the call."""
        if ref := node.get("templateRef"):
            templates = by_name(self._others.get(launchers.referenced(ref), {}))
        target = node.get("inline") or templates.get((ref or node).get("template"))
        if not target or _PARAMETER.search(node.get(_WHEN) or ""):  # whether it runs may depend on the same values
            return
        arguments = {name: launchers.filled(value, inputs) for name, value in arguments_of(node).items()}
        for values in template_rules.rounds(node, arguments):
            if launchers.component(launchers.inner(target, values, templates)[0]):
                sentences = lint_messages(target, values, templates, "", complete=self._complete)
                yield from ((path, sentence) for sentence in sentences)
            else:
                passed = {name: _ANY.sub(UNKNOWN, value) for name, value in values.items()}
                within = {**launchers.defaults(target), **passed}
                yield from self.graph(target, within, templates, path, outer)

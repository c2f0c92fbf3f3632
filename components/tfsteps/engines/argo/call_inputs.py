"""The inputs that the calls of a Workflow pass to steps of tfsteps, and the outputs that they are connected with."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.engines.argo import graphs, inputs, launchers
from tfsteps.engines.argo.graphs import TemplateCall
from tfsteps.engines.argo.inputs import UNKNOWN
from tfsteps.engines.argo.interface import Input, Interface
from tfsteps.spec import Problem

_OUTPUT = re.compile(r"\{\{\s*(?:tasks|steps)\.([^.\s{}]+)\.outputs\.parameters\.([^.\s{}]+)\s*\}\}")
_CARRIED = {"system.Model": "STRING", "system.Metrics": "STRUCT"}
_NAMES = {"STRING": "text", "LIST": "a list", "STRUCT": "a mapping", "NUMBER_DOUBLE": "a number"}
_METRICS = ("metrics", "job")

_Node = Mapping[str, Any]
_Templates = Mapping[Any, _Node]


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

    Problems of the template itself are not repeated: `own_problems` reports them.

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
    elsewhere = set(own_problems(template, ""))
    sentences = (
        f": {problem}"
        for problem in [*inputs.input_problems(interface, texts), *_without_metrics(interface, template, texts)]
    )
    yield from (f"{where}{sentence}" for sentence in sentences if sentence not in elsewhere)


def own_problems(template: _Node, where: str) -> list[str]:
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


def connection_problems(
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
    kind = "LIST" if graphs.loops(call.node) else types[output]
    allowed = f"Allowed: {_NAMES.get(declared.type, declared.type)}"
    if declared.type not in {"STRING", kind} and graphs.loops(call.node):
        yield f"is a list of all rounds of {call.name}. {allowed}. Connect it within the loop"
    elif declared.type not in {"STRING", kind}:
        fits = " or ".join(f"`{name}`" for name, carried in types.items() if carried == declared.type)
        yield f"is {_NAMES.get(kind, kind)}. {allowed}. Connect it with {fits or 'another output'}"
    elif interface.name == "wait" and producer.name != "launch":
        why = f"is of the step {producer.name}, whose job has ended"
        yield f"{why}. Allowed: the output `job` of a launch step. Connect it with that"

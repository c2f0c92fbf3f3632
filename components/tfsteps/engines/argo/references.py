"""The references between the parts of a Workflow: templates, dependencies, arguments, outputs and variables."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfsteps.engines.argo import call_inputs, launchers, template_rules
from tfsteps.engines.argo.template_rules import TemplateCall, twice
from tfsteps.engines.argo.workflow import LOOPS
from tfsteps.engines.authoring import REFERENCE
from tfsteps.spec.problems import shown
from tfsteps.spec.spelling import nearest

_VARIABLE = re.compile(r"\{\{\s*([^={}][^{}]*?)\s*\}\}")
_EXPRESSION = re.compile(r"\{\{\s*=.*?\}\}")
_OUTPUT = re.compile(r"(tasks|steps)\.([^.]+)\.outputs\.(parameters|artifacts)\.([^.]+)")
_NODE = re.compile(r"(tasks|steps)\.([^.]+)\.")
_SOURCES = {"configMapKeyRef", "default", "event", "supplied"}
_NO_SOURCE = {"name", "path", "mode", "archive", "optional"}

_STARTS = ("entrypoint", "onExit")

_Node = Mapping[str, Any]


class Workflow:
    """The spec of a Workflow or of a WorkflowTemplate."""

    def __init__(self, spec: _Node, *, template: bool, others: Mapping[launchers.TemplateKey, _Node]) -> None:
        """Keep the spec.

        Args:
            spec: The spec; its values have the types of the schema.
            template: Whether it is a template's: then arguments may have no value, and further arguments are allowed.
            others: The specs of the known templates of other manifests.
        """
        self._spec = spec
        self._is_template = template
        self._others = others
        self._template_ref = spec.get("workflowTemplateRef") or {}
        base = others.get(launchers.referenced(self._template_ref)) if self._template_ref else spec
        self._base_unknown = base is None
        self._base = {**(base or {}), **{field: spec[field] for field in _STARTS if spec.get(field)}}
        self._templates = call_inputs.by_name(base or {})
        self._dropped: dict[str, None] = {}  # arguments of calls that the last check found without an effect

    def lint_messages(self) -> Iterator[str]:
        """Yield a sentence for each reference to something that does not exist, and for each wrong step input."""
        problems = list(self._spec_messages())
        yield from problems
        yield from (chained := self._chain_messages(None, problems, complete=True))
        yield from self._chain_messages(self._arguments(), [*problems, *chained], complete=False)

    def _chain_messages(self, arguments: Mapping[str, str] | None, known: list[str], *, complete: bool) -> list[str]:
        """Return the other problems of inputs that steps get through chains of calls; see `chains.problems`."""
        spec = {**self._base, "hooks": self._spec.get("hooks")}
        problems = call_inputs.chain_messages(spec, self._others, _STARTS, arguments, complete=complete)
        new = [f"{' > '.join(path)}{reason}" for path, reason in problems if f"{path[-1]}{reason}" not in known]
        return [sentence for sentence in dict.fromkeys(new) if sentence not in known]

    def _arguments(self) -> dict[str, str]:
        """Return the arguments of the Workflow and of the template that it refers to, as text, by name."""
        parameters = [*self._parameters(self._base), *self._parameters(self._spec)]
        return {parameter["name"]: launchers.value_of(parameter) for parameter in parameters}

    def _start(self, field: str) -> _Node:
        return self._templates.get(self._base.get(field)) or {}

    def _spec_messages(self) -> Iterator[str]:
        """Check each part of the spec: its own content, and its references."""
        spec = self._spec
        if not (spec.get("entrypoint") or self._is_template or self._template_ref):
            yield "spec.entrypoint: it is missing"
        for field in _STARTS:
            if spec.get(field) and not self._base_unknown:
                yield from self._template_exists(spec[field], f"spec.{field}")
        yield from self._hooks(spec, "spec")
        if self._template_ref and spec.get("templates"):
            yield "spec.templates: not allowed beside workflowTemplateRef"
        yield from twice([template.get("name") for template in spec.get("templates") or []], "spec.templates")
        yield from self._values(spec.get("arguments") or {}, "spec.arguments", empty=True)
        for field in _STARTS if not (self._is_template or self._template_ref) else ():
            if target := self._templates.get(spec.get(field)):
                yield from self._missing_arguments(target, spec.get("arguments") or {}, f"spec.{field}")
        yield from self._dropped_arguments()
        yield from self._start_inputs(complete=False)
        for template in spec.get("templates") or []:
            yield from self._template_messages(template, f"template {template.get('name') or 'without a name'}")

    def cautions(self) -> list[str]:
        """Return a sentence for each argument of a call that Argo drops, and runs the Workflow."""
        list(self.lint_messages())
        return list(self._dropped)

    def warnings(self) -> Iterator[str]:
        """Yield a sentence for each input that must be set when the Workflow is submitted."""
        if not self._is_template:
            known = list(self.lint_messages())
            for parameter in self._parameters(self._spec):
                if is_empty(parameter):
                    yield f"spec.arguments: parameter {parameter['name']} has no value; set it at submission"
            yield from (sentence for sentence in self._start_inputs(complete=True) if sentence not in known)
            yield from self._chain_messages(self._arguments(), known, complete=True)

    def _start_inputs(self, *, complete: bool) -> Iterator[str]:
        """Check the inputs of steps that are entry points, which get the Workflow's own arguments.

        Args:
            complete: Whether no further arguments are set at submission.
        """
        arguments = self._arguments()
        for field in _STARTS:
            target = self._start(field)
            if target and (not self._template_ref or self._spec.get("arguments") or complete):
                yield from call_inputs.lint_messages(
                    target, arguments, self._templates, "spec.arguments", complete=complete
                )

    def _dropped_arguments(self) -> Iterator[str]:
        """Check that a WorkflowTemplate declares the arguments that it gets."""
        if not self._template_ref or self._base_unknown:
            return
        known = [parameter["name"] for field in _STARTS for parameter in self._parameters(self._start(field), "inputs")]
        known += [parameter["name"] for parameter in self._parameters(self._base)]
        text = json.dumps([self._spec, self._base], default=str)
        for name in [parameter["name"] for parameter in self._parameters(self._spec)]:
            if name not in known and f"workflow.parameters.{name}" not in text:
                reason = f"{self._template_ref['name']} has no parameter {shown(name)}"
                yield f"spec.arguments: {reason}; {_ignored(name, known)}"

    @staticmethod
    def _parameters(node: _Node, kind: str = "arguments") -> list[_Node]:
        return (node.get(kind) or {}).get("parameters") or []

    def _template_exists(self, name: str, where: str) -> Iterator[str]:
        if "{{" not in name and name not in self._templates:
            known = ", ".join(str(template) for template in self._templates) or "none"
            yield f"{where}: there is no template {shown(name)}; there is {known}"

    def _hooks(self, node: _Node, where: str, calls: Sequence[TemplateCall] = ()) -> Iterator[str]:
        for name, hook in (node.get("hooks") or {}).items():
            if name != "exit" and not hook.get("expression"):
                yield f"{where}.hooks.{name}: it has no expression, so it would never run"
            if hook.get("templateRef") or (hook.get("template") and not self._base_unknown):
                yield from self._target_messages(hook, f"{where}.hooks.{name}", calls)

    @staticmethod
    def _values(arguments: _Node, where: str, *, empty: bool) -> Iterator[str]:
        parameters = arguments.get("parameters") or []
        yield from twice([parameter["name"] for parameter in parameters], f"{where}.parameters")
        for parameter in parameters:
            yield from template_rules.name_problem(parameter["name"], where, underscore=True)
            here = f"{where}: parameter {parameter['name']}"
            if is_empty(parameter) and not empty:
                yield f"{here} has no value"
            yield from _check_value(parameter, here)
        for artifact in arguments.get("artifacts") or []:
            yield from template_rules.name_problem(artifact["name"], where, underscore=True)
            if not artifact.keys() - _NO_SOURCE:
                yield f"{where}: artifact {artifact['name']} has no source; set `from`, or where it is stored"

    # --- templates

    def _template_messages(self, template: _Node, where: str) -> Iterator[str]:
        yield from template_rules.lint_messages(template, where, self._spec.get("templateDefaults") or {})
        yield from launchers.lint_messages(template, where, self._spec)
        yield from call_inputs.template_messages(template, where)
        if template_rules.is_graph(template):
            yield from self._graph(template, where)
        else:
            yield from self._variables(template, template, where, [])

    def _graph(self, template: _Node, where: str) -> Iterator[str]:
        calls = template_rules.calls(template)
        yield from (f"{where}: {sentence}" for sentence in template_rules.call_messages(template))
        for call in calls:
            yield from self._call(call, f"{where}, {call.name}", calls)
            others = [other for other in calls if other.name in call.before]
            scope = (template, f"{where}, {call.name}")
            yield from self._variables({**call.node, "hooks": None}, *scope, others, calls)
            yield from self._variables({"hooks": call.node.get("hooks")}, *scope, [*others, call], calls)
        yield from self._variables({"outputs": template.get("outputs")}, template, where, calls)

    def _call(self, call: TemplateCall, where: str, calls: Sequence[TemplateCall]) -> Iterator[str]:
        node = call.node
        yield from template_rules.name_problem(node.get("name") or "", where)
        named = [field for field in ("template", "templateRef", "inline") if node.get(field)]
        if len(named) != 1:
            yield f"{where}: {' and '.join(named) or 'none'} of template, templateRef and inline is given; give one"
        if len(template_rules.loops(node)) > 1:
            yield f"{where}: {' and '.join(template_rules.loops(node))}; give one"
        if problem := template_rules.loop_problem(node):
            yield f"{where}.{problem}"
        yield from self._values(node.get("arguments") or {}, where, empty=False)
        yield from self._hooks(node, where, calls)
        if node.get("inline"):
            yield from self._template_messages({"name": "inline", **node["inline"]}, f"{where}.inline")
        if node.get("template") or node.get("templateRef"):
            yield from self._target_messages(node, where, calls)
        if node.get("onExit"):
            yield from self._template_exists(node["onExit"], f"{where}.onExit")

    def _target_messages(self, node: _Node, where: str, calls: Sequence[TemplateCall]) -> Iterator[str]:
        """Check that a called template exists, gets all inputs that it requires, and no others."""
        templates = self._known(node)
        if ref := node.get("templateRef"):
            yield from _reference(ref, templates, where)
        else:
            yield from self._template_exists(node["template"], where)
        if not (target := templates.get((ref or node).get("template"))):
            return
        arguments = node.get("arguments") or {}
        dropped = [f"{where}: {sentence}" for sentence in _undeclared(target, arguments)]
        if launchers.is_launcher(launchers.inner(target, {}, templates)[0]):
            yield from dropped
        else:
            self._dropped |= dict.fromkeys(dropped)
        yield from self._missing_arguments(target, arguments, where)
        yield from self._inputs(node, target, where, calls)

    def _inputs(self, node: _Node, target: _Node, where: str, calls: Sequence[TemplateCall]) -> Iterator[str]:
        """Check the inputs of a tfsteps step in a call, for each iteration of its loop."""
        templates = self._known(node)
        arguments = call_inputs.arguments_of(node)
        sentences = [
            sentence
            for values in template_rules.rounds(node, arguments)
            for sentence in call_inputs.lint_messages(target, values, templates, where, complete=True)
        ]
        yield from dict.fromkeys(sentences)
        producers = {call.name: (call, self._target(call.node)) for call in calls}
        yield from call_inputs.connection_messages(target, arguments, templates, producers, where)

    def _known(self, node: _Node) -> Mapping[Any, _Node]:
        """Return the templates that a call can refer to; empty = they are not known."""
        ref = node.get("templateRef")
        return call_inputs.by_name(self._others.get(launchers.referenced(ref), {})) if ref else self._templates

    def _target(self, node: _Node) -> _Node | None:
        return self._known(node).get((node.get("templateRef") or node).get("template"))

    @staticmethod
    def _missing_arguments(target: _Node, arguments: _Node, where: str) -> Iterator[str]:
        """Check that a template gets its required inputs."""
        for kind in ("parameters", "artifacts"):
            names = [argument["name"] for argument in arguments.get(kind) or []]
            for declared in (target.get("inputs") or {}).get(kind) or []:
                if declared["name"] not in names and not _filled(declared, kind):
                    yield f"{where}: template {target['name']} needs an argument {declared['name']}"

    # --- variables

    def _variables(
        self,
        node: _Node,
        template: _Node,
        where: str,
        before: Sequence[TemplateCall],
        calls: Sequence[TemplateCall] = (),
    ) -> Iterator[str]:
        """Check the variables at any depth of a node of a template.

        Args:
            node: A call, a part of a call, or a whole template that creates a pod.
            template: The template that contains the node.
            where: Prefix of the sentences.
            before: The calls whose outputs are available.
            calls: All calls of the template.
        """
        visible = {key: value for key, value in node.items() if key != "inline"}
        text = _EXPRESSION.sub("", json.dumps(visible, default=str))
        for name in dict.fromkeys(_VARIABLE.findall(text)):
            if reason := self._variable(name, template, before, calls):
                yield f"{where}: {{{{{name}}}}} {reason}"
            elif re.match(r"item(\.|$)", name) and not template_rules.loops(node) and node.keys() != {"hooks"}:
                yield f"{where}: {{{{{name}}}}} is defined only in a loop: {', '.join(LOOPS)}"
            elif name.startswith("item.") and (reason := template_rules.missing_item(name, node)):
                yield f"{where}: {{{{{name}}}}} {reason}"

    def _variable(
        self, name: str, template: _Node, before: Sequence[TemplateCall], calls: Sequence[TemplateCall]
    ) -> str:
        first, _, rest = name.partition(".")
        if first == "inputs":
            kind, _, which = rest.partition(".")
            declared = [item["name"] for item in (template.get("inputs") or {}).get(kind) or []]
            if which and which.partition(".")[0] not in declared:
                return f"is no input of template {template.get('name')}: {', '.join(declared) or 'none'}"
        elif (
            name.startswith("workflow.parameters.")
            and name != "workflow.parameters.json"
            and not (self._is_template or self._template_ref)
        ):
            declared = [parameter["name"] for parameter in (self._spec.get("arguments") or {}).get("parameters") or []]
            if name.removeprefix("workflow.parameters.") not in declared:
                return f"is no parameter of the Workflow: {', '.join(declared) or 'none'}"
        elif first in {"tasks", "steps"} and name not in {"tasks.name", "steps.name"}:
            return self._node(name, template, before, calls)
        return ""

    def _node(self, name: str, template: _Node, before: Sequence[TemplateCall], calls: Sequence[TemplateCall]) -> str:
        match = _NODE.match(name)
        kind = "tasks" if "dag" in template else "steps"
        if not match or match[1] != kind:
            return f"is not defined here: template {template.get('name')} has {kind if calls or before else 'neither'}"
        call = next((other for other in before if other.name == match[2]), None)
        if not call:
            if any(other.name == match[2] for other in calls):
                return f"is not available yet: {match[2]} may still run at this point"
            return f"refers to {match[2]}, which does not exist"
        if (output := _OUTPUT.match(name)) and (target := self._target(call.node)):
            declared = [item["name"] for item in (target.get("outputs") or {}).get(output[3]) or []]
            if output[4] not in declared:
                return (
                    f"does not exist: the {output[3]} of template {target['name']} are {', '.join(declared) or 'none'}"
                )
        return ""


def _reference(ref: _Node, templates: Mapping[Any, _Node], where: str) -> Iterator[str]:
    """Check a reference to a template of another manifest, if that manifest is known."""
    for field in ("name", "template"):
        if not ref.get(field):
            yield f"{where}.templateRef.{field}: it is missing"
    name = ref.get("template") or ""
    if name and templates and REFERENCE not in name and name not in templates:
        guess = nearest(name, templates)
        fix = f"Write `{guess}`" if guess else "Correct it"
        allowed = ", ".join(templates)
        yield f"{where}.templateRef.template: {ref['name']} has no template {shown(name)}. Allowed: {allowed}. {fix}"


def _undeclared(target: _Node, arguments: _Node) -> Iterator[str]:
    """Yield a sentence for each argument that a template has no input for."""
    for kind in ("parameters", "artifacts"):
        declared = [item["name"] for item in (target.get("inputs") or {}).get(kind) or []]
        for name in [argument["name"] for argument in arguments.get(kind) or []]:
            if name not in declared:
                reason = f"has no input {shown(name)} in its {kind}: {', '.join(declared) or 'none'}"
                yield f"template {target['name']} {reason}; {_ignored(name, declared)}"


def _ignored(name: str, allowed: Sequence[str]) -> str:
    guess = nearest(name, allowed)
    return f"Argo drops it without a message. {f'Write `{guess}`' if guess else 'Correct or remove it'}"


def is_empty(parameter: _Node) -> bool:
    """Tell whether an argument has no value yet."""
    return parameter.get("value") is None and not parameter.get("valueFrom")


def _check_value(parameter: _Node, where: str) -> Iterator[str]:
    """Check the source of an argument's value."""
    value, source = parameter.get("value"), parameter.get("valueFrom") or {}
    if unfit := sorted(source.keys() - _SOURCES):
        yield f"{where} takes no {', '.join(unfit)} in valueFrom; give {', '.join(sorted(_SOURCES))}, or a value"
    allowed = [str(choice) for choice in parameter.get("enum") or []]
    if parameter.get("enum") == [] or (allowed and value is not None and str(value) not in allowed):
        yield f"{where}: {shown(value)} is not in its enum: {', '.join(allowed) or 'none'}"


def _filled(declared: _Node, kind: str) -> bool:
    """Tell whether an input can be left out."""
    if kind == "artifacts":
        return bool(declared.get("optional")) or bool(declared.keys() - _NO_SOURCE)
    return any(declared.get(field) is not None for field in ("default", "value", "valueFrom"))

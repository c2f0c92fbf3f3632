"""What the parts of a Workflow say of each other: templates, dependencies, arguments, outputs and variables."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfsteps.engines.argo import graphs, template_rules
from tfsteps.engines.argo.graphs import Call, loops
from tfsteps.engines.argo.template_rules import twice
from tfsteps.spec.problems import shown

_VARIABLE = re.compile(r"\{\{\s*([^={}][^{}]*?)\s*\}\}")
_EXPRESSION = re.compile(r"\{\{\s*=.*?\}\}")
_OUTPUT = re.compile(r"(tasks|steps)\.([^.]+)\.outputs\.(parameters|artifacts)\.([^.]+)")
_NODE = re.compile(r"(tasks|steps)\.([^.]+)\.")
_SOURCES = {"configMapKeyRef", "default", "event", "supplied"}
_NO_SOURCE = {"name", "path", "mode", "archive", "optional"}

_Node = Mapping[str, Any]


def problems(spec: _Node, *, template: bool) -> Iterator[str]:
    """Yield a sentence for each reference in a Workflow's spec that leads nowhere.

    Args:
        spec: Of the right types.
        template: Whether it is of a template: then arguments may be without a value, and others may be added.
    """
    yield from _Workflow(spec, template).problems()


class _Workflow:
    def __init__(self, spec: _Node, template: bool) -> None:
        self._spec = spec
        self._template = template
        self._elsewhere = bool(spec.get("workflowTemplateRef"))
        self._templates = {each.get("name"): each for each in spec.get("templates") or []}

    def problems(self) -> Iterator[str]:
        spec = self._spec
        if not (spec.get("entrypoint") or self._template or self._elsewhere):
            yield "spec.entrypoint: it is missing"
        for field in ("entrypoint", "onExit"):
            if spec.get(field) and not self._elsewhere:
                yield from self._exists(spec[field], f"spec.{field}")
        yield from self._hooks(spec, "spec")
        if self._elsewhere and spec.get("templates"):
            yield "spec.templates: not allowed beside workflowTemplateRef"
        yield from twice([each.get("name") for each in spec.get("templates") or []], "spec.templates")
        yield from self._values(spec.get("arguments") or {}, "spec.arguments", empty=self._template)
        for field in ("entrypoint", "onExit") if not self._template else ():
            if target := self._templates.get(spec.get(field)):
                yield from self._fed(target, spec.get("arguments") or {}, f"spec.{field}")
        for each in spec.get("templates") or []:
            yield from self._one(each, f"template {each.get('name') or 'without a name'}")

    def _exists(self, name: str, where: str) -> Iterator[str]:
        if "{{" not in name and name not in self._templates:
            known = ", ".join(str(each) for each in self._templates) or "none"
            yield f"{where}: there is no template {shown(name)}; there is {known}"

    def _hooks(self, node: _Node, where: str) -> Iterator[str]:
        for name, hook in (node.get("hooks") or {}).items():
            if name != "exit" and not hook.get("expression"):
                yield f"{where}.hooks.{name}: it has no expression, so it would never run"
            if hook.get("template") and not self._elsewhere:
                yield from self._called(hook, f"{where}.hooks.{name}")

    @staticmethod
    def _values(arguments: _Node, where: str, *, empty: bool) -> Iterator[str]:
        given = arguments.get("parameters") or []
        yield from twice([each["name"] for each in given], f"{where}.parameters")
        for each in given:
            yield from template_rules.name_problem(each["name"], where, underscore=True)
            yield from _given(each, f"{where}: parameter {each['name']}", empty=empty)
        for each in arguments.get("artifacts") or []:
            yield from template_rules.name_problem(each["name"], where, underscore=True)
            if not each.keys() - _NO_SOURCE:
                yield f"{where}: artifact {each['name']} comes from nowhere; give from, or where it is stored"

    # --- templates

    def _one(self, template: _Node, where: str) -> Iterator[str]:
        yield from template_rules.problems(template, where, self._spec.get("templateDefaults") or {})
        if template_rules.is_graph(template):
            yield from self._graph(template, where)
        else:
            yield from self._variables(template, template, where, [])

    def _graph(self, template: _Node, where: str) -> Iterator[str]:
        calls = graphs.calls(template)
        yield from (f"{where}: {each}" for each in graphs.problems(template))
        for call in calls:
            yield from self._call(call, f"{where}, {call.name}")
            others = [each for each in calls if each.name in call.before]
            scope = (template, f"{where}, {call.name}")
            yield from self._variables({**call.node, "hooks": None}, *scope, others, calls)
            yield from self._variables({"hooks": call.node.get("hooks")}, *scope, [*others, call], calls)
        yield from self._variables({"outputs": template.get("outputs")}, template, where, calls)

    def _call(self, call: Call, where: str) -> Iterator[str]:
        node = call.node
        yield from template_rules.name_problem(node.get("name") or "", where)
        named = [each for each in ("template", "templateRef", "inline") if node.get(each)]
        if len(named) != 1:
            yield f"{where}: {' and '.join(named) or 'none'} of template, templateRef and inline is given; give one"
        if len(loops(node)) > 1:
            yield f"{where}: {' and '.join(loops(node))}; give one"
        yield from self._values(node.get("arguments") or {}, where, empty=False)
        yield from self._hooks(node, where)
        if node.get("inline"):
            yield from self._one({"name": "inline", **node["inline"]}, f"{where}.inline")
        if node.get("template"):
            yield from self._called(node, where)
        if node.get("onExit"):
            yield from self._exists(node["onExit"], f"{where}.onExit")

    def _called(self, node: _Node, where: str) -> Iterator[str]:
        """Check that a template is there, and gets the inputs that it needs and no others."""
        yield from self._exists(node["template"], where)
        if not (target := self._templates.get(node["template"])):
            return
        arguments = node.get("arguments") or {}
        for kind in ("parameters", "artifacts"):
            declared = [each["name"] for each in (target.get("inputs") or {}).get(kind) or []]
            for each in arguments.get(kind) or []:
                if each["name"] not in declared:
                    known = ", ".join(declared) or "none"
                    wrong = f"has no input {shown(each['name'])} in its {kind}: {known}"
                    yield f"{where}: template {target['name']} {wrong}"
        yield from self._fed(target, arguments, where)

    @staticmethod
    def _fed(target: _Node, arguments: _Node, where: str) -> Iterator[str]:
        """Check that a template gets what it cannot do without."""
        for kind in ("parameters", "artifacts"):
            given = [each["name"] for each in arguments.get(kind) or []]
            for each in (target.get("inputs") or {}).get(kind) or []:
                if each["name"] not in given and not _filled(each, kind):
                    yield f"{where}: template {target['name']} needs an argument {each['name']}"

    # --- variables

    def _variables(
        self, node: _Node, template: _Node, where: str, before: Sequence[Call], calls: Sequence[Call] = ()
    ) -> Iterator[str]:
        """Check the variables anywhere within a node of a template.

        Args:
            node: A call, a part of one, or a whole template that makes a pod.
            template: The template that holds it.
            where: For the sentences.
            before: Whose outputs are known.
            calls: All of the template.
        """
        text = _EXPRESSION.sub("", json.dumps({key: value for key, value in node.items() if key != "inline"}))
        for name in dict.fromkeys(_VARIABLE.findall(text)):
            if wrong := self._variable(name, template, before, calls):
                yield f"{where}: {{{{{name}}}}} {wrong}"
            elif re.match(r"item(\.|$)", name) and not loops(node) and node.keys() != {"hooks"}:
                yield f"{where}: {{{{{name}}}}} is known within a loop only: {', '.join(graphs.LOOPS)}"

    def _variable(self, name: str, template: _Node, before: Sequence[Call], calls: Sequence[Call]) -> str:
        first, _, rest = name.partition(".")
        if first == "inputs":
            kind, _, which = rest.partition(".")
            declared = [each["name"] for each in (template.get("inputs") or {}).get(kind) or []]
            if which and which.partition(".")[0] not in declared:
                return f"is no input of template {template.get('name')}: {', '.join(declared) or 'none'}"
        elif name.startswith("workflow.parameters.") and not (self._template or self._elsewhere):
            declared = [each["name"] for each in (self._spec.get("arguments") or {}).get("parameters") or []]
            if name.removeprefix("workflow.parameters.") not in declared:
                return f"is no parameter of the Workflow: {', '.join(declared) or 'none'}"
        elif first in {"tasks", "steps"} and name not in {"tasks.name", "steps.name"}:
            return self._node(name, template, before, calls)
        return ""

    def _node(self, name: str, template: _Node, before: Sequence[Call], calls: Sequence[Call]) -> str:
        found = _NODE.match(name)
        kind = "tasks" if "dag" in template else "steps"
        if not found or found[1] != kind:
            return f"is not known here: template {template.get('name')} has {kind if calls or before else 'neither'}"
        call = next((each for each in before if each.name == found[2]), None)
        if not call:
            if any(each.name == found[2] for each in calls):
                return f"is not known yet: {found[2]} need not have ended before"
            return f"leads nowhere: there is no {found[2]}"
        if (output := _OUTPUT.match(name)) and (target := self._templates.get(call.node.get("template"))):
            declared = [each["name"] for each in (target.get("outputs") or {}).get(output[3]) or []]
            if output[4] not in declared:
                return (
                    f"leads nowhere: the {output[3]} of template {target['name']} are {', '.join(declared) or 'none'}"
                )
        return ""


def _given(parameter: _Node, where: str, *, empty: bool) -> Iterator[str]:
    """Check where an argument's value comes from."""
    value, source = parameter.get("value"), parameter.get("valueFrom") or {}
    if value is None and not source and not empty:
        yield f"{where} has no value"
    if unfit := sorted(source.keys() - _SOURCES):
        yield f"{where} takes no {', '.join(unfit)} in valueFrom; give {', '.join(sorted(_SOURCES))}, or a value"
    allowed = [str(each) for each in parameter.get("enum") or []]
    if parameter.get("enum") == [] or (allowed and value is not None and str(value) not in allowed):
        yield f"{where}: {shown(value)} is not in its enum: {', '.join(allowed) or 'none'}"


def _filled(declared: _Node, kind: str) -> bool:
    """Tell whether an input needs no argument."""
    if kind == "artifacts":
        return bool(declared.get("optional")) or bool(declared.keys() - _NO_SOURCE)
    return any(declared.get(each) is not None for each in ("default", "value", "valueFrom"))

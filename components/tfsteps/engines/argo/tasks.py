"""One task of a Workflow, or of a template, with the inputs that its step would get."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfsteps.console.errors import CommandError
from tfsteps.engines.argo import call_inputs, graphs, launchers, template_rules
from tfsteps.engines.argo.interface import BadValueError, Interface
from tfsteps.engines.authoring import Document, PipelineTask
from tfsteps.engines.submission import check_names
from tfsteps.engines.unclear import REFERENCE
from tfsteps.spec import Problem, SpecError

_VARIABLE = re.compile(r"\{\{\s*([^={}\s][^{}]*?)\s*\}\}")
_OUTPUT = re.compile(r"(?:tasks|steps)\.([^.]+)\.outputs\.(?:parameters\.)?(.+)")
_ITEM = re.compile(r"\{\{\s*(item(?:\.[^\s{}]+)?)\s*\}\}")
_WORKFLOWS = ("Workflow", "CronWorkflow")
_OF_RUN = {"workflow.name", "workflow.uid"}
_NOT_INPUTS = {"run_id", "task_config"}  # the engine sets them

_Node = Mapping[str, Any]
_Templates = Mapping[Any, _Node]


class _Task(NamedTuple):
    """A task that starts a container.

    Attributes:
        path: Its names from the outermost, joined by `/`.
        interface: Of the step of tfsteps that it runs; None = another program.
        texts: The inputs of the step by name.
    """

    path: str
    interface: Interface | None
    texts: Mapping[str, str]


def task_paths(documents: Sequence[Document]) -> list[str]:
    """Return the tasks that start a container; see `Authoring.task_paths`."""
    return [task.path for task in _tasks(documents)]


def pipeline_task(documents: Sequence[Document], path: str, values: Mapping[str, str], run: str) -> PipelineTask:
    """Return a task with its inputs; arguments and errors as for `Authoring.task`."""
    parameters = _parameters(documents)
    check_names([name for name in values if "." not in name], parameters, ())
    task = next(task for task in _tasks(documents) if task.path == path)
    if not task.interface:
        return PipelineTask(step="", inputs={}, missing={}, names=())
    leaf = path.rpartition("/")[2]
    known = {f"workflow.parameters.{name}": text for name, text in {**parameters, **values}.items() if text is not None}
    known |= dict.fromkeys(_OF_RUN, run)
    inputs: dict[str, Any] = {}
    missing: dict[str, list[str]] = {}
    names: set[str] = set()
    problems: list[Problem] = []
    for declared in task.interface.inputs:
        if declared.name in _NOT_INPUTS:
            continue
        own = f"{leaf}.{declared.name}"
        names.add(own)
        text = values.get(own) or task.texts.get(declared.name, "")
        references = {match: _name(match, own) for match in _VARIABLE.findall(text)}
        names |= {name for name in references.values() if "." in name}
        texts = {match: known.get(match, values.get(name)) for match, name in references.items()}
        text = _VARIABLE.sub(lambda match, texts=texts: texts[match[1]] or "", text)  # type: ignore[misc]
        lacking = [references[match] for match, found in texts.items() if found is None]
        if lacking or REFERENCE in text:  # what is left is an expression
            missing[declared.name] = list(dict.fromkeys(lacking)) or [own]
        elif text:
            try:
                inputs[declared.name] = declared.decode(text)
            except BadValueError as error:
                problems.append(error.problem)
    if problems:
        raise SpecError(problems, f"task {path}")
    return PipelineTask(step=task.interface.name, inputs=inputs, missing=missing, names=names)


def _name(variable: str, own: str) -> str:
    """Return what users call a variable: an input of the Workflow, `epochs`, or an output of a task, `prepare.file`."""
    if variable.startswith("workflow.parameters."):
        return variable.removeprefix("workflow.parameters.")
    output = _OUTPUT.fullmatch(variable)
    return f"{output[1]}.{output[2]}" if output else own


def _parameters(documents: Sequence[Document]) -> dict[str, str | None]:
    """Return the inputs of the Workflow as text; None = without a value."""
    spec, others = _spec(documents)
    base = others.get((spec.get("workflowTemplateRef") or {}).get("name", ""), {})
    declared = [
        *((base.get("arguments") or {}).get("parameters") or []),
        *((spec.get("arguments") or {}).get("parameters") or []),
    ]
    return {
        parameter["name"]: launchers.text(parameter["value"]) if parameter.get("value") is not None else None
        for parameter in declared
    }


def _spec(documents: Sequence[Document]) -> tuple[_Node, dict[str, _Node]]:
    """Return the spec of the Workflow, or of the first template if there is none, and the known templates' specs."""
    argos = [document for document in documents if str(document.get("apiVersion", "")).startswith("argoproj.io/")]
    others = {launchers.NAME: launchers.shipped()}
    others |= {item["metadata"].get("name", ""): item["spec"] for item in argos if "Template" in item["kind"]}
    chosen = next((item for item in argos if item["kind"] in _WORKFLOWS), argos[0])
    spec: _Node = chosen["spec"]
    return spec.get("workflowSpec") or spec, others


def _tasks(documents: Sequence[Document]) -> Iterator[_Task]:
    spec, others = _spec(documents)
    reference = (spec.get("workflowTemplateRef") or {}).get("name", "")
    if reference and reference not in others:
        raise CommandError(f"WorkflowTemplate {reference} is not in the file; add its manifest to the file")
    base = others.get(reference, spec)
    templates = call_inputs.by_name(base)
    name = spec.get("entrypoint") or base.get("entrypoint")
    arguments = {parameter: f"{{{{workflow.parameters.{parameter}}}}}" for parameter in _parameters(documents)}
    if target := templates.get(name):
        values = {**launchers.defaults(target), **arguments}
        yield from _below(target, values, templates, others, str(name) if not template_rules.is_graph(target) else "")


def _below(
    template: _Node,
    arguments: Mapping[str, str],
    templates: _Templates,
    others: Mapping[str, _Node],
    path: str,
    *,
    outer: tuple[int, ...] = (),
) -> Iterator[_Task]:
    """Yield the tasks of a template; `outer` has the ids of the templates that lead to it."""
    last, values = launchers.inner(template, arguments, templates)
    if interface := launchers.component(last):
        yield _Task(path, interface, launchers.inputs(last, values))
    elif not template_rules.is_graph(template):
        yield _Task(path, None, {})
    elif id(template) not in outer:
        for call in graphs.calls(template):
            node = call.node
            known = (
                call_inputs.by_name(others.get(node["templateRef"]["name"], {}))
                if node.get("templateRef")
                else templates
            )
            target = node.get("inline") or known.get((node.get("templateRef") or node).get("template"))
            if not target:
                continue
            # An item of the call's loop is named as an output of the call is: `train.item.lr`.
            item = rf"{{{{tasks.{call.name}.outputs.\1}}}}"
            given = {
                key: _ITEM.sub(item, launchers.filled(value, arguments))
                for key, value in call_inputs.arguments_of(node).items()
            }
            below = f"{path}/{call.name}" if path else call.name
            yield from _below(
                target, {**launchers.defaults(target), **given}, known, others, below, outer=(*outer, id(template))
            )

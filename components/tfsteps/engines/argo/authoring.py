"""Manifests of Argo Workflows: found in a Hera program, written and checked, and single tasks of them."""

import contextlib
import copy
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from tfsteps.console.errors import CommandError
from tfsteps.engines.argo import call_inputs, launchers, template_rules
from tfsteps.engines.argo.interface import BadValueError, Interface
from tfsteps.engines.authoring import REFERENCE, Authoring, Document, PipelineTask
from tfsteps.engines.submission import check_names
from tfsteps.spec import Problem, SpecError
from tfsteps.systems.kubernetes.preflight.references import ACCOUNTS, Reference, of_container, of_volume

_VARIABLE = re.compile(r"\{\{\s*([^={}\s][^{}]*?)\s*\}\}")
_OUTPUT = re.compile(r"(?:tasks|steps)\.([^.]+)\.outputs\.(?:parameters\.)?(.+)")
_ITEM = re.compile(r"\{\{\s*(item(?:\.[^\s{}]+)?)\s*\}\}")
_WORKFLOWS = ("Workflow", "CronWorkflow")
_OF_RUN = {"workflow.name", "workflow.uid"}
_NOT_INPUTS = {"run_id", "task_config"}  # the engine sets them

_Node = Mapping[str, Any]
_Templates = Mapping[Any, _Node]


class ArgoAuthoring(Authoring):
    """Argo Workflows."""

    macros = (re.compile(r"\{\{\s*workflow\.[^{}]*\}\}"),)
    replaces_macros = True
    macro_fix = "Argo does not replace it. In runs of a CronWorkflow, '{{workflow.scheduledTime}}' is the time"

    def pipelines(self, module: types.ModuleType) -> dict[str, tuple[Any, Callable[[], str]]]:
        """Return the Workflows, templates and crons that the program defines with Hera."""
        if "hera.workflows" not in sys.modules:
            return {}
        from hera.workflows import Workflow  # noqa: PLC0415  the program has imported it

        return {name: (value, value.to_yaml) for name, value in vars(module).items() if isinstance(value, Workflow)}

    def reads(self, documents: Sequence[Document]) -> bool:
        """Tell whether one of the documents is an Argo object, such as a Workflow beside its ConfigMap."""
        return any(_is_argos(document) for document in self.expanded(documents))

    def expanded(self, documents: Sequence[Document]) -> list[Any]:
        """Return the manifests, those in a `kind: List` too; Argo's first."""
        from tfsteps.engines.argo import lint  # noqa: PLC0415  one engine is enough

        return sorted(lint.manifests(documents), key=lambda document: not _is_argos(document))

    def title(self, document: Document) -> str:
        """Return the manifest's name; a generated name without the suffix that Argo appends."""
        metadata = document.get("metadata") or {}
        return str(metadata.get("name") or str(metadata.get("generateName", "workflow")).rstrip("-"))

    def lint_messages(self, text: str) -> list[str]:
        """Return what Argo refuses or drops, and wrong inputs of the steps of tfsteps."""
        from tfsteps.engines.argo import lint  # noqa: PLC0415  one engine is enough

        return lint.lint_messages(text)

    def warnings(self, text: str) -> list[str]:
        """Return what fails on some versions of Argo."""
        from tfsteps.engines.argo import lint  # noqa: PLC0415

        return lint.cautions(text)

    def missing_arguments(self, text: str) -> list[str]:
        """Return a sentence for each input that must be set when a Workflow is submitted."""
        from tfsteps.engines.argo import lint  # noqa: PLC0415

        return lint.missing_arguments(text)

    def with_arguments(self, documents: list[Any], arguments: Mapping[str, str]) -> str:
        """Return manifests with these arguments."""
        filled = copy.deepcopy(documents)
        with contextlib.suppress(AttributeError, KeyError, TypeError):  # another shape: `problems` reports it
            for document in filled:
                spec = document.get("spec") or {}
                for parameter in ((spec.get("workflowSpec") or spec).get("arguments") or {}).get("parameters") or []:
                    if parameter["name"] in arguments:
                        parameter.pop("valueFrom", None)
                        parameter["value"] = arguments[parameter["name"]]
        return yaml.safe_dump_all(filled)

    def references(self, documents: Sequence[Document]) -> Iterator[tuple[str, list[Reference]]]:
        """Yield what the pods of each manifest need, in the manifest's namespace."""
        for manifest in filter(_is_argos, documents):
            yield str(manifest["metadata"].get("namespace") or ""), list(pod_references(manifest))

    def task_paths(self, documents: Sequence[Document]) -> list[str]:
        """Return the tasks that start a container."""
        return task_paths(documents)

    def task(self, documents: Sequence[Document], path: str, values: Mapping[str, str], run: str) -> PipelineTask:
        """Return a task with the inputs of its step."""
        return pipeline_task(documents, path, values, run)


def _is_argos(document: Any) -> bool:
    return isinstance(document, dict) and str(document.get("apiVersion", "")).startswith("argoproj.io/")


AUTHORING = ArgoAuthoring()


class _ContainerTask(NamedTuple):
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
        variable = f"{leaf}.{declared.name}"
        names.add(variable)
        text = values.get(variable) or task.texts.get(declared.name, "")
        references = {match: _name(match, variable) for match in _VARIABLE.findall(text)}
        names |= {name for name in references.values() if "." in name}
        texts = {match: known.get(match, values.get(name)) for match, name in references.items()}
        text = _VARIABLE.sub(lambda match, texts=texts: texts[match[1]] or "", text)  # type: ignore[misc]
        lacking = [references[match] for match, text in texts.items() if text is None]
        if lacking or REFERENCE in text:  # what is left is an expression
            missing[declared.name] = list(dict.fromkeys(lacking)) or [variable]
        elif text:
            try:
                inputs[declared.name] = declared.decode(text)
            except BadValueError as error:
                problems.append(error.problem)
    if problems:
        raise SpecError(problems, f"task {path}")
    return PipelineTask(step=task.interface.name, inputs=inputs, missing=missing, names=names)


def _name(variable: str, default: str) -> str:
    """Return what users call a variable: an input of the Workflow, `epochs`, or an output of a task, `prepare.file`."""
    if variable.startswith("workflow.parameters."):
        return variable.removeprefix("workflow.parameters.")
    output = _OUTPUT.fullmatch(variable)
    return f"{output[1]}.{output[2]}" if output else default


def _parameters(documents: Sequence[Document]) -> dict[str, str | None]:
    """Return the inputs of the Workflow as text; None = without a value."""
    spec, others = _spec(documents)
    base = others.get(launchers.referenced(spec.get("workflowTemplateRef") or {}), {})
    declared = [
        *((base.get("arguments") or {}).get("parameters") or []),
        *((spec.get("arguments") or {}).get("parameters") or []),
    ]
    return {
        parameter["name"]: launchers.text(parameter["value"]) if parameter.get("value") is not None else None
        for parameter in declared
    }


def _spec(documents: Sequence[Document]) -> tuple[_Node, dict[launchers.TemplateKey, _Node]]:
    """Return the spec of the Workflow, or of the first template if there is none, and the known templates' specs."""
    argos = [document for document in documents if str(document.get("apiVersion", "")).startswith("argoproj.io/")]
    chosen = next((item for item in argos if item["kind"] in _WORKFLOWS), argos[0])
    spec: _Node = chosen["spec"]
    return spec.get("workflowSpec") or spec, launchers.known_templates(argos)


def _tasks(documents: Sequence[Document]) -> Iterator[_ContainerTask]:
    spec, others = _spec(documents)
    reference = spec.get("workflowTemplateRef")
    key = launchers.referenced(reference or {})
    if reference and key not in others:
        kind = "ClusterWorkflowTemplate" if key[1] else "WorkflowTemplate"
        raise CommandError(f"{kind} {key[0]} is not in the file; add its manifest to the file")
    base = others[key] if reference else spec
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
    others: Mapping[launchers.TemplateKey, _Node],
    path: str,
    *,
    outer: tuple[int, ...] = (),
) -> Iterator[_ContainerTask]:
    """Yield the tasks of a template; `outer` has the ids of the templates that lead to it."""
    last, values = launchers.inner(template, arguments, templates)
    if interface := launchers.component(last):
        yield _ContainerTask(path, interface, launchers.inputs(last, values))
    elif not template_rules.is_graph(template):
        yield _ContainerTask(path, None, {})
    elif id(template) not in outer:
        for call in template_rules.calls(template):
            node = call.node
            known = (
                call_inputs.by_name(others.get(launchers.referenced(node["templateRef"]), {}))
                if node.get("templateRef")
                else templates
            )
            target = node.get("inline") or known.get((node.get("templateRef") or node).get("template"))
            if not target:
                continue
            # An item of the call's loop is named as an output of the call is: `train.item.lr`.
            item = rf"{{{{tasks.{call.name}.outputs.\1}}}}"
            call_arguments = {
                key: _ITEM.sub(item, launchers.filled(value, arguments))
                for key, value in call_inputs.arguments_of(node).items()
            }
            below = f"{path}/{call.name}" if path else call.name
            yield from _below(
                target,
                {**launchers.defaults(target), **call_arguments},
                known,
                others,
                below,
                outer=(*outer, id(template)),
            )


def pod_references(manifest: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the objects that the pods of a manifest refer to, except names that are known only when it runs.

    Args:
        manifest: A Workflow, CronWorkflow or template, with its arguments.
    """
    spec = manifest["spec"].get("workflowSpec", manifest["spec"])
    parameters = (spec.get("arguments") or {}).get("parameters") or []
    values = {parameter["name"]: str(parameter["value"]) for parameter in parameters if "value" in parameter}
    for reference in _within(spec):
        name = reference.name
        for parameter, value in values.items():
            name = name.replace(f"{{{{workflow.parameters.{parameter}}}}}", value)
        if name and "{{" not in name:
            yield Reference(reference.resource, name)


def _within(node: Any) -> Iterator[Reference]:
    """Yield the references in a part of a manifest, at any depth."""
    if isinstance(node, Mapping):
        yield from (reference for volume in _items(node, "volumes") for reference in of_volume(volume))
        yield from of_container({field: _items(node, field) for field in ("env", "envFrom")})
        if isinstance(account := node.get("serviceAccountName"), str):
            yield Reference(ACCOUNTS, account)
        node = list(node.values())
    for item in node if isinstance(node, list) else ():
        yield from _within(item)


def _items(node: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    items = node.get(field)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []

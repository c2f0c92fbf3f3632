"""The templates that run steps of tfsteps: the shipped ones, the rules for templates, and the inputs of a call."""

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfsteps.engines.argo import ARGUMENT
from tfsteps.engines.argo.inputs import UNKNOWN
from tfsteps.engines.argo.interface import Interface, interfaces
from tfsteps.engines.argo.task import NODE_NAME
from tfsteps.spec.problems import shown
from tfsteps.spec.step_inputs import merged

NAME = "tfsteps"
"""Name of the WorkflowTemplate and ClusterWorkflowTemplate that tfsteps ships."""
ENTRYPOINT = "train"

_ALWAYS = "Always"
_INPUT = re.compile(r"\{\{\s*inputs\.parameters\.([^\s{}]+)\s*\}\}")

_Node = Mapping[str, Any]

TemplateKey = tuple[str, bool]
"""Name of a manifest with templates, and whether it is a ClusterWorkflowTemplate: both kinds may have one name."""


def referenced(reference: _Node) -> TemplateKey:
    """Return the key of the manifest that a `templateRef` or `workflowTemplateRef` names."""
    return str(reference.get("name") or ""), reference.get("clusterScope") is True


def known_templates(manifests: Iterable[_Node]) -> dict[TemplateKey, _Node]:
    """Return the specs of the manifests with templates among `manifests`, and of the shipped ones."""
    templates = {(NAME, of_cluster): shipped() for of_cluster in (False, True)}
    for item in manifests:
        if "Template" in item["kind"]:
            key = str(item["metadata"].get("name") or ""), item["kind"].startswith("Cluster")
            templates[key] = item["spec"]
    return templates


# --- the shipped templates


@functools.cache
def shipped() -> _Node:
    """Return the spec of the shipped WorkflowTemplate, as far as a lint needs it, without Hera.

    Its templates include the artifacts `logs` and `report`, which exist if the template was created with
    `artifacts=True`.
    """
    templates = {interface.name.replace("_", "-"): _template(interface) for interface in interfaces().values()}
    # The template of an exit hook only calls the other one: for a lint it is equal, without outputs.
    for step in ("cleanup", "notify"):
        templates[f"{step}-on-exit"] = {key: value for key, value in templates[step].items() if key != "outputs"}
    return {"entrypoint": ENTRYPOINT, "templates": [{**template, "name": name} for name, template in templates.items()]}


def _template(interface: Interface) -> dict[str, Any]:
    args = [f"{declared.name}={{{{inputs.parameters.{declared.name}}}}}" for declared in interface.inputs]
    inputs = [
        {"name": declared.name} if declared.required else {"name": declared.name, "default": text(declared.default)}
        for declared in interface.inputs
    ]
    outputs = {
        "parameters": [{"name": output.name} for output in interface.outputs if not output.artifact],
        "artifacts": [{"name": output.name} for output in interface.outputs if output.artifact],
    }
    command = ["python", "-m", f"tfsteps.steps.{interface.name}.launcher"]
    container = {"command": command, "args": [ARGUMENT, interface.name, *args]}
    return {"inputs": {"parameters": inputs}, "outputs": outputs, "container": container}


# --- the program of a template


def is_launcher(template: _Node) -> bool:
    """Tell whether a template's container runs a step of tfsteps."""
    command = (template.get("container") or {}).get("command") or []
    return any(word.startswith("tfsteps.") and word.endswith(".launcher") for word in command)


def component(template: _Node) -> Interface | None:
    """Return the component that a template runs; None = no tfsteps component, or its arguments do not name one."""
    args = (template.get("container") or {}).get("args") or []
    named = args[1] if is_launcher(template) and args[:1] == [ARGUMENT] and args[1:] else ""
    return interfaces().get(named)


def lint_messages(template: _Node, where: str, spec: _Node) -> Iterator[str]:
    """Yield a sentence for each setting of a launcher's template that can lose its job, whatever calls the template.

    Args:
        template: A template of valid types; one that runs no launcher has no problems.
        where: Prefix of each sentence.
        spec: The Workflow's spec, for its defaults.
    """
    if not is_launcher(template):
        return
    defaults = spec.get("templateDefaults") or {}
    whole = merged(defaults, template)
    if whole.get("memoize"):
        yield f"{where}.memoize: a memoized launcher runs no job and cleans nothing up; remove it"
    if whole.get("daemon"):
        yield (
            f"{where}.daemon: a daemon counts as done as soon as its pod is up, so later steps start before the job "
            "has ended, and Argo stops the launcher, and with it the job, when they have; remove it"
        )
    yield from _retries(whole.get("retryStrategy") or spec.get("retryStrategy"), where)
    env = [*((defaults.get("container") or {}).get("env") or []), *(template["container"].get("env") or [])]
    if NODE_NAME not in [variable["name"] for variable in env]:
        yield (
            f"{where}.container.env: without the variable {NODE_NAME}, two steps of a run adopt each other's "
            "jobs; copy it from the template that tfsteps ships"
        )
    yield from _arguments(template, where)


def _retries(strategy: _Node | None, where: str) -> Iterator[str]:
    if not strategy:
        yield (
            f"{where}.retryStrategy: without a retry strategy, the step and its job fail when its pod is lost; add one "
            f"with `retryPolicy: {_ALWAYS}`"
        )
        return
    if str(strategy.get("limit")) == "0":  # explicit: the launcher stops its job when its pod is deleted
        return
    policy = strategy.get("retryPolicy") or (_ALWAYS if strategy.get("expression") else "")
    if policy != _ALWAYS:
        current = shown(policy) if policy else "OnFailure, Argo's default,"
        yield (
            f"{where}.retryStrategy.retryPolicy: {current} misses lost pods: by timing one comes as exit code 13, as "
            f"Error or as the same pod again, and only {_ALWAYS} covers all. Allowed: {_ALWAYS}. Write "
            f"`retryPolicy: {_ALWAYS}`, and an `expression` that excludes failures that must not be retried"
        )


def _arguments(template: _Node, where: str) -> Iterator[str]:
    interface = component(template)
    if not interface:
        yield f"{where}.container.args: they must begin with {ARGUMENT} and one of {', '.join(interfaces())}"
        return
    known = [declared.name for declared in interface.inputs]
    for word in template["container"]["args"][2:]:
        if word.partition("=")[0] not in known or "=" not in word:
            allowed = ", ".join(known)
            yield (
                f"{where}.container.args: {shown(word)} is not NAME=VALUE of an input of {interface.name}. "
                f"Allowed: {allowed}. Correct or remove it"
            )


# --- the inputs of a call


def inner(
    template: _Node, arguments: Mapping[str, str], templates: Mapping[Any, _Node]
) -> tuple[_Node, dict[str, str]]:
    """Return the template that runs in the end, and its arguments.

    A template with a single step is replaced by the template of that step: `cleanup-on-exit` by `cleanup`.
    """
    values = {**defaults(template), **arguments}
    steps = [step for group in template.get("steps") or [] for step in group or []]
    target = templates.get(steps[0].get("template")) if len(steps) == 1 else None
    if not target or target.get("steps") is not None:
        return template, values
    passed = (steps[0].get("arguments") or {}).get("parameters") or []
    return target, {
        **defaults(target),
        **{parameter["name"]: filled(value_of(parameter), values) for parameter in passed},
    }


def inputs(template: _Node, arguments: Mapping[str, str]) -> dict[str, str]:
    """Return the inputs of the step in a launcher's template, with these arguments; unknown inputs are left out."""
    interface = component(template)
    known = [declared.name for declared in interface.inputs] if interface else []
    pairs = (word.partition("=") for word in template["container"]["args"][2:])
    return {name: filled(value, arguments) for name, equals, value in pairs if equals and name in known}


def defaults(template: _Node) -> dict[str, str]:
    """Return the inputs of a template that is called without arguments; inputs without a default are left out."""
    declared = (template.get("inputs") or {}).get("parameters") or []
    return {
        parameter["name"]: value_of(parameter)
        for parameter in declared
        if {"value", "valueFrom", "default"} & parameter.keys()
    }


def value_of(parameter: _Node) -> str:
    """Return a parameter's value as text; UNKNOWN if it comes from `valueFrom`; empty = it has no value."""
    if parameter.get("valueFrom"):
        return UNKNOWN
    value = parameter.get("value")
    return text(parameter.get("default") if value is None else value)


def filled(value: str, arguments: Mapping[str, str]) -> str:
    """Return a value with its references to inputs replaced; a reference to an input without an argument stays."""
    return _INPUT.sub(lambda match: arguments.get(match[1], match[0]), value)


def text(value: Any) -> str:
    """Return a value of a manifest as text, as Argo passes it; empty for null."""
    if value is None:
        return ""
    return (
        value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
    )

"""The templates that run our steps: those that we ship, what a template must be, and what a step gets of a call."""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.engines.argo.engine import ARGUMENT
from tfsteps.engines.argo.inputs import UNKNOWN
from tfsteps.engines.argo.interface import Interface, interfaces
from tfsteps.engines.argo.task import NODE_NAME
from tfsteps.spec.problems import shown
from tfsteps.spec.step_inputs import merged

NAME = "tfsteps"
"""The name of the WorkflowTemplate and ClusterWorkflowTemplate that we ship."""
ENTRYPOINT = "train"

_ALWAYS = "Always"
_INPUT = re.compile(r"\{\{\s*inputs\.parameters\.([^\s{}]+)\s*\}\}")

_Node = Mapping[str, Any]


# --- those that we ship


@functools.cache
def shipped() -> _Node:
    """Return the spec of our WorkflowTemplate, as far as a lint needs it: made without Hera.

    Its templates name the artifacts `logs` and `report`, too: they are there where somebody made it with
    `artifacts=True`.
    """
    templates = {interface.name.replace("_", "-"): _template(interface) for interface in interfaces().values()}
    # The template of the exit hook only calls the other one: to a lint it is the same, without outputs.
    handler = {key: value for key, value in templates["cleanup"].items() if key != "outputs"}
    named = {**templates, "cleanup-on-exit": handler}
    return {"entrypoint": ENTRYPOINT, "templates": [{**template, "name": name} for name, template in named.items()]}


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


# --- what runs in a template


def is_launcher(template: _Node) -> bool:
    """Tell whether a template's container is the program of one of our steps."""
    command = (template.get("container") or {}).get("command") or []
    return any(word.startswith("tfsteps.") and word.endswith(".launcher") for word in command)


def component(template: _Node) -> Interface | None:
    """Return the step that a template runs; None = none of ours, or its arguments do not say which."""
    args = (template.get("container") or {}).get("args") or []
    named = args[1] if is_launcher(template) and args[:1] == [ARGUMENT] and args[1:] else ""
    return interfaces().get(named)


def problems(template: _Node, where: str, spec: _Node) -> Iterator[str]:
    """Yield a sentence for each thing about a launcher's template that costs its job, whatever calls it.

    Args:
        template: Of the right types; nothing is wrong with one that runs no launcher.
        where: Begins each sentence.
        spec: Of the Workflow, for its defaults.
    """
    if not is_launcher(template):
        return
    defaults = spec.get("templateDefaults") or {}
    whole = merged(defaults, template)
    if whole.get("memoize"):
        yield f"{where}.memoize: memoized, a launcher runs no job and cleans nothing up; remove it"
    if whole.get("daemon"):
        yield (
            f"{where}.daemon: a daemon counts as done as soon as its pod is up, so later steps start before the job "
            "has ended, and Argo stops the launcher, and with it the job, when they have; remove it"
        )
    yield from _retries(whole.get("retryStrategy") or spec.get("retryStrategy"), where)
    env = [*((defaults.get("container") or {}).get("env") or []), *(template["container"].get("env") or [])]
    if NODE_NAME not in [variable["name"] for variable in env]:
        yield (
            f"{where}.container.env: without the variable {NODE_NAME} two steps of a run take each other's job for "
            "their own; copy it from the template that tfsteps ships"
        )
    yield from _arguments(template, where)


def _retries(strategy: _Node | None, where: str) -> Iterator[str]:
    if not strategy:
        yield (
            f"{where}.retryStrategy: without one the step fails when its pod is lost, and the job with it; add one "
            f"with `retryPolicy: {_ALWAYS}`"
        )
        return
    if str(strategy.get("limit")) == "0":  # said on purpose: the launcher stops its job when its pod is taken away
        return
    policy = strategy.get("retryPolicy") or (_ALWAYS if strategy.get("expression") else "")
    if policy != _ALWAYS:
        current = shown(policy) if policy else "OnFailure, Argo's default,"
        yield (
            f"{where}.retryStrategy.retryPolicy: {current} misses lost pods: by timing one comes as exit code 13, as "
            f"Error or as the same pod again, and only {_ALWAYS} covers all. Allowed: {_ALWAYS}. Write "
            f"`retryPolicy: {_ALWAYS}`, and an `expression` that leaves out what must not be tried again"
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


# --- what a step gets of a call


def inner(
    template: _Node, arguments: Mapping[str, str], templates: Mapping[Any, _Node]
) -> tuple[_Node, dict[str, str]]:
    """Return what runs in the end, and its arguments: a template of a single step stands for what that step calls.

    So the template `cleanup-on-exit` is the `cleanup` in it.
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
    """Return the inputs of the step in a launcher's template, as far as it has them, when it is called so."""
    interface = component(template)
    known = [declared.name for declared in interface.inputs] if interface else []
    pairs = (word.partition("=") for word in template["container"]["args"][2:])
    return {name: filled(value, arguments) for name, equals, value in pairs if equals and name in known}


def defaults(template: _Node) -> dict[str, str]:
    """Return the inputs of a template that is called without arguments; those without a default are left out."""
    declared = (template.get("inputs") or {}).get("parameters") or []
    return {
        parameter["name"]: value_of(parameter)
        for parameter in declared
        if {"value", "valueFrom", "default"} & parameter.keys()
    }


def value_of(parameter: _Node) -> str:
    """Return a parameter's value as text; UNKNOWN where it comes from elsewhere; empty = it has none."""
    if parameter.get("valueFrom"):
        return UNKNOWN
    value = parameter.get("value")
    return text(parameter.get("default") if value is None else value)


def filled(value: str, arguments: Mapping[str, str]) -> str:
    """Return a value with the inputs that it refers to in their places; those that are not given stay references."""
    return _INPUT.sub(lambda match: arguments.get(match[1], match[0]), value)


def text(value: Any) -> str:
    """Return a value of a manifest as Argo carries it; empty for none."""
    if value is None:
        return ""
    return (
        value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
    )

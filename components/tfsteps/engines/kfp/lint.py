"""Finds, in a compiled pipeline, what works with kfp.local but fails on a cluster. Needs no kfp."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfsteps.engines.kfp import ARGUMENT, driver_rules
from tfsteps.engines.kfp.driver_rules import STUBS
from tfsteps.engines.kfp.graph import PROGRAM, Call, Node, calls
from tfsteps.yaml_reader import documents

_WHOLE = "{{$}}"
_PLACEHOLDER = re.compile(r"\{\{\$\.pipeline_\w+\}\}")
_TASK_UUID = "{{$.pipeline_task_uuid}}"
_METADATA = re.compile(r"\{\{\$\.\w+\.artifacts\['[^']+'\]\.metadata")


def lint_messages(compiled: str, arguments: Mapping[str, Any] | None = None) -> list[str]:
    """Return a sentence for each thing that fails on the back end: where it is, what goes wrong, what to do.

    Args:
        compiled: What `kfp.compiler` wrote, YAML or JSON; the second document, of platform settings, is checked too.
        arguments: The inputs of a run by name, those that are left out at their defaults; None = not known yet.

    Raises:
        YamlError: It is neither.
    """
    from tfsteps.engines.kfp import step_rules  # noqa: PLC0415  who writes pipelines imports it

    spec, *platforms = documents(compiled)
    sentences, settings = [], platform_settings(platforms)
    executors = spec.get("deploymentSpec", {}).get("executors", {})
    for name, component in spec.get("components", {}).items():
        if executor := executors.get(component.get("executorLabel")):
            sentences += [f"{name}: {sentence}" for sentence in _container(executor.get("container", {}))]
    for call in calls(spec, arguments):
        rules = (
            _task(call.task),
            step_rules.artifact_messages(call),
            driver_rules.lint_messages(call),
            driver_rules.hookless(call, spec),
            step_rules.caching_messages(call, *step_rules.step_inputs(call)),
            step_rules.lint_messages(call, settings.get(call.executor_label, {})),
            _not_handed_on(call, settings.get(call.executor_label, {})),
        )
        sentences += [f"task {call.name}: {sentence}" for rule in rules for sentence in rule]
    return sentences + [f"platform settings: {sentence}" for sentence in _placeholders(platforms)]


def local_lint_messages(compiled: str, arguments: Mapping[str, Any] | None = None) -> list[str]:
    """Return a sentence for each thing that fails on this machine: inputs that are left out or wrong.

    Args:
        compiled: What `kfp.compiler` wrote, YAML or JSON.
        arguments: As for `problems`.

    Raises:
        YamlError: It is neither.
    """
    from tfsteps.engines.kfp import step_rules  # noqa: PLC0415  who writes pipelines imports this module

    spec, *_ = documents(compiled)
    return [
        f"task {call.name}: {sentence}"
        for call in calls(spec, arguments)
        for sentence in (*driver_rules.everywhere(call), *step_rules.lint_messages(call, {}))
    ]


def warnings(compiled: str) -> list[str]:
    """Return a sentence for each thing that may be intended, or fails only on some versions of the back end.

    Args:
        compiled: What `kfp.compiler` wrote, YAML or JSON; the second document, of platform settings, is checked too.

    Raises:
        YamlError: It is neither.
    """
    from tfsteps.engines.kfp import step_rules  # noqa: PLC0415  who writes pipelines imports this module

    spec, *platforms = documents(compiled)
    sentences, settings = [], platform_settings(platforms)
    for call in calls(spec):
        rules = (
            _image(call.container.get("image", "")),
            _task_uuid(call.task),
            step_rules.caching_warnings(call),
            driver_rules.warnings(call),
            step_rules.warnings(call, settings.get(call.executor_label, {})),
        )
        sentences += [f"task {call.name}: {sentence}" for rule in rules for sentence in rule]
    return sentences


def platform_settings(platforms: Sequence[Node]) -> dict[str, Node]:
    """Return what kfp.kubernetes set on tasks, by the label of their executor."""
    settings: dict[str, Node] = {}
    for platform in platforms:
        kubernetes = platform.get("platforms", {}).get("kubernetes", {})
        settings |= kubernetes.get("deploymentSpec", {}).get("executors", {})
    return settings


# --- containers


def _container(container: Node) -> Iterator[str]:
    for variable in container.get("env", []):
        yield from _placeholders(variable.get("value", ""))
    for word in [*container.get("command", []), *container.get("args", [])]:
        yield from _word(word)
    if _is_launcher(container) and container.get("args", []) != [ARGUMENT, _WHOLE]:
        yield f"a launcher reads everything from `{ARGUMENT} {_WHOLE}`; give it no other argument"


def _image(image: str) -> Iterator[str]:
    name, _, tag = image.rpartition("/")[2].partition(":")  # of a digest too: `steps@sha256:...`
    if name and "{{$" not in image and tag in {"", "latest"} and image not in STUBS:
        yield f"image {image!r} is not pinned; name a version or a digest"


def _word(word: str) -> Iterator[str]:
    """Check one element of a command or its arguments; the back end evaluates one IfPresent of inputs in it."""
    conditions = word.count('"IfPresent"')
    if '"Concat"' in word or conditions > 1 or (conditions and "$.outputs" in word):
        yield f"{word!r} reaches the program as it is; {_INSTEAD}"
        return
    yield from _placeholders(word)
    if _METADATA.search(word):
        yield f"{word!r} is not replaced: placeholders of metadata never are; {_INSTEAD}"


_INSTEAD = f"pass `{ARGUMENT} {_WHOLE}` and read that"


# --- tasks


def _task(task: Node) -> Iterator[str]:
    for value in task.get("inputs", {}).get("parameters", {}).values():
        constant = value.get("runtimeValue", {}).get("constant")
        if not (isinstance(constant, str) and _PLACEHOLDER.fullmatch(constant)):
            yield from _placeholders(constant)


def _is_launcher(container: Node) -> bool:
    return any(PROGRAM.fullmatch(word) for word in container.get("command", []))


def _task_uuid(task: Node) -> Iterator[str]:
    for name, value in task.get("inputs", {}).get("parameters", {}).items():
        if value.get("runtimeValue", {}).get("constant") == _TASK_UUID:
            yield f"input {name!r}: {_TASK_UUID} is the same for all tasks of a graph"


def _not_handed_on(call: Call, settings: Node) -> Iterator[str]:
    """Find settings with an input that the graph of the task does not have: kfp before 2.16.1 writes them in groups.

    The driver fails the task. Source: Kubeflow Pipelines 2.15 and 2.17, `backend/src/v2/driver/resolve.go`.
    """
    for setting, value in settings.items():
        for name in sorted(set(_component_inputs(value)) - call.graph.keys()):
            yield (
                f"{setting} takes the input {name!r}, which the condition, loop or exit handler around the task does "
                "not have, and the driver fails; compile it with kfp 2.16.1 or newer"
            )


def _component_inputs(value: Any) -> Iterator[str]:
    """Yield the inputs of the graph that a setting takes, at any depth."""
    for key, item in value.items() if isinstance(value, Mapping) else ():
        if key == "componentInputParameter":
            yield item
        yield from _component_inputs(item)
    for item in value if isinstance(value, list) else ():
        yield from _component_inputs(item)


def _placeholders(value: Any) -> Iterator[str]:
    """Find the placeholders of a pipeline where they are not replaced: anywhere but as the whole of a task's input."""
    match value:
        case str() if match := _PLACEHOLDER.search(value):
            yield f"{match[0]} in {value!r} is not replaced; give it to the task as an input of its own"
        case Mapping():
            for item in value.values():
                yield from _placeholders(item)
        case list():
            for item in value:
                yield from _placeholders(item)

"""Finds, in a compiled pipeline, what works under kfp.local and fails or goes wrong on a cluster. Needs no kfp."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.engines.kfp.argument import ARGUMENT
from tfsteps.engines.manifests import documents

_WHOLE = "{{$}}"
_PLACEHOLDER = re.compile(r"\{\{\$\.pipeline_\w+\}\}")
_TASK_UUID = "{{$.pipeline_task_uuid}}"
_INPUT = re.compile(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}")
_METADATA = re.compile(r"\{\{\$\.\w+\.artifacts\['[^']+'\]\.metadata")
_LAUNCHER = re.compile(r"tfsteps\.\w+\.launcher")
_AFTER_FAILURES = "ALL_UPSTREAM_TASKS_COMPLETED"

_Node = Mapping[str, Any]


def problems(compiled: str) -> list[str]:
    """Return a sentence for each trap in a compiled pipeline: where it is, what goes wrong, what to do.

    Args:
        compiled: What `kfp.compiler` wrote, YAML or JSON; the second document, of platform settings, is looked at too.

    Raises:
        yaml.YAMLError: It is neither.
    """
    spec, *platforms = documents(compiled)
    found = []
    executors = spec.get("deploymentSpec", {}).get("executors", {})
    components = spec.get("components", {})
    for name, component in components.items():
        if executor := executors.get(component.get("executorLabel")):
            container, inputs = executor.get("container", {}), component.get("inputDefinitions", {})
            found += [f"{name}: {said}" for said in _container(container, inputs.get("parameters", {}))]
    for name, task in _tasks(spec):
        component = components.get(task["componentRef"]["name"], {})
        container = executors.get(component.get("executorLabel"), {}).get("container", {})
        found += [f"task {name}: {said}" for said in _task(task, container)]
    return found + [f"platform settings: {said}" for said in _placeholders(platforms)]


def _tasks(spec: _Node) -> Iterator[tuple[str, _Node]]:
    for dag in (spec["root"], *spec.get("components", {}).values()):
        yield from dag.get("dag", {}).get("tasks", {}).items()


# --- containers


def _container(container: _Node, inputs: _Node) -> Iterator[str]:
    yield from _image(container.get("image", ""))
    for variable in container.get("env", []):
        yield from _placeholders(variable.get("value", ""))
    words = [*container.get("command", []), *container.get("args", [])]
    for word in words:
        yield from _word(word, inputs)
    if _is_launcher(container) and container.get("args", []) != [ARGUMENT, _WHOLE]:
        yield f"a launcher reads everything from `{ARGUMENT} {_WHOLE}`; give it no other argument"


def _image(image: str) -> Iterator[str]:
    name, _, tag = image.rpartition("/")[2].partition(":")  # of a digest too: `steps@sha256:...`
    if name and "{{$" not in image and tag in {"", "latest"}:
        yield f"image {image!r} is another one tomorrow; name a version or a digest"


def _word(word: str, inputs: _Node) -> Iterator[str]:
    """Check one element of a command or its arguments."""
    if '"Concat"' in word or '"IfPresent"' in word:
        yield f"{word!r} reaches the program as it is; {_INSTEAD}"
        return
    yield from _placeholders(word)
    if _METADATA.search(word):
        yield f"{word!r} is not replaced, metadata never are; {_INSTEAD}"
    elif "{{$.inputs" in word and not re.fullmatch(r"\{\{[^{}]*\}\}", word):
        yield f"{word!r} has a placeholder within text, which not every back end replaces; {_INSTEAD}"
    for name in _INPUT.findall(word):
        if inputs.get(name, {}).get("isOptional"):
            yield f"argument {name!r} is an optional input: a task that leaves it out fails; {_INSTEAD}"


_INSTEAD = f"pass `{ARGUMENT} {_WHOLE}` and read that"


# --- tasks


def _task(task: _Node, container: _Node) -> Iterator[str]:
    cached = task.get("cachingOptions", {}).get("enableCache")
    if cached and _is_launcher(container):
        yield "a launcher taken from the cache runs no job; call set_caching_options(False)"
    if cached and task.get("triggerPolicy", {}).get("strategy") == _AFTER_FAILURES:
        yield "a finalizer taken from the cache cleans nothing up; call set_caching_options(False)"
    for name, value in task.get("inputs", {}).get("parameters", {}).items():
        constant = value.get("runtimeValue", {}).get("constant")
        if constant == _TASK_UUID:
            yield f"input {name!r}: {_TASK_UUID} is the same for all tasks of a graph; leave it out"
        elif not (isinstance(constant, str) and _PLACEHOLDER.fullmatch(constant)):
            yield from _placeholders(constant)
        if isinstance(constant, list | Mapping) and "{{$.inputs." in str(constant):
            yield (
                f"input {name!r}: what another task or the pipeline gives is not replaced within a list or mapping; "
                "pass it as an input of its own"
            )


def _is_launcher(container: _Node) -> bool:
    return any(_LAUNCHER.fullmatch(word) for word in container.get("command", []))


def _placeholders(value: Any) -> Iterator[str]:
    """Find the placeholders of a pipeline where they are not replaced: anywhere but as the whole of a task's input."""
    match value:
        case str() if found := _PLACEHOLDER.search(value):
            yield f"{found[0]} in {value!r} is not replaced; give it to the task as an input of its own"
        case Mapping():
            for item in value.values():
                yield from _placeholders(item)
        case list():
            for item in value:
                yield from _placeholders(item)

"""Rules for what the back end's driver and compiler refuse or drop. kfp.local runs most of it.

Source: Kubeflow Pipelines 2.14 to 2.17, `backend/src/v2/driver/{resolve,driver,dag}.go` and
`backend/src/v2/compiler/argocompiler/dag.go`. docs/guides/kubeflow.md lists the same rules.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.engines.kfp import ARGUMENT
from tfsteps.engines.kfp.graph import (
    INPUT,
    STRING,
    UNKNOWN,
    Call,
    InputSource,
    Node,
    filled_in,
    kind,
    parameters,
    short,
)

AFTER_FAILURES = "ALL_UPSTREAM_TASKS_COMPLETED"
STUBS = frozenset({"argostub/createpvc", "argostub/deletepvc"})
"""Images of `CreatePVC` and `DeletePVC`: the driver does their work, and starts no container."""

_IF_PRESENT = '{"IfPresent":'
_LONGEST = 128 * 1024  # bytes of one argument of a process on Linux
_TYPES = {"NUMBER_INTEGER": "NUMBER_DOUBLE", "TASK_FINAL_STATUS": "STRUCT", "TASK_CONFIG": "STRUCT"}
_TIMES = re.compile(r"\{\{\$\.pipeline_job_(create|schedule)_time_utc\}\}")
_BREAKING = re.compile(r'["\\\x00-\x1f]')
_BREAKS = "a double quote, a backslash or a line break"
_BY_FILE = "let a task write the list or mapping, and pass its output"


def lint_messages(call: Call) -> Iterator[str]:
    """Yield a sentence for each thing in a task that fails or goes wrong on the back end."""
    yield from _types(call)
    yield from _missing(call)
    yield from _loop(call)
    yield from _arguments(call)
    yield from _filled_in(call)
    yield from _container_settings(call)
    yield from _order(call)
    yield from everywhere(call)


def everywhere(call: Call) -> Iterator[str]:
    """Yield a sentence for each thing in a task that fails on this machine as well."""
    if not call.executor and not call.component.get("dag", {}).get("tasks"):
        yield "it has no task, which neither the back end nor kfp.local can run; add a task, or remove it"
    yield from _left_out(call)
    size = len(json.dumps([value.constant for value in call.inputs.values() if value.constant is not UNKNOWN]))
    if size > _LONGEST:
        yield (
            f"its constant inputs have {size:,} bytes, a container takes {_LONGEST:,} of all inputs in one argument; "
            "put them into a file or an artifact"
        )


def warnings(call: Call) -> Iterator[str]:
    """Yield a sentence for each thing in a task that fails on some versions of the back end only."""
    for name, output in call.component.get("dag", {}).get("outputs", {}).get("artifacts", {}).items():
        if len(output.get("artifactSelectors", [])) > 1:
            yield (
                f"OneOf of artifacts ({name}): Kubeflow Pipelines before 2.17 always takes the last branch, and fails "
                "where another one ran; use OneOf of parameters there"
            )
    for name, source in call.task.get("inputs", {}).get("parameters", {}).items():
        constant = source.get("runtimeValue", {}).get("constant")
        if isinstance(constant, str) and _TIMES.fullmatch(constant):
            yield f"input {name!r}: {constant} stays as it is before Kubeflow Pipelines 2.16, and fails under kfp.local"
    yield from _may_break(call)
    words = [*call.container.get("command", []), *call.container.get("args", [])]
    if any(word.startswith(_IF_PRESENT) for word in words):
        yield (
            "IfPresent reaches the program as it is before Kubeflow Pipelines 2.17; there, pass "
            f"`{ARGUMENT} {{{{$}}}}` and read that"
        )
    if is_finalizer(call.task) and not _spares_running(call) and len(before := predecessors(call.task)) > 1:
        yield (
            f"a finalizer of several tasks ({', '.join(before)}) runs once after each of them, while the others may "
            "still run; under kfp.local it runs once, after all of them"
        )


def _spares_running(call: Call) -> bool:
    """Tell whether a task is a `cleanup` step of the steps in its scope, which does not clean up running jobs."""
    scope = call.inputs.get("scope")
    return call.step == "cleanup" and (scope is None or scope.constant == "siblings")


# --- inputs


def _types(call: Call) -> Iterator[str]:
    """Compare what an input receives with its type: the driver converts to STRING and nothing else."""
    for name, value in call.inputs.items():
        expected = parameters(call.component).get(name, {}).get("parameterType", "")
        if not value.type or expected in {"", STRING} or _same(value.type, expected):
            continue
        if value.type == STRING and value.origin.startswith("an item"):
            yield (
                f"input {name!r} is {expected} and receives {value.origin}, which is STRING because the type of the "
                "list's items is not declared: the driver refuses it; declare it, such as list[dict]"
            )
        else:
            yield (
                f"input {name!r} is {expected} and receives {value.origin}, which is {value.type}: the driver refuses "
                "it; give it a value of its type"
            )


def _same(one: str, other: str) -> bool:
    return _TYPES.get(one, one) == _TYPES.get(other, other)


def _missing(call: Call) -> Iterator[str]:
    """Find required inputs without a value."""
    item = call.task.get("parameterIterator", {}).get("itemInput")
    for name, parameter in parameters(call.component).items():
        required = not parameter.get("isOptional") and "defaultValue" not in parameter
        if required and name not in call.inputs and name != item:
            yield f"input {name!r} is required and has no value; give it one"


def _left_out(call: Call) -> Iterator[str]:
    """Find required inputs that are connected with optional inputs or artifacts."""
    declared = parameters(call.component)
    for name, value in call.inputs.items():
        if value.optional and not declared.get(name, {}).get("isOptional"):
            yield (
                f"input {short(name)!r} is required here and receives the optional {value.optional!r}, which has no "
                f"default: a run that leaves it out fails; give {value.optional!r} a default. Conditions, loops and "
                "exit handlers require every input that is used in them"
            )
    for name, artifact in call.component.get("inputDefinitions", {}).get("artifacts", {}).items():
        if artifact.get("isOptional") and name not in call.task.get("inputs", {}).get("artifacts", {}):
            used = call.component.get("dag", {}).get("tasks", {})
            if any(
                {"componentInputArtifact": name} in task.get("inputs", {}).get("artifacts", {}).values()
                for task in used.values()
            ):
                yield (
                    f"the inner pipeline's optional artifact {name!r} is left out, and a task in it takes it: the "
                    "driver fails that task; pass an artifact"
                )


def _arguments(call: Call) -> Iterator[str]:
    """Find arguments of a container that are inputs which the task leaves out: the driver fails, default or not."""
    declared = parameters(call.component)
    words = [*call.container.get("command", []), *call.container.get("args", [])]
    plain = [word for word in words if not word.startswith(_IF_PRESENT)]
    artifacts = call.component.get("inputDefinitions", {}).get("artifacts", {})
    for name in (json.loads(word)["IfPresent"]["InputName"] for word in words if word not in plain):
        if name in artifacts:
            yield f"IfPresent of the artifact {name!r}: the back end takes every artifact for left out; use a parameter"
    for name in filled_in(plain):
        value = call.inputs.get(name)
        if declared.get(name, {}).get("isOptional") and (value is None or value.optional):
            yield (
                f"it leaves out the input {name!r}, which is an argument of its container: Kubeflow Pipelines 2.17 "
                f"fails there, with a default too; give it a value, or pass `{ARGUMENT} {{{{$}}}}` and read that"
            )


def _filled(call: Call) -> Iterator[tuple[str, InputSource, Any]]:
    """Yield what is filled into the constants of a task: the name of the input that gets it, what, and the constant."""
    for name, source in call.task.get("inputs", {}).get("parameters", {}).items():
        constant = source.get("runtimeValue", {}).get("constant")
        for inner in filled_in(constant):
            yield name, call.inputs.get(inner, InputSource())._replace(origin=short(inner)), constant


def _filled_in(call: Call) -> Iterator[str]:
    """Check the constants with placeholders of inputs: a container's are replaced in its JSON, as text."""
    for name, value, _ in _filled(call):
        if not call.executor:
            yield (
                f"input {name!r} has {value.origin!r} within a constant, which the back end does not replace for an "
                "inner pipeline; pass it as an input of its own, and put it into the constant there"
            )
        elif value.constant is not UNKNOWN and _BREAKING.search(_json(value.constant)):
            where = f"input {name!r} has {value.origin!r} within it"
            yield f"{where}, whose value has {_BREAKS}: the JSON breaks; {_BY_FILE}"


def _may_break(call: Call) -> Iterator[str]:
    """Warn of text within constants: what the run gives may break the JSON that the container reads."""
    kinds = ("", STRING, "LIST", "STRUCT")
    origins = {value.origin for _, value, _ in _filled(call) if value.constant is UNKNOWN and value.type in kinds}
    if call.executor and origins:
        yield (
            f"{', '.join(sorted(origins))} within a list, a mapping or text: a value with {_BREAKS} breaks the JSON of "
            f"the inputs, and the step fails; if there may be one, {_BY_FILE}"
        )


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _loop(call: Call) -> Iterator[str]:
    """Check what a loop runs over."""
    if "artifactIterator" in call.task:
        yield "a ParallelFor over artifacts is not implemented by the back end; loop over parameters, such as URIs"
    iterator = call.task.get("parameterIterator", {})
    if raw := iterator.get("items", {}).get("raw"):
        expected = parameters(call.component).get(iterator["itemInput"], {}).get("parameterType", STRING)
        for position, item in enumerate(json.loads(raw)):
            if expected != STRING and not _same(kind(item), expected):
                yield f"item {position} of the loop is {kind(item) or 'null'}, not {expected}: the driver refuses it"


# --- containers


def _container_settings(call: Call) -> Iterator[str]:
    """Find settings that the driver reads as text but receives as another type, which it treats as empty text."""
    container = call.container
    settings = {"image": container.get("image", ""), **container.get("resources", {})}
    for name, setting in (*settings.items(), *settings.get("accelerator", {}).items()):
        match = INPUT.search(setting) if isinstance(setting, str) else None
        value = call.inputs.get(match[1]) if match else None
        declared = parameters(call.component).get(match[1], {}).get("parameterType") if match else None
        if value and value.type not in {"", STRING} and declared != STRING:
            effect = "no GPU is requested" if name == "resourceCount" else "the task fails"
            yield (
                f"{_SETTINGS.get(name, name)} receives {value.origin}, which is {value.type}: the driver reads text "
                f"alone there, and {effect}; declare it as str"
            )


_SETTINGS = {
    "image": "the image",
    "resourceCpuLimit": "the CPU limit",
    "resourceCpuRequest": "the CPU request",
    "resourceMemoryLimit": "the memory limit",
    "resourceMemoryRequest": "the memory request",
    "resourceType": "the accelerator type",
    "resourceCount": "the accelerator limit",
}


# --- order


def is_finalizer(task: Node) -> bool:
    """Return whether a task runs after failures of those before it, too."""
    return bool(task.get("triggerPolicy", {}).get("strategy") == AFTER_FAILURES)


def _order(call: Call) -> Iterator[str]:
    """Check finalizers: the back end makes each an exit hook of the tasks before it, one hook a task."""
    before = predecessors(call.task)
    if finalizers := [name for name in before if is_finalizer(call.siblings.get(name, {}))]:
        yield (
            f"it runs after the finalizer {', '.join(finalizers)}, which the back end makes an exit hook: the run is "
            "refused; leave that dependency out"
        )
    if not is_finalizer(call.task):
        return
    if not before:
        yield "a finalizer without a task before it never runs; add .after(...) before ignore_upstream_failure()"
    for name in before:
        others = [key for key, task in call.siblings.items() if is_finalizer(task) and name in predecessors(task)]
        own_name = call.name.rpartition("/")[2]
        if own_name != max(others, default=own_name):
            yield (
                f"{name} has several finalizers ({', '.join(sorted(others))}), and the back end runs only "
                f"{max(others)}; make them one task, or one inner pipeline"
            )


def predecessors(task: Node) -> list[str]:
    """Return the names of the tasks that a task waits for, in any order."""
    inputs = task.get("inputs", {})
    named = [*inputs.get("parameters", {}).values(), *inputs.get("artifacts", {}).values()]
    producers = [
        output["producerTask"]
        for source in named
        for key in ("taskOutputParameter", "taskOutputArtifact")
        if isinstance(output := source.get(key), Mapping)
    ]
    names: dict[str, Any] = dict.fromkeys([*task.get("dependentTasks", []), *producers])
    return list(names)


def hookless(call: Call, spec: Node) -> Iterator[str]:
    """Find finalizers of tasks that have no exit hook: loops, importers, and tasks that the driver runs itself."""
    if not is_finalizer(call.task):
        return
    for name in predecessors(call.task):
        task = call.siblings.get(name, {})
        component = spec.get("components", {}).get(task.get("componentRef", {}).get("name"), {})
        executor = spec.get("deploymentSpec", {}).get("executors", {}).get(component.get("executorLabel"), {})
        if "parameterIterator" in task:
            reason = "a loop"
        elif "importer" in executor:
            reason = "an importer"
        elif executor.get("container", {}).get("image") in STUBS:
            reason = "done by the driver"
        else:
            continue
        yield (
            f"the finalizer does not run after {name}, which is {reason} and has no exit hook on the back end; use "
            "dsl.ExitHandler, or put both into an inner pipeline and the finalizer after that"
        )

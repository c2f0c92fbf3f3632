"""A compiled pipeline as calls: each task of each graph, and its inputs as far as they are known before the run."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

Node = Mapping[str, Any]
Supply = Callable[[str, str], Any]
"""Given the name and the type of a value that only a run knows, such as `prepare.file`, returns it, else UNKNOWN."""

PROGRAM = re.compile(r"tfsteps\.steps\.(?P<step>\w+)\.launcher")
"""Module of the program that a step's container starts."""

INPUT = re.compile(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}")
"""The placeholder of an input: a task's within its constants, a component's within the arguments of its container."""

UNKNOWN = object()
"""Stands for a value that is only known at run time."""

STRING = "STRING"

_KEY = re.compile(r"""parseJson\(string_value\)\[(["'])(.+)\1\]""")
"""The expression that selects a key of a loop's item."""


class InputSource(NamedTuple):
    """What an input receives.

    Attributes:
        type: Its type in the back end, such as STRUCT; empty = only known at run time.
        constant: Its value; UNKNOWN if it is only known at run time.
        template: A list or mapping with placeholders in it, which the back end fills in as text; None = it has none.
        optional: The pipeline's input it comes from, if a run may leave that out and it has no default; else empty.
        origin: Where it comes from, for messages.
        name: What users call it: an input of the pipeline, `epochs`; an output of a task, `prepare.file`; an item of a
            loop, `for-loop-1.item`; empty = it has no name.
    """

    type: str = ""
    constant: Any = UNKNOWN
    template: Any = None
    optional: str = ""
    origin: str = ""
    name: str = ""


class Call(NamedTuple):
    """One task of a graph, called with these inputs.

    Attributes:
        name: Names of the tasks from the root to this one, joined by `/`.
        task: As it was compiled.
        component: What it runs: a graph or a container.
        executor: Empty for a graph.
        executor_label: Its name in the platform settings; empty for a graph.
        inputs: The parameters that the task passes, by name.
        siblings: The tasks of its graph, itself among them, by name.
        graph: The inputs of its graph, by name.
        artifacts: Of input artifacts that a step of tfsteps writes, the step and its output: `("train", "model")`.
    """

    name: str
    task: Node
    component: Node
    executor: Node
    executor_label: str
    inputs: Mapping[str, InputSource]
    siblings: Mapping[str, Node]
    graph: Mapping[str, InputSource]
    artifacts: Mapping[str, tuple[str, str]]

    @property
    def container(self) -> Node:
        """The container that it starts; empty for graphs and importers."""
        container: Node = self.executor.get("container", {})
        return container

    @property
    def step(self) -> str:
        """The tfsteps step that it runs, such as train; empty = none."""
        return _step(self.container)


def _step(container: Node) -> str:
    programs = (PROGRAM.fullmatch(word) for word in container.get("command", []))
    return next((program["step"] for program in programs if program), "")


def calls(spec: Node, arguments: Mapping[str, Any] | None = None, supply: Supply | None = None) -> Iterator[Call]:
    """Yield every task, the graph before the tasks in it; a graph that is used twice yields its tasks twice.

    Args:
        spec: The compiled pipeline.
        arguments: The inputs of a run by name, those that are left out at their defaults; None = not known yet.
        supply: Supplies values that only a run knows, to call one task by itself: then the conditions around a task
            are taken to hold. None = they stay unknown.

    Raises:
        ValueError: A graph contains itself.
    """
    inputs = parameters(spec["root"])
    values = {name: _argument(name, declared, arguments) for name, declared in inputs.items()}
    yield from _calls(spec, spec["root"], values, {}, (), supply=supply)


def _argument(name: str, declared: Node, arguments: Mapping[str, Any] | None) -> InputSource:
    """Return what the pipeline's own input receives."""
    value = UNKNOWN if arguments is None else arguments.get(name, declared.get("defaultValue", UNKNOWN))
    optional = name if left_out(declared) and value is UNKNOWN else ""
    if "[[" in str(value):  # such as [[ScheduledTime]], which back ends replace in the arguments of some runs
        value = UNKNOWN
    return InputSource(
        declared["parameterType"], value, optional=optional, origin=f"the pipeline's {name!r}", name=name
    )


def parameters(component: Node) -> Mapping[str, Node]:
    """Return the input parameters that a component declares, by name."""
    declared: Mapping[str, Node] = component.get("inputDefinitions", {}).get("parameters", {})
    return declared


def left_out(declared: Node) -> bool:
    """Return whether an input can be left out and has no default then."""
    return bool(declared.get("isOptional")) and "defaultValue" not in declared


def filled_in(constant: Any) -> list[str]:
    """Return the names of the task's inputs whose placeholders are within a constant, at any depth."""
    return list(dict.fromkeys(INPUT.findall(str(constant).replace("\\'", "'"))))


def short(name: str) -> str:
    """Return an input's name without the prefix of the compiler for what it fills into constants."""
    return name.removeprefix("pipelinechannel--")


def kind(value: Any) -> str:
    """Return the back end's type of a JSON value; numbers are NUMBER_DOUBLE, null is empty."""
    match value:
        case bool():
            return "BOOLEAN"
        case int() | float():
            return "NUMBER_DOUBLE"
        case str():
            return STRING
        case list():
            return "LIST"
        case Mapping():
            return "STRUCT"
        case _:
            return ""


def _calls(
    spec: Node,
    graph: Node,
    arguments: Mapping[str, InputSource],
    task_arguments: Mapping[str, tuple[str, str]],
    outer: tuple[tuple[str, str], ...],
    *,
    supply: Supply | None,
) -> Iterator[Call]:
    """Yield the tasks of a graph and those within; `outer` has the task and the component of each graph around it."""
    tasks = graph.get("dag", {}).get("tasks", {})
    executors = spec.get("deploymentSpec", {}).get("executors", {})
    for name, task in tasks.items():
        used = task["componentRef"]["name"]
        if any(used == component for _, component in outer):
            raise ValueError(f"the graph {used} contains itself")
        component = spec.get("components", {}).get(used, {})
        sources = task.get("inputs", {}).get("parameters", {})
        inputs = {key: _value(source, arguments, tasks, spec, supply) for key, source in sources.items()}
        label = component.get("executorLabel", "")
        path = (*outer, (name, used))
        where, executor = "/".join(task for task, _ in path), executors.get(label, {})
        sent = task.get("inputs", {}).get("artifacts", {})
        artifacts = {
            key: written for key, source in sent.items() if (written := _writer(source, task_arguments, tasks, spec))
        }
        call = Call(where, task, component, executor, label, inputs, tasks, arguments, artifacts)
        yield call
        yield from _calls(spec, component, _within(call, supply), artifacts, path, supply=supply)


def _writer(
    source: Node, arguments: Mapping[str, tuple[str, str]], tasks: Mapping[str, Node], spec: Node
) -> tuple[str, str] | None:
    """Return the step of tfsteps, and its output, that an input artifact comes from; None = another component's."""
    match source:
        case {"componentInputArtifact": name}:
            return arguments.get(name)
        case {"taskOutputArtifact": {"producerTask": producer, "outputArtifactKey": key}}:
            component = spec.get("components", {}).get(tasks.get(producer, {}).get("componentRef", {}).get("name"), {})
        case _:
            return None
    for _ in range(len(spec.get("components", {}))):  # of an inner pipeline, the task that writes its output
        selectors = component.get("dag", {}).get("outputs", {}).get("artifacts", {}).get(key, {})
        match selectors.get("artifactSelectors"):
            case [{"producerSubtask": producer, "outputArtifactKey": key}]:
                inner = component["dag"]["tasks"].get(producer, {}).get("componentRef", {}).get("name")
                component = spec["components"].get(inner, {})
            case _:
                break
    executor = spec.get("deploymentSpec", {}).get("executors", {}).get(component.get("executorLabel"), {})
    step = _step(executor.get("container", {}))
    return (step, key) if step else None


def _value(
    source: Node, inputs: Mapping[str, InputSource], tasks: Mapping[str, Node], spec: Node, supply: Supply | None
) -> InputSource:
    """Return what a task's input receives."""
    match source:
        case {"runtimeValue": {"constant": str(text)}} if "{{$" in text:
            return InputSource(STRING, origin="a placeholder")
        case {"runtimeValue": {"constant": constant}}:
            if "{{$" in str(constant):
                return InputSource(kind(constant), template=constant, origin="a constant")
            return InputSource(kind(constant), constant, origin="a constant")
        case {"componentInputParameter": name}:
            value = inputs.get(name, InputSource())
            selector = source.get("parameterExpressionSelector")
            return value if selector is None else _selected(value, selector, supply)
        case {"taskOutputParameter": {"producerTask": producer, "outputParameterKey": key}}:
            component = spec.get("components", {}).get(tasks[producer]["componentRef"]["name"], {})
            declared = component.get("outputDefinitions", {}).get("parameters", {}).get(key, {})
            looped = "parameterIterator" in tasks[producer]  # collected: the type is that of the list
            type_ = "LIST" if looped else declared.get("parameterType", "")
            name = f"{producer}.{key}"
            constant = supply(name, type_) if supply else UNKNOWN
            return InputSource(type_, constant, origin=f"{producer}'s output {key!r}", name=name)
        case _:
            return InputSource()


def _selected(value: InputSource, selector: str, supply: Supply | None) -> InputSource:
    """Return what an expression selects of a value: JSON of a type that only the run knows."""
    key = _KEY.fullmatch(selector)
    item = value.constant if supply and key and isinstance(value.constant, Mapping) else {}
    return InputSource(constant=item.get(key and key[2], UNKNOWN), optional=value.optional, name=value.name)


def _within(call: Call, supply: Supply | None) -> Mapping[str, InputSource]:
    """Return the inputs of a graph as the tasks in it see them, of the types that it declares."""
    seen = {}
    item = call.task.get("parameterIterator", {}).get("itemInput")
    for name, declared in parameters(call.component).items():
        if name == item:
            of_loop = f"{call.name.rpartition('/')[2]}.item"
            constant = supply(of_loop, declared["parameterType"]) if supply else UNKNOWN
            value = InputSource(constant=constant, origin=f"an item of the loop {call.name}", name=of_loop)
        elif name in call.inputs:
            value = call.inputs[name] if declared.get("isOptional") else call.inputs[name]._replace(optional="")
        elif "defaultValue" in declared:
            value = InputSource(constant=declared["defaultValue"], origin="a default")
        else:
            value = InputSource(optional=name if left_out(declared) else "")
        # whether it runs may depend on the same values
        if "condition" in call.task.get("triggerPolicy", {}) and not supply:
            value = value._replace(constant=UNKNOWN)
        seen[name] = value._replace(type=declared["parameterType"])
    return seen

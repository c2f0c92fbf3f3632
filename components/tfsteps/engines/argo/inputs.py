"""What is wrong with the inputs of one of our steps, as far as they are constants.

A value that holds a reference (`{{...}}`) is not known before the Workflow runs: it is right wherever it stands, and
whatever follows from it alone is not reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import msgspec

from tfsteps import spec
from tfsteps.engines.argo.interface import REFERENCE, BadValueError, Input, Interface, interfaces
from tfsteps.runs.identity import name_problem
from tfsteps.spec import Problem, SpecError, TrainingJob
from tfsteps.spec.decode import decode
from tfsteps.spec.document import Document
from tfsteps.spec.problems import Path, shown
from tfsteps.spec.spelling import nearest
from tfsteps.spec.step_inputs import plain_job
from tfsteps.systems import registry
from tfsteps.systems.base import OnEnd, Scope

UNKNOWN = "{{}}"
"""Stands for a value of which nothing is known."""

DIRECTIONS = ("at_least", "at_most")
AUTO = "auto"

_Values = Mapping[str, Any]
_RUN_JOBS = ("train", "launch")
_JOB_FIELDS: Mapping[Path, str] = {
    **{(name,): name for name in ("name", "image", "command", "args", "restart", "backoff_limit", "env", "deadlines")},
    **{("resources", name): name for name in ("cpu", "memory", "gpu")},
    **{("roles", name, "replicas"): name for name in ("chief", "ps", "evaluator")},
    ("roles", "worker", "replicas"): "workers",
    ("outputs", "metrics"): "metric_tags",
}
"""Where in the job the inputs of a step stand."""
_CHOICES: Mapping[str, Sequence[str]] = {"scope": get_args(Scope), "on_end": get_args(OnEnd), "direction": DIRECTIONS}


def problems(interface: Interface, texts: Mapping[str, str]) -> list[Problem]:
    """Return everything that is wrong with a step's inputs.

    Args:
        interface: The step. Of one that is not ours only names, types and what is missing are checked.
        texts: The inputs by name, as Argo carries them. Empty text counts as left out.
    """
    names = [declared.name for declared in interface.inputs]
    result = [unknown(interface, name) for name in texts if name not in names]
    values: dict[str, Any] = {}
    for declared in interface.inputs:
        text = texts.get(declared.name, "")
        if not text:
            result += [_missing(declared)] if declared.required else []
            continue
        try:
            values[declared.name] = _value(declared, text)
        except BadValueError as error:
            result.append(error.problem)
            values[declared.name] = UNKNOWN
    return (
        [*result, *_component_problems(interface.name, values)]
        if interfaces().get(interface.name) == interface
        else result
    )


def unknown(interface: Interface, name: str) -> Problem:
    """Return the problem of an input that a step has not."""
    names = [declared.name for declared in interface.inputs]
    guess = nearest(name, names)
    fix = f"Write `{guess}`" if guess else "Correct or remove it"
    wrong = f"is not an input of {interface.name}; Argo drops it without a message"
    return Problem(path=(name,), wrong=wrong, allowed=", ".join(names), fix=fix)


def _missing(declared: Input) -> Problem:
    return Problem(path=(declared.name,), wrong="is missing", allowed=declared.description.rstrip("."), fix="Add it")


def _value(declared: Input, text: str) -> Any:
    """Return a value; UNKNOWN where references keep it from being read. BadValueError if it is of another type."""
    if REFERENCE in text:
        try:
            msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text if declared.type == "STRING" else UNKNOWN
    return declared.decode(text)


def _component_problems(name: str, values: _Values) -> Iterator[Problem]:
    for field, allowed in {**_CHOICES, "system": [AUTO, *registry.available()]}.items():
        value = values.get(field)
        if value is not None and REFERENCE not in value and value not in allowed:
            guess = nearest(value, allowed)
            fix = f"Write `{guess}`" if guess else "Correct or remove it"
            yield Problem(path=(field,), value=shown(value), wrong="is unknown", allowed=", ".join(allowed), fix=fix)
    run_id = values.get("run_id", UNKNOWN)
    if REFERENCE not in run_id and (reason := name_problem(run_id)):
        yield Problem(path=("run_id",), value=shown(run_id), wrong=reason, fix="Correct or remove it")
    if name in _RUN_JOBS:
        yield from (_at_input(problem, values) for problem in _job(values))


# --- the job


def _job(values: _Values) -> Iterator[Problem]:
    plain = plain_job(values)
    unclear = list(_references(plain, ()))
    if values.get("spec") == UNKNOWN:  # anything that is missing here may stand there
        problems = decode(Document(plain), TrainingJob)[1]
        yield from (
            problem for problem in problems if _exists(problem.path, plain) and not _overlaps(problem.path, unclear)
        )
        return
    try:
        job = spec.from_plain(plain, options=registry.options())
    except SpecError as error:
        yield from (problem for problem in error.problems if not _overlaps(problem.path, unclear))
        return
    system = values.get("system") or AUTO
    if not unclear and system == AUTO:  # whichever it is, it is one of these
        first, *rest = (registry.get(name).problems(job) for name in registry.on_kubernetes())
        yield from (problem for problem in first if all(problem in others for others in rest))
    elif not unclear and system in registry.available():
        yield from registry.get(system).problems(job)


def _references(value: Any, path: Path) -> Iterator[Path]:
    """Yield the paths of all values that hold references, and of mappings whose keys do."""
    match value:
        case str() if REFERENCE in value:
            yield path
        case Mapping():
            if any(REFERENCE in str(key) for key in value):
                yield path
            for key, item in value.items():
                yield from _references(item, (*path, key))
        case list():
            for i, item in enumerate(value):
                yield from _references(item, (*path, i))


def _overlaps(path: Path, others: Sequence[Path]) -> bool:
    """Tell whether a path is, holds or belongs to one of the others."""
    return any(path[: len(other)] == other[: len(path)] for other in others)


def _exists(path: Path, plain: Any) -> bool:
    """Tell whether a path leads to a value."""
    for part in path:
        match plain:
            case Mapping() if part in plain:
                plain = plain[part]
            case list() if isinstance(part, int) and part < len(plain):
                plain = plain[part]
            case _:
                return False
    return True


def _at_input(problem: Problem, values: _Values) -> Problem:
    """Return a problem of the job at the input in which its value was written."""
    if problem.path == ("roles",) and not problem.value and "spec" not in values:
        return msgspec.structs.replace(problem, fix="Set `workers`, `chief` or both")
    for field_path, name in _JOB_FIELDS.items():
        rest = problem.path[len(field_path) :]
        if problem.path[: len(field_path)] == field_path and name in values and _exists(rest[:1], values[name]):
            return msgspec.structs.replace(problem, path=(name, *rest))
    in_spec = _exists(problem.path, values.get("spec", {}))
    return msgspec.structs.replace(problem, path=("spec", *problem.path)) if in_spec else problem

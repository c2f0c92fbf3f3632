"""Problems of the inputs of a tfsteps step, as far as the inputs are constants.

A value with a reference (`{{...}}`) is not known before the Workflow runs: it is always accepted, and problems that
follow only from it are not reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from tfsteps import spec, typed_json
from tfsteps.engines import code_input
from tfsteps.engines.argo.interface import BadValueError, Input, Interface, interfaces
from tfsteps.engines.authoring import REFERENCE, overlaps, places
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.identity import name_problem
from tfsteps.spec import Problem, SpecError, TrainingJob
from tfsteps.spec.decode import Document, decode
from tfsteps.spec.problems import shown
from tfsteps.spec.spelling import nearest
from tfsteps.spec.step_inputs import JOB_FIELDS, TENSORBOARD_FIELDS, at_input, exists, plain_job, plain_tensorboard
from tfsteps.systems import registry
from tfsteps.systems.base import OnEnd, Scope

UNKNOWN = "{{}}"
"""Stands for a value that is not known."""

DIRECTIONS = ("at_least", "at_most")
AUTO = "auto"

_Values = Mapping[str, Any]
_RUN_JOBS = ("train", "launch")
_CHOICES: Mapping[str, Sequence[str]] = {"scope": get_args(Scope), "on_end": get_args(OnEnd), "direction": DIRECTIONS}


def input_problems(interface: Interface, texts: Mapping[str, str]) -> list[Problem]:
    """Return all problems of a step's inputs.

    Args:
        interface: The step. For a step that is not part of tfsteps, only names, types and missing inputs are checked.
        texts: The inputs by name, as Argo passes them. Empty text counts as left out.
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
    """Return the problem of an input that a step does not have."""
    names = [declared.name for declared in interface.inputs]
    guess = nearest(name, names)
    fix = f"Write `{guess}`" if guess else "Correct or remove it"
    wrong = f"is not an input of {interface.name}; Argo drops it without a message"
    return Problem(path=(name,), wrong=wrong, allowed=", ".join(names), fix=fix)


def _missing(declared: Input) -> Problem:
    return Problem(path=(declared.name,), wrong="is missing", allowed=declared.description.rstrip("."), fix="Add it")


def _value(declared: Input, text: str) -> Any:
    """Return a value; UNKNOWN if references prevent parsing it. BadValueError if it has another type."""
    if REFERENCE in text:
        try:
            typed_json.decode(text, Any)
        except NOT_READABLE:
            return text if declared.type == "STRING" else UNKNOWN
    return declared.decode(text)


def _component_problems(name: str, values: _Values) -> Iterator[Problem]:
    for field, allowed in {**_CHOICES, "system": [AUTO, *registry.plugins()]}.items():
        value = values.get(field)
        if value is not None and REFERENCE not in value and value not in allowed:
            guess = nearest(value, allowed)
            fix = f"Write `{guess}`" if guess else "Correct or remove it"
            yield Problem(path=(field,), value=shown(value), wrong="is unknown", allowed=", ".join(allowed), fix=fix)
    run_id = values.get("run_id", UNKNOWN)
    if REFERENCE not in run_id and (reason := name_problem(run_id)):
        yield Problem(path=("run_id",), value=shown(run_id), wrong=reason, fix="Correct or remove it")
    if name in _RUN_JOBS:
        yield from code_input.input_problems(values.get(code_input.CODE, ""))
        yield from (at_input(problem, values, JOB_FIELDS) for problem in _job(values))
    if name == "tensorboard":
        yield from (at_input(problem, values, TENSORBOARD_FIELDS) for problem in _tensorboard(values))


# --- the job


def _job(values: _Values) -> Iterator[Problem]:
    plain = plain_job(values)
    unclear = list(places(plain))
    if values.get("spec") == UNKNOWN:  # a missing field may be set there
        problems = decode(Document(plain), TrainingJob)[1]
        yield from (
            problem for problem in problems if exists(problem.path, plain) and not overlaps(problem.path, unclear)
        )
        return
    try:
        job = spec.from_plain(plain, options=registry.options())
    except SpecError as error:
        yield from (problem for problem in error.problems if not overlaps(problem.path, unclear))
        return
    system = values.get("system") or AUTO
    if not unclear and system == AUTO:  # one of these is chosen
        first, *rest = (registry.get(name).spec_problems(job) for name in registry.on_kubernetes())
        yield from (problem for problem in first if all(problem in others for others in rest))
    elif not unclear and system in registry.plugins():
        yield from registry.get(system).spec_problems(job)


def _tensorboard(values: _Values) -> Iterator[Problem]:
    plain = plain_tensorboard(values)
    unclear = list(places(plain))
    try:
        spec.from_plain(plain, options=registry.options())
    except SpecError as error:
        yield from (problem for problem in error.problems if not overlaps(problem.path, unclear))

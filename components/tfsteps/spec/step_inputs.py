"""What a step gives to its job: its inputs, as a plain job description for `spec.from_plain`, and its variables."""

import contextlib
import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps.spec import Options, Problem, SpecError, TrainingJob, dotted, from_plain
from tfsteps.spec.problems import Path, RefusedError
from tfsteps.spec.short_forms import expand_volume

DATA = "TFSTEPS_DATA"
"""The environment variable that passes the input `data` to every replica. A job file may not set it."""

# Kubeflow Pipelines 2.17 sets those of MLflow in the pods of steps (`backend/src/v2/common/plugins/mlflow`);
# OpenTelemetry's specification "Environment Variables as Context Propagation Carriers" names those of a trace.
STEP_VARIABLES = (
    "MLFLOW_RUN_ID",
    "MLFLOW_TRACKING_URI",
    "MLFLOW_EXPERIMENT_ID",
    "MLFLOW_WORKSPACE",
    "MLFLOW_TRACKING_AUTH",
    "TRACEPARENT",
    "TRACESTATE",
    "BAGGAGE",
)
"""Variables of a step that its replicas get: the MLflow run, and the trace that it is part of. No credentials, which
the job object would show."""

_OF_ONE_RUN = ("MLFLOW_RUN_ID", "TRACEPARENT", "TRACESTATE", "BAGGAGE")
_FIELDS = ("name", "image", "command", "args", "restart", "backoff_limit", "cluster")
_RESOURCES = ("cpu", "memory", "gpu")
_ROLES = {"chief": "chief", "workers": "worker", "ps": "ps", "evaluator": "evaluator"}

JOB_FIELDS: Mapping[Path, str] = {
    **{(name,): name for name in ("name", "image", "command", "args", "restart", "backoff_limit", "env", "deadlines")},
    ("cluster",): "cluster",
    **{("resources", name): name for name in ("cpu", "memory", "gpu")},
    **{("roles", role, *field): name for name, role in _ROLES.items() for field in ([], ["replicas"])},
    ("outputs", "metrics"): "metric_tags",
}
"""The input of a training step that sets a field of its job, by the path of the field."""
TENSORBOARD_FIELDS: Mapping[Path, str] = {
    **{("tensorboard", name): name for name in ("image", "idle", "keep_for")},
    ("output_dir",): "log_dir",
    ("env",): "env",
}
"""The same of a TensorBoard step."""


def plain_job(inputs: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the input `spec`, overridden by `base`, overridden by the inputs for single fields.

    The volumes of `spec` and `base` are combined by mount path, the tolerations by taint.

    Args:
        inputs: The inputs by name. A missing one, None and empty text have no effect.
        base: A partial job: the settings of this task that the engine knows.

    Raises:
        SpecError: `spec` and `base` have a list entry of the same name with different content.
    """
    values = {name: value for name, value in inputs.items() if value is not None and value != ""}
    under, base, conflicts = values.get("spec", {}), base or {}, list[Problem]()
    job: dict[str, Any] = merged(under, _with_lists_of(under, base, (), conflicts))
    if conflicts:
        raise SpecError(conflicts, "inputs")
    fields: dict[str, Any] = {name: values[name] for name in _FIELDS if name in values}
    fields["resources"] = {name: values[name] for name in _RESOURCES if name in values}
    fields["env"] = values.get("env", {})
    fields["deadlines"] = values.get("deadlines", {})
    fields["outputs"] = {"metrics": values.get("metric_tags", {})}
    fields["roles"] = {role: {"replicas": values[name]} for name, role in _ROLES.items() if values.get(name)}
    job = merged(job, _without_empty(fields))
    for name, role in _ROLES.items():
        if values.get(name) == 0 and isinstance(job.get("roles"), dict):
            job["roles"].pop(role, None)
    return job


def with_data(job: TrainingJob, data: str) -> TrainingJob:
    """Return a job whose replicas get the input `data`; empty = the same job."""
    return msgspec.structs.replace(job, env={**job.env, DATA: data}) if data else job


def with_step_variables(job: TrainingJob, environment: Mapping[str, str]) -> TrainingJob:
    """Return a job whose replicas get the variables of its step; those that the job sets stay as they are."""
    values = {name: environment[name] for name in STEP_VARIABLES if environment.get(name)}
    variables = {name: value.replace("$", "$$") for name, value in values.items()}  # `env` would expand `$(NAME)`
    return msgspec.structs.replace(job, env={**variables, **job.env}) if variables else job


def without_step_variables(job: TrainingJob) -> TrainingJob:
    """Return the job by which a launcher recognizes its own: another try of the step may have other values."""
    env = {name: value for name, value in job.env.items() if name not in STEP_VARIABLES}
    return msgspec.structs.replace(job, env=env)


def without_run_variables(job: TrainingJob) -> TrainingJob:
    """Return the job without the variables that mean one run, such as its trace: for a record to run it again from."""
    env = {name: value for name, value in job.env.items() if name not in _OF_ONE_RUN}
    return msgspec.structs.replace(job, env=env)


def plain_tensorboard(inputs: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a job with the access to the event files, and with the settings of TensorBoard.

    Args:
        inputs: The inputs by name: spec, env, log_dir, image, idle and keep_for. Others have no effect.
        base: A partial job: the settings of this task that the engine knows.

    Raises:
        SpecError: `spec` and `base` have a list entry of the same name with different content.
    """
    storage = plain_job({name: inputs.get(name) for name in ("spec", "env")}, base)
    job = {"name": "tensorboard", "roles": {"chief": {}}, **storage}  # a job must have both; they are not used
    settings = {name: inputs[name] for name in ("image", "idle", "keep_for") if inputs.get(name)}
    job["tensorboard"] = merged(job.get("tensorboard") or {}, settings)
    return job | ({"output_dir": inputs["log_dir"]} if inputs.get("log_dir") else {})


def tensorboard_job(
    inputs: Mapping[str, Any], base: Mapping[str, Any] | None = None, options: Options | None = None
) -> TrainingJob:
    """Return the job of `plain_tensorboard`. SpecError if it is not valid; its problems name the inputs."""
    try:
        return from_plain(plain_tensorboard(inputs, base), "inputs", options)
    except SpecError as error:
        raise SpecError(
            [at_input(problem, inputs, TENSORBOARD_FIELDS) for problem in error.problems], "inputs"
        ) from error


def at_input(problem: Problem, inputs: Mapping[str, Any], fields: Mapping[Path, str]) -> Problem:
    """Return a problem of the job with the path of the input that set the value.

    Args:
        problem: Of the job that a step's inputs describe.
        inputs: The inputs by name.
        fields: `JOB_FIELDS` or `TENSORBOARD_FIELDS`.
    """
    if not inputs.get("spec"):  # else a role may be added there
        if problem.path == ("roles",) and not problem.value:
            return msgspec.structs.replace(problem, fix="Set `workers`, `chief` or both")
        problem = msgspec.structs.replace(problem, fix=problem.fix.replace("Add `chief: {}`", "Set `chief`"))
    for field_path, name in fields.items():
        rest = problem.path[len(field_path) :]
        is_set = inputs.get(name) not in (None, "")  # as for `plain_job`
        if problem.path[: len(field_path)] == field_path and is_set and exists(rest[:1], inputs[name]):
            return msgspec.structs.replace(problem, path=(name, *rest))
    place = problem.path if len(problem.path) == 1 else problem.path[:-1]  # the last field may be missing there
    in_spec = exists(place, inputs.get("spec", {}))
    return msgspec.structs.replace(problem, path=("spec", *problem.path)) if in_spec else problem


def exists(path: Path, plain: Any) -> bool:
    """Tell whether there is a value at a path."""
    for part in path:
        match plain:
            case Mapping() if part in plain:
                plain = plain[part]
            case list() if isinstance(part, int) and part < len(plain):
                plain = plain[part]
            case _:
                return False
    return True


def merged(under: Any, over: Any) -> Any:
    """Return `under` overridden by `over`: mappings key by key, any other value as a whole. Neither is changed.

    Each variable in a mapping `env` is replaced as a whole: its source cannot be a Secret and a ConfigMap at once.
    """
    if not (isinstance(under, Mapping) and isinstance(over, Mapping)):
        return copy.deepcopy(over)
    result = {key: copy.deepcopy(value) for key, value in under.items()}
    for key, value in over.items():
        if key == "env" and isinstance(result.get(key), Mapping) and isinstance(value, Mapping):
            result[key] |= copy.deepcopy(dict(value))
        else:
            result[key] = merged(result.get(key, {}), value)
    return result


def _with_lists_of(under: Any, over: Any, path: tuple[str, ...], conflicts: list[Problem]) -> Any:
    """Return `over`, each of its lists with the entries of the same list in `under` before its own."""
    match under, over:
        case Mapping(), Mapping():
            return {key: _with_lists_of(under.get(key), value, (*path, key), conflicts) for key, value in over.items()}
        case list(), list() if under and over and under != over:
            return _joined(under, over, path, conflicts)
        case ((str() | Mapping()), list()) if over:
            conflicts.append(_conflict(path, ""))
            return over
        case _:
            return over


def _joined(under: list[Any], over: list[Any], path: tuple[str, ...], conflicts: list[Problem]) -> list[Any]:
    identity = _IDENTITIES.get(path[-1])
    if not identity:
        conflicts.append(_conflict(path, ""))
        return over
    if path[-1] == "volumes":
        under, over = [_fields(item) for item in under], [_fields(item) for item in over]
    result = list(under)
    for item in over:
        same = [other for other in under if identity(other) == identity(item)]
        if not same:
            result.append(item)
        elif _written(same[0]) != _written(item):
            conflicts.append(_conflict(path, identity(item)[0]))
    return result


def _fields(volume: Any) -> Any:
    """Return a volume with fields in place of a short form. A wrong one is left to the parser."""
    with contextlib.suppress(RefusedError):
        return expand_volume(volume)[0]
    return volume


def _mount(volume: Any) -> tuple[str, ...]:
    """Return the key of a volume: its mount path. Any other value is left to the parser."""
    if not isinstance(volume, Mapping):
        return (str(volume),)
    return ((str(volume.get("mount")).rstrip("/") or "/") + ("/{creator}" if volume.get("personal") else ""),)


def _taint(toleration: Any) -> tuple[str, ...]:
    """Return the key of a toleration: its taint. Any other value is left to the parser."""
    if not isinstance(toleration, Mapping):
        return (str(toleration),)
    filled = {"operator": "Equal", **toleration}
    return tuple(str(filled.get(field, "")) for field in ("key", "operator", "value", "effect"))


_IDENTITIES = {"volumes": _mount, "tolerations": _taint}


def _written(entry: Any) -> Any:
    """Return an entry without its defaults, to compare two."""
    if not isinstance(entry, Mapping):
        return entry
    defaults = {"operator": "Equal", "read_only": False, "in_memory": False}
    return {
        key: value.rstrip("/") if key == "mount" and isinstance(value, str) else value
        for key, value in entry.items()
        if not (key in defaults and value == defaults[key])
    }


def _conflict(path: tuple[str, ...], name: str) -> Problem:
    return Problem(
        path=("task_config", *path, *([name] if name else [])),
        wrong=f"is set on the task, and `spec` has a different value in {dotted(path)}",
        fix="Set it in one place, or to the same value in both",
    )


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Drop empty mappings. An empty list is a value and stays."""
    nested = {key: _without_empty(value) if key == "outputs" else value for key, value in fields.items()}
    return {key: value for key, value in nested.items() if value != {}}

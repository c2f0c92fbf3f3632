"""What a task of cube-studio gets, as inputs of the step: its command line, and its variables. Pure.

The command line of the job template has `--name value` for each field of the task's form. cube-studio passes text as it
is, a mapping as JSON, and leaves out what is empty.

Source: `make_container_template` in `myapp/views/view_pipeline.py` and `GLOBAL_ENV` in `install/docker/config.py` of
tencentmusic/cube-studio v2026.03.01.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.identity import Identity, label_value
from tfsteps.spec import Problem, SpecError, from_plain
from tfsteps.spec.problems import shown
from tfsteps.spec.step_inputs import merged

LABELS: Mapping[str, str] = {
    "run-id": "KFJ_RUN_ID",
    "pipeline-id": "KFJ_PIPELINE_ID",
    "pipeline-name": "KFJ_PIPELINE_NAME",
    "task-id": "KFJ_TASK_ID",
    "task-name": "KFJ_TASK_NAME",
    "run-username": "KFJ_RUNNER",
    "pipeline-username": "KFJ_CREATOR",
}
"""The labels by which cube-studio finds what belongs to a run or task, and the variables that have their values."""

SOURCE = "environment"
"""Where messages locate the variables."""

_NODE_SELECTOR = re.compile(r"[;\n\t]|,(?=[^,;=]+=)")  # up to 2022 a comma separated labels; `org=a,b` has two values
_NAME_LENGTH = 63
_Fields = dict[str, Any]


def _count(name: str) -> Callable[[str], _Fields]:
    """Return the reader of a number of replicas, which sets the input `name`."""

    def read(text: str) -> _Fields:
        if not (text.isascii() and text.isdecimal()):
            raise ValueError("is not a number of replicas")
        return {name: int(text)}

    return read


def _environment(text: str) -> _Fields:
    """Read variables: a JSON object, or lines `NAME=VALUE`, as everywhere in cube-studio."""
    if text.lstrip().startswith("{"):
        return {"env": _mapping(text)}
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any("=" not in line for line in lines):
        raise ValueError("has a line without `=`")
    return {"env": {name.strip(): value for name, _, value in (line.partition("=") for line in lines)}}


def _mapping(text: str) -> dict[str, Any]:
    try:
        return typed_json.decode(text, dict[str, Any])
    except NOT_READABLE:
        from tfsteps import yaml_reader  # noqa: PLC0415  most tasks have JSON, or none

        value = yaml_reader.document(text)
        if not isinstance(value, dict):
            raise ValueError("is not a mapping, as JSON or YAML") from None  # noqa: TRY004  the text is wrong
        return value


ARGUMENTS: Mapping[str, Callable[[str], _Fields]] = {
    "--image": lambda text: {"image": text},
    "--working_dir": lambda text: {"working_dir": text},
    "--command": lambda text: {"command": ["bash", "-c", text]},
    "--num_worker": _count("workers"),
    "--num_chief": _count("chief"),
    "--num_ps": _count("ps"),
    "--num_evaluator": _count("evaluator"),
    "--env": _environment,
    "--job": lambda text: {"spec": _mapping(text)},
    "--system": lambda text: {"system": text},
}
"""The arguments, each with what reads its text into inputs of the `train` step; `working_dir` is a field of the job."""


def parse(argv: Sequence[str]) -> tuple[_Fields, list[Problem]]:
    """Return the inputs of a command line, and its problems; an argument with an empty value counts as left out."""
    inputs, problems, seen = _Fields(), list[Problem](), set[str]()
    words = iter(argv)
    for name in words:
        text = next(words, None)
        wrong = _wrong(name, text, seen)
        seen.add(name)
        if wrong:
            problems.append(wrong)
        elif text and text.strip():
            try:
                inputs |= ARGUMENTS[name](text.strip())
            except ValueError as error:
                problems.append(
                    Problem(path=(name,), value=shown(text), wrong=str(error), fix="Correct it in the task")
                )
    return inputs, problems


def _wrong(name: str, text: str | None, seen: set[str]) -> Problem | None:
    if name not in ARGUMENTS:
        allowed = ", ".join(ARGUMENTS)
        return Problem(path=(name,), wrong="is not an argument of this template", allowed=allowed, fix="Remove it")
    if text is None:
        return Problem(path=(name,), wrong="has no value", fix="Give it one, or remove it")
    return Problem(path=(name,), wrong="is there twice", fix="Remove one of the two") if name in seen else None


def identity(environment: Mapping[str, str]) -> Identity:
    """Return run and task. SpecError if cube-studio has not set them: nothing else may stand for them."""
    missing = [name for name in ("KFJ_RUN_ID", "KFJ_TASK_NAME") if not environment.get(name)]
    if missing:
        fix = "Start this program by a task of cube-studio; elsewhere use `tfsteps run` or the step `train`"
        raise SpecError([Problem(path=(name,), wrong="is not set", fix=fix) for name in missing], SOURCE)
    run, task = environment["KFJ_RUN_ID"], environment["KFJ_TASK_NAME"]
    return Identity.checked(run=run, task=task, pipeline=environment.get("KFJ_PIPELINE_NAME", ""))


def labels(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of the job, its pods and its Services; a value that is no label is cut, with a hash of it."""
    return {label: label_value(text) for label, name in LABELS.items() if (text := environment.get(name))}


def job_fields(environment: Mapping[str, str]) -> _Fields:
    """Return the fields of a job file that the task's variables stand for.

    Volumes and resources are in the short forms of a job file, which cube-studio's notations are.

    Raises:
        SpecError: It has a problem for each variable with a value that is no such field.
    """
    fields: _Fields = {"name": _name(environment)}
    problems = list[Problem]()
    for variable, read in _READERS.items():
        text = environment.get(variable, "").strip()
        if text in ("", "None"):  # a field of the task that was never set
            continue
        fix = "Correct it in the task of cube-studio"
        try:
            part = read(text)
            from_plain({"name": "a", "image": "a", "roles": {"worker": {}}, **part}, SOURCE)
        except ValueError as error:
            problems.append(Problem(path=(variable,), value=shown(text), wrong=str(error), fix=fix))
        except SpecError as error:
            problems += [
                msgspec.structs.replace(problem, path=(variable,), value=shown(text), fix=fix)
                for problem in error.problems
            ]
        else:
            fields = merged(fields, part)
    if problems:
        raise SpecError(problems, SOURCE)
    gpu_resource = environment.get("GPU_RESOURCE_NAME")
    if gpu_resource and isinstance(gpus := fields.get("resources", {}).get("gpu"), int) and gpus > 0:
        fields["resources"]["gpu_resource"] = gpu_resource
    return fields


def _name(environment: Mapping[str, str]) -> str:
    """Return the stem of the job's name: pipeline and task."""
    names = (environment.get(name, "") for name in ("KFJ_PIPELINE_NAME", "KFJ_TASK_NAME"))
    clean = re.sub(r"[^a-z0-9]+", "-", "-".join(name for name in names if name).lower())
    return clean[:_NAME_LENGTH].strip("-") or "job"


def _gpus(text: str) -> _Fields:
    """Read the number alone: the node selector has the type in the brackets, GPU_RESOURCE_NAME means the vendor."""
    number = re.split(r"[(（]", text)[0].strip()  # noqa: RUF001  full-width, as Chinese keyboards type it
    return {"resources": {"gpu": int(number) if re.fullmatch("[0-9]{1,9}", number) else number}}


def _range(text: str) -> str:
    """Return a range from request to limit as a job file has it."""
    return re.sub(r"[-_]", "~", text)


def _memory(text: str) -> _Fields:
    return {"resources": {"memory": re.sub(r"(?<![\d.])([\d.]+)(?=\s*(~|$))", r"\1G", _range(text))}}


def _volumes(text: str) -> _Fields:
    entries = (entry.strip() for entry in re.split(r"[,;\n]", text))
    return {"volumes": [*dict.fromkeys(entry for entry in entries if entry)]}


def _node_selector(text: str) -> _Fields:
    """Read labels; one with several values becomes an affinity, as in cube-studio."""
    pairs = [entry.strip().partition("=") for entry in _NODE_SELECTOR.split(text) if entry.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("has a part without `=`")
    single = {key.strip(): value.strip() for key, _, value in pairs if "," not in value}
    several = [
        {"key": key.strip(), "operator": "In", "values": [part.strip() for part in value.split(",")]}
        for key, _, value in pairs
        if "," in value
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": several}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"node_selector": single, **({"pod": {"spec": {"affinity": affinity}}} if several else {})}


_READERS: Mapping[str, Callable[[str], _Fields]] = {
    "KFJ_TASK_RESOURCE_CPU": lambda text: {"resources": {"cpu": _range(text)}},
    "KFJ_TASK_RESOURCE_MEMORY": _memory,
    "KFJ_TASK_RESOURCE_GPU": _gpus,
    "KFJ_TASK_VOLUME_MOUNT": _volumes,
    "KFJ_TASK_NODE_SELECTOR": _node_selector,
    "KFJ_TASK_PROJECT_NAME": lambda text: {"annotations": {"project": text}},
    "HUBSECRET": lambda text: {"image_pull_secrets": [name.strip() for name in text.split(",") if name.strip()]},
    "IMAGE_PULL_POLICY": lambda text: {"image_pull_policy": text},
}

"""Checks tasks: inputs of steps of tfsteps by the launcher's parser, what a cache may hold, and opened artifacts."""

import ast
import functools
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from tfsteps import spec
from tfsteps.engines import code_input
from tfsteps.engines.authoring import places
from tfsteps.engines.kfp.driver_rules import is_finalizer
from tfsteps.engines.kfp.executor import whole_numbers
from tfsteps.engines.kfp.graph import INPUT, PROGRAM, UNKNOWN, Call, Node, parameters, short
from tfsteps.engines.kfp.task_config import partial_job, task_config
from tfsteps.spec import Problem, SpecError, TrainingJob, dotted, format_duration
from tfsteps.spec.decode import Document, decode
from tfsteps.spec.step_inputs import JOB_FIELDS, at_input, plain_job, plain_tensorboard, tensorboard_job
from tfsteps.systems import registry
from tfsteps.systems.base import OnEnd, Scope

_CHOICES: dict[str, tuple[str, ...]] = {
    "system": tuple(registry.plugins()),
    "scope": get_args(Scope),
    "on_end": get_args(OnEnd),
    "direction": ("at_least", "at_most"),
}
_NOT_TEXT = {"NUMBER_INTEGER", "NUMBER_DOUBLE", "BOOLEAN"}
_JOBS = {"train", "launch"}
_METRICS = {"job", "metrics", "artifact"}
# Placeholders for inputs that are only known at run time. There are two sets: a problem must occur with both.
_ANY_JOB = {"name": "a", "image": "a:1", "command": ["a"], "roles": {"worker": {}}}
_ANY = {
    "spec": _ANY_JOB,
    "name": "a",
    "image": "a:1",
    "command": ["a"],
    "cpu": "1",
    "memory": "1Gi",
    "gpu": 1,
    "chief": 1,
    "workers": 1,
    "ps": 1,
    "evaluator": 1,
    "restart": "never",
    "backoff_limit": 1,
}
_OTHER = {**_ANY, "chief": 0, "workers": 2, "ps": 0, "evaluator": 0, "gpu": 0, "restart": "on_failure"}
_RUN_SECONDS = 3600.0
"""How long the back end 2.17 keeps the Workflow of a run after its end, and with it what the run owns."""
_RETRIES = (
    "set_retry: the back end 2.17 repeats a step only if its pod is lost, not if it fails; `restart` and "
    "`backoff_limit` of the job restart its replicas on every version"
)
_UNREACHED = {
    "emptyDirMounts": "empty_dir_mount reaches the launcher, not the replicas; use resources.shared_memory for "
    "/dev/shm, or a volume with empty_dir, in `spec`",
    "genericEphemeralVolume": "add_ephemeral_volume reaches the launcher, not the replicas; use volumes in `spec`",
    "imagePullSecret": "set_image_pull_secrets reaches the launcher, not the replicas; use image_pull_secrets in "
    "`spec`",
    "securityContext": "set_security_context reaches the launcher, not the replicas; use pod.spec in `spec`",
}
FINGERPRINT = "FINGERPRINT"
"""The variable of a cached training step whose value changes with its program and its data."""
_FOLDERS = {("train", "model"), ("wait", "model")}
"""Outputs that name a folder of the job's volume in their metadata, and are not in the back end's store."""


def lint_messages(call: Call, settings: Node) -> Iterator[str]:
    """Yield a sentence for each constant that the step refuses, and each required one that is missing.

    Args:
        call: The task.
        settings: What kfp.kubernetes set on it, of the platform settings; empty for a run on this machine.
    """
    if not (step := call.step):
        return
    known, unknown = step_inputs(call)
    for name, allowed in _CHOICES.items():
        value = known.get(name)
        if value and value not in allowed and (name, value) != ("system", "auto"):
            yield f"{name}: {value!r} is unknown. Allowed: {', '.join(allowed)}. Write one of them."
    if step in _JOBS:
        problems = _certain(known, unknown, functools.partial(_of_job, settings=_config(call, settings)))
        yield from (str(at_input(problem, known, JOB_FIELDS)) for problem in problems)
        yield from _not_text(call, plain_job(known))
        yield from map(str, code_input.input_problems(known.get(code_input.CODE, "")))
    if step == "tensorboard":
        yield from map(str, _certain(known, unknown, _of_tensorboard))
        yield from _not_text(call, plain_tensorboard(known))
    if step == "evaluate_gate" and known.get("metric") == "":
        yield "metric: is empty. Name the metric to compare."
    inputs = call.task.get("inputs", {})
    if step == "evaluate_gate" and not _METRICS & {*inputs.get("parameters", {}), *inputs.get("artifacts", {})}:
        yield "metrics: are missing. Connect `metrics`, `artifact` or `job` with what a train or wait step wrote."


def warnings(call: Call, settings: Node) -> Iterator[str]:
    """Yield a sentence for each setting that does not reach the replicas, and for what a job lacks on a cluster.

    Args:
        call: The task.
        settings: What kfp.kubernetes set on it, of the platform settings.
    """
    if call.step and call.task.get("retryPolicy"):
        yield _RETRIES
    if call.step not in _JOBS:
        return
    yield from (sentence for name, sentence in _UNREACHED.items() if settings.get(name))
    known, unknown = step_inputs(call)
    if known.get("system", "auto") == "auto" and "system" not in unknown:
        problems = _certain(known, unknown, _of_cluster)
        yield from (f"on a cluster, {at_input(problem, known, JOB_FIELDS)}" for problem in problems)
    system = known.get("system", "auto")
    if system in registry.plugins():
        named = {variable["name"] for variable in task_config(call.container, settings)["env"]}
        yield from registry.plugin(system).missing_access(named)
    yield from map(str, _certain(known, unknown, _of_run))


def step_inputs(call: Call) -> tuple[dict[str, Any], list[str]]:
    """Return the constants that a step gets, defaults included, and the names of the inputs that only the run knows.

    Lists and mappings with placeholders in them are constants; the placeholders stay.
    """
    defaults = {
        name: declared["defaultValue"]
        for name, declared in parameters(call.component).items()
        if "defaultValue" in declared
    }
    inputs = {
        name: value.constant if value.template is None or isinstance(value.template, str) else value.template
        for name, value in call.inputs.items()
        if short(name) == name
    }
    values = {**defaults, **inputs}
    known = {name: whole_numbers(value) for name, value in values.items() if value is not UNKNOWN}
    return known, [name for name, value in values.items() if value is UNKNOWN]


def _certain(known: Mapping[str, Any], unknown: list[str], check: Any) -> list[Problem]:
    """Return the problems that occur with all values of what is unknown: inputs are left out, or either placeholder."""
    unclear = [*places(plain_job(known)), *places(plain_tensorboard(known))]
    probes = [{}, *({name: any_[name] for name in unknown if name in any_} for any_ in (_ANY, _OTHER))]
    fillings = ("1", "2") if unclear else ("",)
    checks = [check({**_filled(known, text), **probe}) for text in fillings for probe in (probes if unknown else [{}])]
    first, *others = [check for check in checks if check is not None] or [[]]
    return [
        problem
        for problem in first
        if all(problem in other for other in others) and not any(path == problem.path[: len(path)] for path in unclear)
    ]


def _filled(value: Any, text: str) -> Any:
    """Return a value with `text` in place of each placeholder."""
    match value:
        case str():
            return INPUT.sub(text, value)
        case Mapping():
            return {_filled(key, text): _filled(item, text) for key, item in value.items()}
        case list():
            return [_filled(item, text) for item in value]
        case _:
            return value


def _not_text(call: Call, plain: Mapping[str, Any]) -> Iterator[str]:
    """Find inputs that are put into a list or mapping where the job needs another type: they arrive as text."""
    unclear = list(places(plain))
    wrong = {problem.path: problem.wrong for problem in decode(Document(_filled(plain, "1")), TrainingJob)[1]}
    for path in unclear:
        value = plain
        for part in path:
            value = value[part]  # type: ignore[index]  # `places` has seen it
        match = INPUT.fullmatch(value) if isinstance(value, str) else None
        if match and path in wrong and call.inputs[match[1]].type in _NOT_TEXT:
            yield (
                f"{dotted(path)}: {short(match[1])!r} arrives as text within a list or mapping, and {wrong[path]} "
                "there; pass it as an input of its own, such as `workers`"
            )


def _config(call: Call, settings: Node) -> dict[str, Any]:
    """Return the settings of a task as part of its job; empty if a job description does not support one of them."""
    try:
        return partial_job(task_config(call.container, settings) if settings else {})
    except SpecError:
        return {}


def _job(inputs: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> TrainingJob:
    return spec.from_plain(plain_job(inputs, settings), "inputs", registry.options())


def _of_job(inputs: Mapping[str, Any], settings: Mapping[str, Any]) -> list[Problem]:
    """Return the problems that the launcher reports before it contacts the cluster."""
    try:
        job = _job(inputs, settings)
    except SpecError as error:
        return error.problems
    system = inputs.get("system", "auto")
    return registry.get(system).spec_problems(job) if system in registry.plugins() else []


def _of_run(inputs: Mapping[str, Any]) -> list[Problem] | None:
    """Return the problems of what is to outlive the Workflow of the run; None = the inputs make no job."""
    try:
        job = _job(inputs)
    except SpecError:
        return None
    owned = inputs.get("system", "auto") in ("auto", *registry.on_kubernetes())
    if not (owned and job.keep_for and job.keep_for > _RUN_SECONDS):
        return []
    wrong = (
        "is too long for the back end 2.17, which deletes the Workflow of a run, and its jobs, an hour after its end"
    )
    fix = "Write at most 1h, and keep event files and models on a volume"
    return [Problem(path=("keep_for",), value=format_duration(job.keep_for), wrong=wrong, fix=fix)]


def _of_tensorboard(inputs: Mapping[str, Any]) -> list[Problem]:
    """Return the problems that the tensorboard step reports before it contacts the cluster."""
    try:
        tensorboard_job(inputs, options=registry.options())
    except SpecError as error:
        return error.problems
    return []


def _of_cluster(inputs: Mapping[str, Any]) -> list[Problem] | None:
    """Return the problems that every job system on Kubernetes reports: `auto` selects one of them in a pod.

    None = the inputs make no job.
    """
    try:
        job = _job(inputs)
    except SpecError:
        return None  # no such job is made: `problems` reports them, or the run sets what is missing
    first, *others = [registry.get(name).spec_problems(job) for name in registry.on_kubernetes()]
    return [problem for problem in first if all(problem in other for other in others)]


def caching_messages(call: Call, known: dict[str, Any], unknown: list[str]) -> Iterator[str]:
    """Yield why a step of tfsteps must not be taken from the cache.

    Only `train` may be: its outputs are the whole result. What decides it must then be in its inputs, because the key
    of the cache has the inputs and the launcher's container, not the image of the replicas, their files or the data.

    Args:
        call: The task.
        known: The inputs of the step that are constant, with its defaults.
        unknown: The names of the others.
    """
    options = call.task.get("cachingOptions", {})
    if not options.get("enableCache") or not any(PROGRAM.fullmatch(word) for word in call.container.get("command", [])):
        return
    if call.step != "train":
        yield "a launcher taken from the cache runs no job; call set_caching_options(False)"
        return
    job = plain_job(known)
    lacks = {
        "no `cache_key`, which would replace the inputs": bool(options.get("cacheKey")),
        'run_id="", because each run has a new id': known.get("run_id") != "",
        "an image with a digest, name@sha256:...": not {"spec", "image"} & {*unknown} and not _pinned(job),
        f"the variable {FINGERPRINT} in `env`, of program and data": not {"spec", "env"} & {*unknown}
        and not (job.get("env") or {}).get(FINGERPRINT),
    }
    if missing := [what for what, is_missing in lacks.items() if is_missing]:
        yield (
            "a training step taken from the cache runs no job: to be taken only when nothing has changed, it needs "
            f"{'; '.join(missing)}. Add what is missing, or call set_caching_options(False)"
        )


def caching_warnings(call: Call) -> Iterator[str]:
    """Find finalizers of the author's own that may be taken from the cache; of ours that is a problem."""
    if call.task.get("cachingOptions", {}).get("enableCache") and is_finalizer(call.task) and not call.step:
        yield "a finalizer taken from the cache does nothing; call set_caching_options(False), unless that is meant"


def _pinned(job: dict[str, Any]) -> bool:
    """Return whether each role has an image, and all images have a digest or come from the run."""
    roles = job.get("roles") or {}
    images = [role["image"] for role in roles.values() if isinstance(role, dict) and role.get("image")]
    if not images or len(images) < len(roles):
        images.append(job.get("image", ""))
    return all("@sha256:" in str(image) or "{{$" in str(image) for image in images)


def artifact_messages(call: Call) -> Iterator[str]:
    """Yield a sentence for each such artifact whose `path` the task opens."""
    for name, written in call.artifacts.items():
        if written in _FOLDERS and _opens(call, name):
            yield (
                f"input {name!r}: nothing is at {name}.path on a cluster, because a model stays in the volume of its "
                f'job; open {name}.metadata["path"], which works here and there, and mount the volume in this task '
                "(kubernetes.mount_pvc)"
            )


def _opens(call: Call, name: str) -> bool:
    placeholder = f"$.inputs.artifacts['{name}'].path"
    words = [str(word) for word in (*call.container.get("command", []), *call.container.get("args", []))]
    return any(placeholder in word for word in words) or any(
        isinstance(node, ast.Attribute)
        and node.attr == "path"
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for function in _functions(words)
        for node in ast.walk(function)
    )


def _functions(words: list[str]) -> Iterator[ast.AST]:
    """Yield the function of a component whose source is among the words of its container."""
    if "--function_to_execute" not in words[:-1]:
        return
    function = words[words.index("--function_to_execute") + 1]
    for word in words:
        if f"def {function}(" in word:
            try:
                tree = ast.parse(word)
            except SyntaxError:  # a shell script, or of a newer Python
                continue
            yield from (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)

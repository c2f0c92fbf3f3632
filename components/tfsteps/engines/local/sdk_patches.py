"""Patches of kfp.local: tfsteps runs its tasks, it prints nothing, and five of its faults are corrected.

kfp.local selects a task handler by the exact type of the runner, and has none for containers as processes. Therefore
the handler for subprocesses is replaced during a run. Most of what is replaced is private: it is looked for by its
name, and `problem` says what this version of kfp does not have.
"""

import contextlib
import functools
import importlib
import importlib.util
import logging
import os
import pathlib
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import kfp
from kfp import local

from tfsteps.engines.kfp.executor import whole_numbers

_CURRENT = threading.local()  # `executor_input` of the task that this thread starts: its handler does not get it
_OURS = "tfsteps."  # prefix of the modules of steps of tfsteps
_GROUP = re.compile(r"(condition|condition-branches|exit-handler|for-loop)-\d+")  # groups that are not inner pipelines
_HANDLER = "subprocess_task_handler:SubprocessTaskHandler"
_STATUS = "status:Status"


def problem(pipeline: Any) -> str:
    """Return, in one sentence, why this version of kfp does not run a pipeline on this machine; empty if it does."""
    try:
        importlib.import_module("kfp.local.task_dispatcher")
    except ModuleNotFoundError as error:  # kfp 2.15 imports docker, and does not depend on it
        return (
            f"kfp {kfp.__version__} needs the package {error.name} to run a pipeline on this machine; install it "
            f"(`pip install {error.name}`), or kfp 2.17 or newer"
        )
    groups = _runs_groups()
    if lacking := [] if groups else list(_beyond_single_tasks(pipeline.pipeline_spec)):
        return (
            f"kfp {kfp.__version__} does not run {', '.join(lacking)} on this machine as a cluster does; install "
            "kfp 2.17 or newer, or run the pipeline on a cluster"
        )
    for path in (_HANDLER, _STATUS, *_replacements(groups=groups)):
        try:
            _found(path)
        except (ImportError, AttributeError):
            return (
                f"kfp {kfp.__version__} has no kfp.local.{path.replace(':', '.')}, which runs on this machine need; "
                "install kfp 2.17 (`pip install 'kfp>=2.17,<2.18'`), or run the pipeline on a cluster"
            )
    return ""


def _runs_groups() -> bool:
    """Return whether kfp.local runs conditions, loops, exit handlers and retries: it does from kfp 2.17 on."""
    try:
        return importlib.util.find_spec("kfp.local.orchestrator.task_executor") is not None
    except ModuleNotFoundError:  # kfp 2.15 has no orchestrator
        return False


def _beyond_single_tasks(spec: Any) -> Iterator[str]:
    """Yield what a pipeline has that kfp.local before 2.17 refuses half-way, passes over, or does in another order."""
    tasks, executors = spec.root.dag.tasks.values(), spec.deployment_spec["executors"].values()
    if any(component.HasField("dag") for component in spec.components.values()):
        yield "conditions, loops, exit handlers and inner pipelines"
    if any("container" in executor and "env" in executor["container"] for executor in executors):
        yield "environment variables of tasks"
    if any(task.retry_policy.max_retry_count for task in tasks):
        yield "retries"
    if any(task.trigger_policy.strategy for task in tasks):
        yield "tasks that ignore a failure"


def _found(path: str) -> tuple[Any, str, Any]:
    """Return the owner, the name and the value of `module:name` or `module:Class.name` of kfp.local.

    Raises:
        ImportError: There is no such module.
        AttributeError: The module has no such name.
    """
    module, _, names = path.partition(":")
    *classes, name = names.split(".")
    owner = functools.reduce(getattr, classes, importlib.import_module(f"kfp.local.{module}"))
    return owner, name, getattr(owner, name)


def _replacements(*, groups: bool) -> dict[str, Callable[[Any], Any]]:
    """Return, by path, what makes the replacement of each name out of its value."""
    names: dict[str, Callable[[Any], Any]] = {
        "logging_utils:local_logger_context": lambda _: contextlib.nullcontext,
        "logging_utils:indented_print": lambda _: contextlib.nullcontext,
        "logging_utils:print_horizontal_line": lambda _: lambda: None,
        "config:LocalExecutionConfig.instance": lambda _: None,
        "executor_input_utils:executor_input_to_dict": _with(_executor_input),
    }
    return (
        names
        if not groups
        else names
        | {
            "orchestrator.task_spec_utils:get_nested_pipeline_resource_name": _with(_folder),
            "orchestrator.task_spec_utils:create_parameter_loop_iteration_task_spec": _with(_loop_iteration),
            "orchestrator.enhanced_dag_orchestrator:ConditionEvaluator._resolve_pipeline_channel": _with(
                _channel_value
            ),
            "orchestrator.task_executor:_warn_local_only_noops": _with(_warn_of_no_effect),
        }
    )


def _with(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what makes, out of a function of kfp.local, ours that is given kfp.local's first."""
    return functools.partial(functools.partial, function)


@contextlib.contextmanager
def patched(
    run_step: Callable[[list[str], Mapping[str, str], Mapping[str, Any]], int],
    pipeline_root: pathlib.Path,
    say: Callable[[str], None],
) -> Iterator[None]:
    """Make kfp.local run its tasks with `run_step`, and print nothing. `problem` was asked before.

    Args:
        run_step: Takes the command of a task, its variables and its executor input; returns the exit code.
        pipeline_root: Folder for the outputs.
        say: Receives the warnings of kfp.local.
    """
    *_, status = _found(_STATUS)

    class Handler:
        """Replaces the handler that kfp.local creates for each task."""

        def __init__(self, full_command: list[str], env_vars: Mapping[str, str] | None = None, **_: Any) -> None:
            self._command, self._env, self._task = full_command, env_vars or {}, _CURRENT.executor_input

        def run(self) -> Any:
            return status.FAILURE if run_step(self._command, self._env, self._task) else status.SUCCESS

    handler: dict[str, Callable[[Any], Any]] = {_HANDLER: lambda _: Handler}
    with contextlib.ExitStack() as stack:
        for path, make in (_replacements(groups=_runs_groups()) | handler).items():
            owner, name, value = _found(path)
            stack.callback(setattr, owner, name, value)
            setattr(owner, name, make(value))
        warnings = _Warnings(say)
        logging.getLogger().addHandler(warnings)
        stack.callback(logging.getLogger().removeHandler, warnings)
        # kfp.local makes one itself, and never removes it
        workspace = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="kfp-workspace-", ignore_cleanup_errors=True)
        )
        runner = local.SubprocessRunner(use_venv=False)
        local.init(runner, pipeline_root=os.fspath(pipeline_root), workspace_root=workspace)
        yield


def _executor_input(to_dict: Callable[..., Any], executor_input: Any, component_spec: Any) -> Any:
    """Call kfp.local's function without the inputs that are not set: an unset integer raises a TypeError there.

    Numbers are written as the back end writes them: 3, not 3.0.
    """
    values = executor_input.inputs.parameter_values
    for name in [name for name, value in values.items() if value.WhichOneof("kind") in {None, "null_value"}]:
        del values[name]
    result = to_dict(executor_input, component_spec)
    parameters = result.get("inputs", {}).get("parameterValues", {})
    parameters |= {name: whole_numbers(value) for name, value in parameters.items()}
    _CURRENT.executor_input = result
    return result


def _folder(nested: Callable[[str, str], str], task_name: str, pipeline_resource_name: str) -> str:
    """Return a separate folder for each inner pipeline too; kfp.local does so only for loop iterations."""
    folder = nested(task_name, pipeline_resource_name)
    inner = folder == pipeline_resource_name and not _GROUP.fullmatch(task_name)
    return f"{folder}/{task_name}" if inner else folder


def _channel_value(resolve: Callable[..., Any], channel: str, store: Any) -> Any:
    """Resolve outputs of any name; kfp.local resolves only `Output`, and evaluates conditions on others as false."""
    task, _, key = channel.removeprefix("pipelinechannel--").rpartition("-")
    try:
        return store.get_task_output(task, key)
    except ValueError:  # there is no such task: the channel is an input
        return resolve(channel, store)


def _loop_iteration(make: Callable[..., Any], loop: Any, item: Any, name: str) -> Any:
    """Call kfp.local's function, then restore the loop's inputs from other tasks, which it replaces by the item."""
    iteration = make(loop, item, name)
    for parameter, source in loop.inputs.parameters.items():
        if source.HasField("task_output_parameter") and parameter != loop.parameter_iterator.item_input:
            iteration.inputs.parameters[parameter].CopyFrom(source)
    return iteration


def _warn_of_no_effect(warn: Callable[..., None], task_name: str, task_spec: Any, container: Any) -> None:
    """Call kfp.local's function, except for steps of tfsteps, whose resources are defaults that no user has set."""
    if not (container.command and container.command[-1].startswith(_OURS)):
        warn(task_name, task_spec, container)


class _Warnings(logging.Handler):
    """Prints kfp's warnings, such as a condition that it cannot evaluate, but not its errors, which repeat output."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING:
            self._say(f"warning: {record.getMessage()}")

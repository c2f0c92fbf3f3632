"""Patches of kfp.local: tfsteps runs its tasks, it prints nothing, and five of its faults are corrected.

kfp.local selects a task handler by the exact type of the runner, and has none for containers as processes. Therefore
the handler for subprocesses is replaced during a run.
"""

import contextlib
import logging
import os
import pathlib
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kfp import local
from kfp.local import config, executor_input_utils, logging_utils, subprocess_task_handler
from kfp.local.orchestrator import task_executor, task_spec_utils
from kfp.local.orchestrator.enhanced_dag_orchestrator import ConditionEvaluator
from kfp.local.status import Status as TaskStatus

from tfsteps.engines.kfp.executor import whole_numbers

_CURRENT = threading.local()  # `executor_input` of the task that this thread starts: its handler does not get it
_executor_input_to_dict: Any = executor_input_utils.executor_input_to_dict
_OURS = "tfsteps."  # prefix of the modules of steps of tfsteps
_GROUP = re.compile(r"(condition|condition-branches|exit-handler|for-loop)-\d+")  # groups that are not inner pipelines
_nested_folder: Any = task_spec_utils.get_nested_pipeline_resource_name
_iteration: Any = task_spec_utils.create_parameter_loop_iteration_task_spec
_warn_local_only_noops: Any = task_executor._warn_local_only_noops  # noqa: SLF001  see `_warn_of_no_effect`
_resolve_channel: Any = ConditionEvaluator._resolve_pipeline_channel  # noqa: SLF001  see `_channel_value`


@contextlib.contextmanager
def patched(
    run_step: Callable[[list[str], Mapping[str, str], Mapping[str, Any]], int],
    pipeline_root: pathlib.Path,
    say: Callable[[str], None],
) -> Iterator[None]:
    """Make kfp.local run its tasks with `run_step`, and print nothing.

    Args:
        run_step: Takes the command of a task, its variables and its executor input; returns the exit code.
        pipeline_root: Folder for the outputs.
        say: Receives the warnings of kfp.local.
    """

    class Handler:
        """Replaces the handler that kfp.local creates for each task."""

        def __init__(self, full_command: list[str], env_vars: Mapping[str, str] | None = None, **_: Any) -> None:
            self._command, self._env, self._task = full_command, env_vars or {}, _CURRENT.executor_input

        def run(self) -> TaskStatus:
            return TaskStatus.FAILURE if run_step(self._command, self._env, self._task) else TaskStatus.SUCCESS

    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (subprocess_task_handler, "SubprocessTaskHandler", Handler),
            (logging_utils, "local_logger_context", contextlib.nullcontext),
            (logging_utils, "indented_print", contextlib.nullcontext),
            (logging_utils, "print_horizontal_line", lambda: None),
            (config.LocalExecutionConfig, "instance", None),
            (executor_input_utils, "executor_input_to_dict", _executor_input),
            (task_spec_utils, "get_nested_pipeline_resource_name", _folder),
            (ConditionEvaluator, "_resolve_pipeline_channel", _channel_value),
            (task_spec_utils, "create_parameter_loop_iteration_task_spec", _loop_iteration),
            (task_executor, "_warn_local_only_noops", _warn_of_no_effect),
        ):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
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


def _executor_input(executor_input: Any, component_spec: Any) -> Any:
    """Call kfp.local's function without the inputs that are not set: an unset integer raises a TypeError there.

    Numbers are written as the back end writes them: 3, not 3.0.
    """
    values = executor_input.inputs.parameter_values
    for name in [name for name, value in values.items() if value.WhichOneof("kind") in {None, "null_value"}]:
        del values[name]
    result = _executor_input_to_dict(executor_input, component_spec)
    given = result.get("inputs", {}).get("parameterValues", {})
    given |= {name: whole_numbers(value) for name, value in given.items()}
    _CURRENT.executor_input = result
    return result


def _folder(task_name: str, pipeline_resource_name: str) -> str:
    """Return a separate folder for each inner pipeline too; kfp.local does so only for loop iterations."""
    folder: str = _nested_folder(task_name, pipeline_resource_name)
    inner = folder == pipeline_resource_name and not _GROUP.fullmatch(task_name)
    return f"{folder}/{task_name}" if inner else folder


def _channel_value(channel: str, store: Any) -> Any:
    """Resolve outputs of any name; kfp.local resolves only `Output`, and evaluates conditions on others as false."""
    task, _, key = channel.removeprefix("pipelinechannel--").rpartition("-")
    try:
        return store.get_task_output(task, key)
    except ValueError:  # there is no such task: the channel is an input
        return _resolve_channel(channel, store)


def _loop_iteration(loop: Any, item: Any, name: str) -> Any:
    """Call kfp.local's function, then restore the loop's inputs from other tasks, which it replaces by the item."""
    iteration = _iteration(loop, item, name)
    for parameter, source in loop.inputs.parameters.items():
        if source.HasField("task_output_parameter") and parameter != loop.parameter_iterator.item_input:
            iteration.inputs.parameters[parameter].CopyFrom(source)
    return iteration


def _warn_of_no_effect(task_name: str, task_spec: Any, container: Any) -> None:
    """Call kfp.local's function, except for steps of tfsteps, whose resources are defaults that no user has set."""
    if not (container.command and container.command[-1].startswith(_OURS)):
        _warn_local_only_noops(task_name, task_spec, container)


class _Warnings(logging.Handler):
    """Prints kfp's warnings, such as a condition that it cannot evaluate, but not its errors, which repeat output."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING:
            self._say(f"warning: {record.getMessage()}")

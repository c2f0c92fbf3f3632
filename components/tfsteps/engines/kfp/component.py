"""Container components that start launchers: never cached, with one argument, and with the run id filled in."""

import functools
from collections.abc import Callable
from typing import Any

from kfp import dsl
from kfp.dsl.container_component_class import ContainerComponent
from kfp.dsl.pipeline_task import TaskState

from tfsteps.engines.kfp import ARGUMENT
from tfsteps.image import IMAGE, LIMITS, REQUESTS

_PASSTHROUGHS = (
    (dsl.TaskConfigField.RESOURCES, False),
    (dsl.TaskConfigField.KUBERNETES_TOLERATIONS, False),
    (dsl.TaskConfigField.KUBERNETES_NODE_SELECTOR, False),
    (dsl.TaskConfigField.KUBERNETES_AFFINITY, False),
    (dsl.TaskConfigField.ENV, True),
    (dsl.TaskConfigField.KUBERNETES_VOLUMES, True),  # the launcher reads the event files
)


def container_spec(module: str) -> dsl.ContainerSpec:
    """Return the container that runs `python -m <module>` with all inputs and outputs in one argument.

    Any other argument breaks on some back end: Concat and embedded placeholders are not resolved, and an input that the
    caller leaves out fails the task.
    """
    return dsl.ContainerSpec(
        image=IMAGE,
        command=["python", "-m", module],
        args=[ARGUMENT, dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )


def with_packed_code(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs as `code_input.with_packed_code` does."""
    spec = inputs.get("spec")
    if not inputs.get("code") and not (isinstance(spec, dict) and "code" in spec):
        return inputs
    from tfsteps.engines import code_input  # noqa: PLC0415  most pipelines have no code, and import nothing for it

    return code_input.with_packed_code(inputs)


class LauncherComponent(ContainerComponent):  # type: ignore[misc]  # kfp has no types
    """A component whose tasks are never taken from the cache, and receive the id of their run."""

    def __init__(self, component_spec: Any, pipeline_func: Callable[..., Any], *, finalizer: bool = False) -> None:
        """Make it as kfp does; tasks of a `finalizer` may `ignore_upstream_failure`."""
        self._finalizer = finalizer
        super().__init__(component_spec, pipeline_func)

    def __call__(self, **inputs: Any) -> Any:
        """Return the task, in a pipeline; its result, outside of one (kfp.local). CodeError for a bad `code`."""
        inputs = with_packed_code(inputs)
        if "run_id" in self.component_spec.inputs:
            inputs.setdefault("run_id", dsl.PIPELINE_JOB_ID_PLACEHOLDER)
        if self._finalizer:  # `ignore_upstream_failure` ends with a KeyError at an input that was left out
            inputs = {
                name: declared.default
                for name, declared in self.component_spec.inputs.items()
                if declared.type != "PipelineTaskFinalStatus"  # the back end sets it
            } | inputs
        task = super().__call__(**inputs)
        if task.state is TaskState.FINAL:
            return task
        task.set_caching_options(False)
        return task if self._forwards_resources else _with_resources(task)

    @property
    def _forwards_resources(self) -> bool:
        """Whether the resources of a task are passed to its replicas: the driver then sets none on the launcher."""
        return bool(getattr(self.component_spec, "task_config_passthroughs", None))

    @property
    def pipeline_spec(self) -> Any:
        """The component compiled by itself, to be uploaded as a pipeline of one task."""
        spec = super().pipeline_spec
        for task in spec.root.dag.tasks.values():
            task.caching_options.enable_cache = False
        return spec


def _with_resources(task: Any) -> Any:
    """Set the resources of a step on a task's container; the author can override them."""
    task.set_cpu_request(REQUESTS["cpu"]).set_cpu_limit(LIMITS["cpu"])
    return task.set_memory_request(REQUESTS["memory"]).set_memory_limit(LIMITS["memory"])


def finalizer_component(function: Callable[..., Any]) -> LauncherComponent:
    """Create a component that cleans up, from a function that returns a container spec; each input needs a default."""
    component = launcher_component(function)
    return LauncherComponent(component.component_spec, component.pipeline_func, finalizer=True)


def launcher_component(
    function: Callable[..., Any] | None = None,
    *,
    inputs_of: LauncherComponent | None = None,
    outputs_of: LauncherComponent | None = None,
) -> Any:
    """Make a `LauncherComponent` of a function that returns a container spec: a decorator, with or without arguments.

    Where the component takes a `dsl.TaskConfig`, what authors set on its tasks goes to the job's replicas; variables
    and volumes go to the launcher too.

    Args:
        function: Its parameters are the inputs and outputs.
        inputs_of: A component whose inputs this one has too, before those of the function.
        outputs_of: A component whose outputs this one has too, before those of the function.
    """
    if function is None:
        return functools.partial(launcher_component, inputs_of=inputs_of, outputs_of=outputs_of)
    component = dsl.container_component(function)
    spec = component.component_spec
    spec.inputs = {**_declared(inputs_of, "inputs"), **(spec.inputs or {})} or None
    spec.outputs = {**_declared(outputs_of, "outputs"), **(spec.outputs or {})} or None
    if any(parameter.type == "TaskConfig" for parameter in (spec.inputs or {}).values()):
        # container_component takes no passthroughs, but the compiler reads them from here.
        spec.task_config_passthroughs = [
            dsl.TaskConfigPassthrough(field=field, apply_to_task=both) for field, both in _PASSTHROUGHS
        ]
    return LauncherComponent(spec, component.pipeline_func)


def _declared(component: LauncherComponent | None, what: str) -> dict[str, Any]:
    return getattr(component.component_spec, what) or {} if component else {}

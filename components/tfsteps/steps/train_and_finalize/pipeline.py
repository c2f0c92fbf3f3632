"""A `train` step followed by `cleanup`, as one component. It works in loops and conditions, and has outputs.

Within a pipeline, each call makes an inner pipeline that has exactly the inputs of the call, because the Kubeflow
Pipelines back end fails an inner pipeline if one of its optional inputs is left out. What the call puts into a list, a
mapping or text is an input of its own, because the back end fills in the constants of containers only.
"""

import copy
import inspect
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, get_args

from kfp import dsl
from kfp.compiler.compiler_utils import additional_input_name_for_pipeline_channel, recursive_replace_placeholders
from kfp.compiler.pipeline_spec_builder import to_protobuf_value
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.pipeline_channel import PipelineChannel, extract_pipeline_channels_from_any
from kfp.dsl.pipeline_context import Pipeline
from kfp.dsl.placeholders import InputValuePlaceholder
from kfp.dsl.structures import Implementation, InputSpec
from kfp.dsl.types.type_utils import get_parameter_type

from tfsteps.engines.kfp.component import LauncherComponent, with_packed_code
from tfsteps.steps.cleanup.component import cleanup
from tfsteps.steps.train.component import train


class _InnerPipeline(BaseComponent):  # type: ignore[misc]  # kfp has no types
    """A pipeline that declares only the inputs of its call."""

    def __call__(self, **inputs: Any) -> Any:
        """Return the task of a pipeline with these inputs; an input that is None is left out."""
        values = {name: value for name, value in with_packed_code(inputs).items() if value is not None}
        spec = copy.copy(self.component_spec)
        spec.inputs = {name: value for name, value in spec.inputs.items() if name in values}
        graph = copy.deepcopy(spec.implementation.graph)
        for name in self.component_spec.inputs.keys() - values.keys():
            del graph.root.input_definitions.parameters[name]
            for parameters, key in _uses(graph, name):
                del parameters[key]
        for name in [name for name, value in values.items() if not isinstance(value, PipelineChannel)]:
            if channels := extract_pipeline_channels_from_any(values[name]):
                inside = _moved_inside(graph, name, values.pop(name), channels)
                del spec.inputs[name]
                spec.inputs |= {key: InputSpec(type=channel.channel_type) for key, channel in inside.items()}
                values |= inside
        spec.implementation = Implementation(graph=graph)
        return BaseComponent.__call__(_InnerPipeline(spec), **values)

    def execute(self, **_: Any) -> None:
        """Do nothing; kfp requires this method."""


def _uses(graph: Any, name: str) -> list[tuple[Any, str]]:
    """Return where the tasks of a graph take its input `name`: the parameters of a task, and the key in them."""
    tasks = [task.inputs.parameters for task in graph.root.dag.tasks.values()]
    return [
        (parameters, key)
        for parameters in tasks
        for key in list(parameters)
        if parameters[key].component_input_parameter == name
    ]


def _moved_inside(graph: Any, name: str, constant: Any, channels: list[PipelineChannel]) -> dict[str, PipelineChannel]:
    """Put a constant with channels in it in place of a graph's input; return the inputs that the graph has instead."""
    inside = {additional_input_name_for_pipeline_channel(channel): channel for channel in channels}
    declared = graph.root.input_definitions.parameters
    del declared[name]
    for key, channel in inside.items():
        declared[key].parameter_type = get_parameter_type(channel.channel_type)
        placeholder = InputValuePlaceholder(key)._to_string()  # noqa: SLF001  kfp's compiler calls it for the same end
        constant = recursive_replace_placeholders(constant, channel.pattern, placeholder)
    for parameters, use in _uses(graph, name):
        parameters[use].runtime_value.constant.CopyFrom(to_protobuf_value(constant))
        for key in inside:
            parameters[key].component_input_parameter = key
    return inside


def _parameters(component: LauncherComponent, names: Collection[str]) -> list[inspect.Parameter]:
    declared = inspect.signature(component.pipeline_func).parameters.values()
    return [parameter for parameter in declared if parameter.name in names]


def _described(values: Mapping[str, Any]) -> str:
    return "\n".join(f"    {name}: {' '.join(value.description.split())}" for name, value in values.items())


_ONLY_OF_A_STEP = ("run_id", "task_config")
_INPUTS = {
    **{name: declared for name, declared in train.component_spec.inputs.items() if name not in _ONLY_OF_A_STEP},
    "on_end": cleanup.component_spec.inputs["on_end"],
}
_OUTPUTS = train.component_spec.outputs
Outputs = NamedTuple(  # type: ignore[misc]  # its fields are those of `train`
    "Outputs",
    [
        (output.name, getattr(output.annotation, "type", None) or get_args(output.annotation)[0])
        for output in _parameters(train, _OUTPUTS)
    ],
)


def _train_and_finalize(*values: Any) -> Any:
    inputs = dict(zip(_INPUTS, values, strict=True))
    on_end = inputs.pop("on_end")
    step = train(**inputs)
    cleanup(on_end=on_end, system=inputs["system"]).after(step).ignore_upstream_failure()
    return Outputs(**{name: step.outputs[name] for name in _OUTPUTS})


# kfp reads the signature and the docstring, and passes the values by position.
_train_and_finalize.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [*_parameters(train, _INPUTS), *_parameters(cleanup, ["on_end"])], return_annotation=Outputs
)
_train_and_finalize.__doc__ = f"""Run one distributed TensorFlow job, wait for its end, and clean up after it.

Inputs and outputs are those of `train`, without `run_id` and `task_config`: use `spec` to place the replicas.

Args:
{_described(_INPUTS)}

Returns:
{_described(_OUTPUTS)}
"""
# A pipeline function may be the first to import this module; kfp refuses to compile a pipeline within another one.
_outer, Pipeline._default_pipeline = Pipeline._default_pipeline, None  # noqa: SLF001
try:
    train_and_finalize = _InnerPipeline(dsl.pipeline(name="train-and-finalize")(_train_and_finalize).component_spec)
finally:
    Pipeline._default_pipeline = _outer  # noqa: SLF001

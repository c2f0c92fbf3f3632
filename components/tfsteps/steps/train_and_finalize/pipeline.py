"""A `train` step followed by `cleanup`, as one component. It works in loops and conditions, and has outputs.

Within a pipeline, each call makes an inner pipeline that has exactly the inputs of the call, because the Kubeflow
Pipelines back end fails an inner pipeline if one of its optional inputs is left out.
"""

import copy
import inspect
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, get_args

from kfp import dsl
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.structures import Implementation

from tfsteps.engines.kfp.component import LauncherComponent
from tfsteps.steps.cleanup.component import cleanup
from tfsteps.steps.train.component import train


class _InnerPipeline(BaseComponent):  # type: ignore[misc]  # kfp has no types
    """A pipeline that declares only the inputs of its call."""

    def __init__(self, pipeline: BaseComponent) -> None:
        super().__init__(pipeline.component_spec)

    def __call__(self, **inputs: Any) -> Any:
        """Return the task of a pipeline with these inputs; an input that is None is left out."""
        values = {name: value for name, value in inputs.items() if value is not None}
        pruned = copy.copy(self)
        pruned.component_spec = copy.copy(self.component_spec)
        pruned.component_spec.inputs = {
            name: value for name, value in self.component_spec.inputs.items() if name in values
        }
        graph = copy.deepcopy(self.component_spec.implementation.graph)
        for name in self.component_spec.inputs.keys() - values.keys():
            del graph.root.input_definitions.parameters[name]
            for task in graph.root.dag.tasks.values():
                parameters = task.inputs.parameters
                for key in [key for key in parameters if parameters[key].component_input_parameter == name]:
                    del parameters[key]
        pruned.component_spec.implementation = Implementation(graph=graph)
        return super(_InnerPipeline, pruned).__call__(**values)

    def execute(self, **_: Any) -> None:
        """Do nothing; kfp requires this method."""


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
train_and_finalize = _InnerPipeline(dsl.pipeline(name="train-and-finalize")(_train_and_finalize))

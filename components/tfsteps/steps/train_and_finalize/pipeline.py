"""A `train` step that is cleaned up behind, as one component: legal in loops and conditions, its outputs usable.

Within a pipeline, each call makes an inner pipeline that has the given inputs and no others: the back end fails one of
whose optional inputs any was left out.
"""

# kfp reads these signatures: they are many, and have kfp's own types, `X | None` not among them.
# ruff: noqa: PLR0917, UP045
# mypy: disable-error-code="valid-type, type-arg, misc, untyped-decorator"

import copy
from typing import Any, NamedTuple, Optional

from kfp import dsl
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.structures import Implementation

from tfsteps.steps.cleanup.component import cleanup
from tfsteps.steps.train.component import train


class Outputs(NamedTuple):
    """Those of `train`."""

    job: dict
    tensorboard_url: str
    failure: str
    fault: str
    model: dsl.Model
    metrics: dsl.Metrics
    logs: dsl.Artifact
    report: dsl.HTML


class _InnerPipeline(BaseComponent):
    """A pipeline whose tasks have the inputs that they were given, and no others."""

    def __init__(self, pipeline: BaseComponent) -> None:
        super().__init__(pipeline.component_spec)

    def __call__(self, **inputs: Any) -> Any:
        """Return the task of a pipeline with these inputs; None counts as left out."""
        given = {name: value for name, value in inputs.items() if value is not None}
        pruned = copy.copy(self)
        pruned.component_spec = copy.copy(self.component_spec)
        pruned.component_spec.inputs = {
            name: each for name, each in self.component_spec.inputs.items() if name in given
        }
        graph = copy.deepcopy(self.component_spec.implementation.graph)
        for name in self.component_spec.inputs.keys() - given.keys():
            del graph.root.input_definitions.parameters[name]
            for task in graph.root.dag.tasks.values():
                for key in [
                    key for key, each in task.inputs.parameters.items() if each.component_input_parameter == name
                ]:
                    del task.inputs.parameters[key]
        pruned.component_spec.implementation = Implementation(graph=graph)
        return super(_InnerPipeline, pruned).__call__(**given)

    def execute(self, **_: Any) -> None:
        """Do nothing: kfp asks this of its own components."""


@_InnerPipeline
@dsl.pipeline(name="train-and-finalize")
def train_and_finalize(
    spec: Optional[dict] = None,
    name: str = "",
    image: str = "",
    command: Optional[list] = None,
    args: Optional[list] = None,
    env: Optional[dict] = None,
    chief: Optional[int] = None,
    workers: Optional[int] = None,
    ps: Optional[int] = None,
    evaluator: Optional[int] = None,
    cpu: str = "",
    memory: str = "",
    gpu: Optional[int] = None,
    restart: str = "",
    backoff_limit: Optional[int] = None,
    deadlines: Optional[dict] = None,
    metric_tags: Optional[dict] = None,
    data: str = "",
    system: str = "auto",
    on_end: str = "",
) -> Outputs:
    """Run one distributed TensorFlow job, wait for its end, and remove what it left, however it ended.

    Inputs and outputs are those of `train`, but for what only a step has: to place the replicas, use `spec`.

    Args:
        spec: A whole job, in the words of the job file. Empty = the other inputs say everything.
        name: Stem of the job's name: 1 to 63 lower-case letters, digits and '-'.
        image: Container image of every role; local runs do not use it.
        command: Program and its first arguments. Empty = the image's entrypoint; local runs need one.
        args: Further arguments. An empty list takes away those of `spec`.
        env: Environment variables, added to those of `spec`.
        chief: Number of chiefs: 0 or 1. 0 takes away that of `spec`.
        workers: Number of workers. 0 takes away those of `spec`.
        ps: Number of parameter servers. 0 takes away those of `spec`.
        evaluator: Number of evaluators: 0 or 1. 0 takes away that of `spec`.
        cpu: Cores of each replica, such as 2 or 500m.
        memory: Memory of each replica, such as 4Gi.
        gpu: Whole GPUs of each replica.
        restart: Which ends of a replica are tried again: never, on_failure, always or exit_code.
        backoff_limit: Restarts of the whole job before it counts as failed.
        deadlines: Of queue, pending, running, no_progress and total: seconds, or text such as 30m.
        metric_tags: Name of each metric and the tag of its scalar in the event files, such as {"loss": "train/loss"}.
        data: Path or URI of the data, as the replicas see it; they find it in TFSTEPS_DATA.
        system: The job system. auto = the one that fits the cluster in a pod, else local.
        on_end: What becomes of the job when it has ended: keep, delete_pods or delete. Empty = its own policy.

    Returns:
        job: name, uid, system, namespace, state, started and ended (ISO 8601), the folders output, model and logs, and
            the metrics.
        tensorboard_url: Address of the TensorBoard; empty = none is up.
        failure: Why the job failed, in one sentence; empty = it did not.
        fault: platform = the same job may succeed next time; user = something must be changed first; empty = it did not
            fail.
        model: The model. Its true place, as the replicas see it, is metadata["path"].
        metrics: The metrics that `metric_tags` names and the event files hold.
        logs: Every line of every replica, with time stamps. The folder of the event files is metadata["path"].
        report: The run report, one self-contained page.
    """
    step = train(
        spec=spec,
        name=name,
        image=image,
        command=command,
        args=args,
        env=env,
        chief=chief,
        workers=workers,
        ps=ps,
        evaluator=evaluator,
        cpu=cpu,
        memory=memory,
        gpu=gpu,
        restart=restart,
        backoff_limit=backoff_limit,
        deadlines=deadlines,
        metric_tags=metric_tags,
        data=data,
        system=system,
    )
    cleanup(on_end=on_end, system=system).after(step).ignore_upstream_failure()
    return Outputs(**{field: step.outputs[field] for field in Outputs._fields})

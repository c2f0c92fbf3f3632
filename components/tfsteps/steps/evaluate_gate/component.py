"""The interface of the `evaluate_gate` component; the program is `launcher`."""

# kfp reads this signature: the function does not use its parameters, and kfp does not support `X | None`.
# ruff: noqa: ARG001, D417, PLR0917, UP045
# mypy: disable-error-code="valid-type, type-arg"

from typing import Optional

from kfp import dsl

from tfsteps.engines.kfp.component import container_spec, launcher_component


@launcher_component
def evaluate_gate(
    decision: dsl.OutputPath(str),
    value: dsl.OutputPath(float),
    metric: str,
    threshold: float,
    direction: str = "at_least",
    required: bool = False,
    metrics: Optional[dict] = None,
    job: Optional[dict] = None,
    artifact: dsl.Input[dsl.Metrics] = None,
) -> dsl.ContainerSpec:
    """Compare a metric with a threshold, to decide a branch: `dsl.If(gate.outputs["decision"] == "pass")`.

    A metric that is missing, or not a number, fails the step.

    Args:
        metric: Name of the metric.
        threshold: The limit. A value equal to it passes.
        direction: at_least = the metric must not be less than the threshold; at_most = not more.
        required: Fail the step, with exit code 10, if the metric does not pass.
        metrics: The metrics by name. They override those of `artifact` and `job`.
        job: The output `job` of a train or wait step, for its metrics.
        artifact: The output `metrics` of a train or wait step. Its metrics override those of `job`.

    Returns:
        decision: pass or fail.
        value: The metric's value.
    """
    return container_spec("tfsteps.steps.evaluate_gate.launcher")

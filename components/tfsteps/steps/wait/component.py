"""The `wait` component's interface; its work is done by `launcher`."""

# kfp reads this signature: its parameters look unused, are many, and have kfp's own types.
# ruff: noqa: ARG001, D417, PLR0917
# mypy: disable-error-code="valid-type, type-arg"

from kfp import dsl

from tfsteps.engines.kfp.component import container_spec, launcher_component


@launcher_component
def wait(
    job_: dsl.OutputPath(dict),
    tensorboard_url: dsl.OutputPath(str),
    failure: dsl.OutputPath(str),
    fault: dsl.OutputPath(str),
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    logs: dsl.Output[dsl.Artifact],
    report: dsl.Output[dsl.HTML],
    job: dict,
) -> dsl.ContainerSpec:
    """Follow the job of a `launch` step to its end. Green exactly when the job succeeded.

    It creates nothing: a job that is gone is lost. Tried again, it goes on with the same job, and shows its logs from
    the beginning. Its outputs are those of `train`.

    Args:
        job: The output `job` of the launch step. Its deadline `total` counts from its creation, the others from when
            this step first sees it.

    Returns:
        job_: name, uid, system, namespace, state, started and ended (ISO 8601), the folders output, model and logs,
            and the metrics.
        tensorboard_url: Address of the TensorBoard; empty = none is up.
        failure: Why the job failed, in one sentence; empty = it did not.
        fault: platform = the same job may succeed next time; user = something must be changed first; empty = it did not
            fail.
        model: The model. Its true place, as the replicas see it, is metadata["path"].
        metrics: The metrics that the job names and the event files hold.
        logs: Every line of every replica, with time stamps. The folder of the event files is metadata["path"].
        report: The run report, one self-contained page.
    """
    return container_spec("tfsteps.steps.wait.launcher")

"""The interface of the `wait` component; the program is `launcher`."""

# kfp reads this signature: the function does not use its parameters, and their types are kfp's.
# ruff: noqa: ARG001
# mypy: disable-error-code="valid-type, type-arg, untyped-decorator"

from kfp import dsl

from tfsteps.engines.kfp.component import container_spec, launcher_component
from tfsteps.steps.train.component import train


@launcher_component(outputs_of=train)
def wait(job: dict) -> dsl.ContainerSpec:
    """Follow the job of a `launch` step to its end. The step succeeds exactly when the job does.

    It creates nothing: the step fails if the job is gone. A retry of the step follows the same job, and prints its logs
    from the beginning. Its outputs are those of `train`.

    Args:
        job: The output `job` of the launch step. The deadline `total` counts from the job's creation, the others
            from the time when this step first sees the job.
    """
    return container_spec("tfsteps.steps.wait.launcher")

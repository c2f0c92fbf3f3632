"""The interface of the `launch` component; the program is `launcher`."""

# kfp reads this signature: the function does not use its parameters, and their types are kfp's.
# ruff: noqa: ARG001
# mypy: disable-error-code="valid-type, type-arg, untyped-decorator"

from kfp import dsl

from tfsteps.engines.kfp.component import container_spec, launcher_component
from tfsteps.steps.train.component import train


@launcher_component(inputs_of=train)
def launch(job: dsl.OutputPath(dict)) -> dsl.ContainerSpec:
    """Create one distributed TensorFlow job, or adopt it, and exit. A `wait` step follows the job to its end.

    Until a `wait` step follows the job, only the job system enforces its deadlines. The end of the run ends the job:
    locally at once; on a cluster when its Workflow is deleted, by a `cleanup` step, or by the janitor.

    Inputs are those of `train`.

    Returns:
        job: The fields that a `wait` step needs: name, uid, system, namespace, run, task, attempt, created, the folders
            output, model and logs, and spec, the whole job as JSON text.
    """
    return container_spec("tfsteps.steps.launch.launcher")

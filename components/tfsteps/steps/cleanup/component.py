"""The interface of the `cleanup` component; the program is `launcher`."""

# kfp reads this signature: the function does not use its parameters, and their types are kfp's.
# ruff: noqa: ARG001, D417, PLR0917
# mypy: disable-error-code="valid-type, type-arg"

from kfp import dsl

from tfsteps.engines.kfp.component import container_spec, finalizer_component


@finalizer_component
def cleanup(
    removed: dsl.OutputPath(list),
    scope: str = "siblings",
    on_end: str = "",
    system: str = "auto",
    cluster: str = "",
    run_id: str = "",
) -> dsl.ContainerSpec:
    """Clean up the jobs of the run. A finalizer: it also succeeds if there is nothing to remove.

    It deletes a job that has not ended, and applies the clean-up policy to a job that has. Use it as the exit task of a
    `dsl.ExitHandler`, or as `cleanup().after(step).ignore_upstream_failure()`.

    Args:
        scope: siblings = the jobs of the steps that this step waited for: all steps within its exit handler, or the
            steps named by `after`; without either, the steps beside it that have ended. run = all jobs of the run.
        on_end: What happens to jobs that have ended: keep, delete_pods or delete. Empty = the policy of each job.
        system: The job system. auto = in a pod the system that the cluster serves, else local.
        cluster: The cluster of the jobs, by its name in the platform settings; in-cluster = that of this step. Empty =
            that of this step, the one on which the settings put jobs that name none, and those that are named on the
            pods of the run's launchers.
        run_id: The run. A pipeline sets it; empty = taken from the output path.

    Returns:
        removed: Names of the jobs from which something was removed; empty = there was nothing to remove.
    """
    return container_spec("tfsteps.steps.cleanup.launcher")

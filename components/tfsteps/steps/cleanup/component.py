"""The `cleanup` component's interface; its work is done by `launcher`."""

# kfp reads this signature: its parameters look unused, and have kfp's own types.
# ruff: noqa: ARG001, D417
# mypy: disable-error-code="valid-type, type-arg"

from kfp import dsl

from tfsteps.engines.kfp.component import container_spec, finalizer_component


@finalizer_component
def cleanup(
    removed: dsl.OutputPath(list),
    scope: str = "siblings",
    on_end: str = "",
    system: str = "auto",
    run_id: str = "",
) -> dsl.ContainerSpec:
    """Remove what the jobs of the run left: a finalizer. Green also where nothing is left.

    A job that has not ended is deleted; to one that has, the clean-up policy is applied. Use it as the exit task of a
    `dsl.ExitHandler`, or as `cleanup().after(step).ignore_upstream_failure()`.

    Args:
        scope: siblings = the jobs of the steps that this one waited for: all within its exit handler, or those that it
            is `after`; elsewhere the steps beside it that have ended. run = all jobs of the run.
        on_end: What becomes of jobs that have ended: keep, delete_pods or delete. Empty = each job's own policy.
        system: The job system. auto = the one that fits the cluster in a pod, else local.
        run_id: The run. Filled in by itself in pipelines; empty = taken from the output path.

    Returns:
        removed: Names of the jobs that something was removed of; empty = there was nothing left.
    """
    return container_spec("tfsteps.steps.cleanup.launcher")

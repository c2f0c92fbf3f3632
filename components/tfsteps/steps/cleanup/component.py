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
    """Remove what the jobs of the run left. A finalizer: it succeeds also where nothing is left.

    It deletes a job that has not ended, and applies the clean-up policy to one that has. Use it as the exit task of a
    `dsl.ExitHandler`, or as `cleanup().after(step).ignore_upstream_failure()`.

    Args:
        scope: siblings = the jobs of the steps that this one waited for: all within its exit handler, or those that it
            is `after`; elsewhere the steps beside it that have ended. run = all jobs of the run.
        on_end: What happens to jobs that have ended: keep, delete_pods or delete. Empty = each job's own policy.
        system: The job system. auto = in a pod the one that the cluster serves, else local.
        run_id: The run. A pipeline fills it in; empty = taken from the output path.

    Returns:
        removed: Names of the jobs of which something was removed; empty = nothing was left.
    """
    return container_spec("tfsteps.steps.cleanup.launcher")

"""The interface of the `tensorboard` component; the program is `launcher`."""

# kfp reads this signature: the function does not use its parameters, and kfp does not support `X | None`.
# ruff: noqa: ARG001, D417, PLR0917, UP045
# mypy: disable-error-code="valid-type, type-arg, untyped-decorator"

from typing import Optional

from kfp import dsl

from tfsteps.engines.kfp.component import container_spec, launcher_component


@launcher_component
def tensorboard(
    tensorboard_url: dsl.OutputPath(str),
    tensorboard_link: dsl.Output[dsl.Markdown],
    log_dir: str = "",
    spec: Optional[dict] = None,
    env: Optional[dict] = None,
    image: str = "",
    idle: str = "",
    keep_for: str = "",
    run_id: str = "",
    task_config: dsl.TaskConfig = None,
) -> dsl.ContainerSpec:
    """Start a TensorBoard on the cluster, or find the run's, and wait until it serves.

    It goes on after the step and the pipeline. It exits by itself when nobody uses it, or when its data is old.
    Locally nothing is started: the step tells which command shows the curves.

    Args:
        log_dir: Folder or URI of the event files, as a pod with the volumes sees it; {run_id} is replaced. Empty = the
            output folder of the run, as `spec` describes it.
        spec: A whole job, such as the `spec` of the train step, or only its fields that give access to the event files:
            volumes, env, output_dir, service_account, image_pull_secrets, node_selector, tolerations.
        env: Environment variables with the credentials of an object store, added to those of `spec`.
        image: Image of TensorBoard, with the packages tfsteps and tensorboard. Empty = the image of tfsteps.
        idle: Seconds, or text such as 30m, without a request and without new event data, after which it exits. Empty =
            an hour.
        keep_for: Seconds, or text such as 2d, after the last event data, after which it exits. Empty = a day.
        run_id: The run. A pipeline sets it; empty = taken from the output path.
        task_config: Do not set. Kubeflow Pipelines fills it with the task's node selector, tolerations, env and
            volumes, which TensorBoard gets.

    Returns:
        tensorboard_url: Address of the TensorBoard; empty = locally.
        tensorboard_link: A page with the address as a link.
    """
    return container_spec("tfsteps.steps.tensorboard.launcher")

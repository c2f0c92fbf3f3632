"""The interface of the `notify` component; the program is `launcher`."""

# kfp reads this signature: the function does not use its parameters, and their types are kfp's.
# ruff: noqa: ARG001, B006, D417, PLR0917
# mypy: disable-error-code="valid-type, type-arg"

from kfp import dsl

from tfsteps.engines.kfp.component import container_spec, finalizer_component


@finalizer_component
def notify(
    delivered: dsl.OutputPath(bool),
    status: dsl.PipelineTaskFinalStatus,
    state: str = "",
    failures: str = "",
    events: list = ["failed", "cancelled"],
    format: str = "json",  # noqa: A002  the name of the field in a job file
    variable: str = "TFSTEPS_WEBHOOK_URL",
    run_id: str = "",
) -> dsl.ContainerSpec:
    """Send a notification of the end of a run to a webhook, also if its launchers were killed.

    Use it as the exit task of a `dsl.ExitHandler`, or as the exit handler of a Workflow. A receiver that does not
    answer within a minute, or refuses the notification, does not fail the step.

    Args:
        status: Kubeflow Pipelines fills it with the state of the steps within the exit handler.
        state: For Argo: its variable workflow.status.
        failures: For Argo: its variable workflow.failures, or the beginning of it. Empty = the notification does not
            list the steps that failed.
        events: When a notification is sent: succeeded, failed (also if a launcher was killed, or if whether the
            run failed is not known) and cancelled.
        format: json, or slack = a message as Slack's incoming webhooks take it.
        variable: Name of the environment variable of this step that contains the URL. It begins with
            TFSTEPS_WEBHOOK_. If it is not set, nothing is sent.
        run_id: The run. A pipeline sets it; empty = taken from the output path.

    Returns:
        delivered: Whether the receiver accepted a notification.
    """
    return container_spec("tfsteps.steps.notify.launcher")

"""A training that fails, and two notifications of it: of the job by its launcher, and of the run by the exit task.

`TFSTEPS_WEBHOOK_URL=http://... python pipelines/notifications.py` runs it on this machine, `--compile` writes
pipelines/compiled/notifications.yaml for a cluster, where the URL comes from the Secret `tfsteps-webhook`.
"""

from digits_kfp import job, main
from kfp import dsl, kubernetes

from tfsteps.kfp import notify, train


def with_url(task: dsl.PipelineTask) -> dsl.PipelineTask:
    """Give a step the URL of the webhook; replicas do not get it, and without the Secret nothing is sent."""
    variables = {"url": "TFSTEPS_WEBHOOK_URL"}
    return kubernetes.use_secret_as_env(task, secret_name="tfsteps-webhook", secret_key_to_env=variables, optional=True)  # noqa: S106


@dsl.pipeline(name="notifications", description="A training that fails, and two notifications of it.")
def notifications(
    settings: dict = {"DIVERGE_AT": "3"},  # noqa: B006  a constant: kfp compiles it
) -> None:
    """Train, and send a notification if that fails, even if the launcher is killed.

    Args:
        settings: Variables of the training program: DIVERGE_AT is the step at which it fails; {} = it does not.
    """
    with dsl.ExitHandler(with_url(notify(format="json"))):
        with_url(train(spec=job("notifications"), env=settings))


if __name__ == "__main__":
    main(notifications, __file__)

"""A training that fails, and two notifications of it: of the job by its launcher, and of the run by the exit handler.

`python pipelines/notifications_argo.py` prints the Workflow, `--compile` writes
pipelines/compiled/notifications.argo.yaml. The URL of the webhook comes from the Secret `tfsteps-webhook`; without it
nothing is sent.
"""

import yaml
from digits_argo import HERE, main, workflow
from hera.workflows import DAG

from tfsteps.argo import notify, train

INPUTS = {
    "settings": (
        {"DIVERGE_AT": "3"},
        "Variables of the training program: DIVERGE_AT is the step at which it fails; {} = it does not.",
    )
}
JOB = yaml.safe_load((HERE / "jobs" / "notifications.yaml").read_text("utf-8"))  # it needs no data, so no claim

with workflow("notifications", "A training that fails, and two notifications of it.", INPUTS) as notifications:
    # A command line is limited to 128 KiB: of hundreds of failed steps, the first ones are listed.
    notify.on_exit(notifications, state="{{workflow.status}}", failures="{{=sprig.trunc(30000, workflow.failures)}}")
    with DAG(name="main"):
        train("train", spec=JOB, env=notifications.get_parameter("settings"))

if __name__ == "__main__":
    main(notifications, __file__)

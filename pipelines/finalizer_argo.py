"""A training that fails, and the clean-up behind it, as the Workflow's exit handler: nothing of the job is left.

`python pipelines/finalizer_argo.py` prints the Workflow, `--compile` writes pipelines/compiled/finalizer.argo.yaml.
"""

import yaml
from digits_argo import HERE, main, workflow
from hera.workflows import DAG

from tfsteps.argo import cleanup, train

INPUTS = {
    "settings": (
        {"DIVERGE_AT": "3"},
        "Variables of the training program: DIVERGE_AT is the step at which it fails; {} = it does not.",
    )
}
JOB = yaml.safe_load((HERE / "jobs" / "finalizer.yaml").read_text("utf-8"))  # it needs no data, so no claim

with workflow("finalizer", "A training that fails, and the clean-up behind it.", INPUTS) as finalizer:
    cleanup.on_exit(finalizer, scope="run", on_end="delete")
    with DAG(name="main"):
        train("train", spec=JOB, env=finalizer.get_parameter("settings"))

if __name__ == "__main__":
    main(finalizer, __file__)

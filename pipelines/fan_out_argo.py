"""Tries hyper-parameters on Argo Workflows: one training for each setting, all side by side, and the best is exported.

`python pipelines/fan_out_argo.py` prints the Workflow, `--compile` writes pipelines/compiled/fan_out.argo.yaml.
"""

from digits_argo import CLAIM, best, export, job, main, prepare, train, workflow
from hera.workflows import DAG

INPUTS = {
    "trials": (
        [{"LEARNING_RATE": rate} for rate in ("0.03", "0.3", "1.0")],
        "The variables of each training: LEARNING_RATE, HIDDEN, EPOCHS.",
    ),
    "examples": (10_000, "Number of digits to train with."),
    "claim": (CLAIM, "The PersistentVolumeClaim for data and results."),
}
AT_ONCE = 8

with workflow("fan-out", "Digits: one training for each setting, the best one is exported.", INPUTS) as fan_out:
    parameter = fan_out.get_parameter
    with DAG(name="main", parallelism=AT_ONCE):
        drawn = prepare(examples=parameter("examples"), seed=1)
        trained = train(
            "train",
            spec=job("fan_out"),
            env="{{item}}",
            data=drawn.get_parameter("file"),
            with_param=parameter("trials"),
        )
        chosen = best(jobs=trained.get_parameter("job"), metric="accuracy")  # of a loop: a list of all
        exported = export(model=chosen.get_parameter("model"), accuracy=0.0)
        drawn >> trained >> chosen >> exported

if __name__ == "__main__":
    main(fan_out, __file__)

"""Two trainings at once in one Workflow, from one job description: they must not touch each other.

`python pipelines/side_by_side_argo.py` prints the Workflow, `--compile` writes
pipelines/compiled/side_by_side.argo.yaml.
"""

from digits_argo import CLAIM, compare, job, main, prepare, train, workflow
from hera.workflows import DAG

INPUTS = {
    "champion": ({"LEARNING_RATE": "1.0"}, "Variables of the one training: LEARNING_RATE, HIDDEN, EPOCHS."),
    "challenger": ({"LEARNING_RATE": "0.1"}, "Those of the other one."),
    "examples": (10_000, "Number of digits to train with."),
    "claim": (CLAIM, "The PersistentVolumeClaim for data and results."),
}

with workflow("side-by-side", "Digits: a champion and a challenger, trained at the same time.", INPUTS) as side_by_side:
    parameter = side_by_side.get_parameter
    with DAG(name="main"):
        drawn = prepare(examples=parameter("examples"), seed=1)
        one, other = (
            train(item, spec=job("side_by_side"), env=parameter(item), data=drawn.get_parameter("file"))
            for item in ("champion", "challenger")
        )
        compared = compare(first=one.get_parameter("job"), second=other.get_parameter("job"), metric="accuracy")
        drawn >> [one, other] >> compared

if __name__ == "__main__":
    main(side_by_side, __file__)

"""Retrains every night on Argo Workflows: check the data, train, and promote the model if it passes the gate.

`python pipelines/nightly_argo.py` prints the Workflow, `--compile` writes pipelines/compiled/nightly.argo.yaml;
nightly.schedule.yaml says when: `tfsteps submit pipelines/nightly_argo.py --schedule pipelines/nightly.schedule.yaml`
makes a CronWorkflow.
"""

from digits_argo import CLAIM, check, job, main, prepare, promote, train, workflow
from hera.workflows import DAG

from tfsteps.argo import evaluate_gate

INPUTS = {
    "accuracy": (0.9, "Share of unseen digits that the model must tell right to be promoted."),
    "examples": (10_000, "Number of digits that came in: they are drawn."),
    "least": (100, "Number of digits that there must be; with fewer the run fails before it trains."),
    "settings": ({}, 'Variables of the training program, such as {"EPOCHS": "3"}.'),
    "claim": (CLAIM, "The PersistentVolumeClaim for data and results."),
}

with workflow("nightly", "Digits: check the data, retrain, promote what passes the gate.", INPUTS) as nightly:
    parameter = nightly.get_parameter
    with DAG(name="main"):
        drawn = prepare(examples=parameter("examples"), seed=1)
        file = drawn.get_parameter("file")
        checked = check(file=file, least=parameter("least"))
        trained = train("train", spec=job("nightly"), env=parameter("settings"), data=file)
        done = trained.get_parameter("job")
        gate = evaluate_gate(job=done, metric="accuracy", threshold=parameter("accuracy"))
        promoted = promote(job=done, when=f"{gate.get_parameter('decision')} == pass")
        drawn >> checked >> trained >> gate >> promoted

if __name__ == "__main__":
    main(nightly, __file__)

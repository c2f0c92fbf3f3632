"""Retrains every night: check the data, train, and promote the model if it passes the gate; else the old one stays.

`python pipelines/nightly.py` runs it on this machine, `--compile` writes pipelines/compiled/nightly.yaml for a cluster;
nightly.schedule.yaml says when: `tfsteps submit pipelines/nightly.py --schedule pipelines/nightly.schedule.yaml`.
"""

from digits_kfp import CLAIM, check, job, main, mounted, prepare, promote
from kfp import dsl

from tfsteps.kfp import evaluate_gate, train


@dsl.pipeline(name="nightly", description="Digits: check the data, retrain, promote what passes the gate.")
def nightly(
    accuracy: float = 0.9,
    examples: int = 10_000,
    least: int = 100,
    settings: dict = {},  # noqa: B006  a constant: kfp compiles it
    claim: str = CLAIM,
) -> None:
    """Retrain a digit classifier.

    Args:
        accuracy: Share of unseen digits that the model must tell right to be promoted.
        examples: Number of digits that came in: they are drawn.
        least: Number of digits that there must be; with fewer the run fails before it trains.
        settings: Variables of the training program, such as {"EPOCHS": "3"}.
        claim: The PersistentVolumeClaim for data and results; local runs need none.
    """
    drawn = prepare(examples=examples, seed=1).set_caching_options(False)  # other data every night
    checked = check(file=drawn.outputs["file"], least=least)
    trained = train(spec=job("nightly"), env=settings, data=drawn.outputs["file"]).after(checked)
    gate = evaluate_gate(job=trained.outputs["job"], metric="accuracy", threshold=accuracy)
    with dsl.If(gate.outputs["decision"] == "pass", name="passes"):
        promoted = promote(job=trained.outputs["job"])
    for task in (drawn, checked, trained, promoted):
        mounted(task, claim)


if __name__ == "__main__":
    main(nightly, __file__)

"""Two trainings at once in one run, from one job description: they must not touch each other, and the better one wins.

`python pipelines/side_by_side.py` runs it on this machine, `--compile` writes pipelines/compiled/side_by_side.yaml for
a cluster.
"""

from digits_kfp import CLAIM, compare, job, main, mounted, prepare
from kfp import dsl

from tfsteps.kfp import train


@dsl.pipeline(name="side-by-side", description="Digits: a champion and a challenger, trained at the same time.")
def side_by_side(
    champion: dict = {"LEARNING_RATE": "1.0"},  # noqa: B006  constants: kfp compiles them
    challenger: dict = {"LEARNING_RATE": "0.1"},  # noqa: B006
    examples: int = 10_000,
    claim: str = CLAIM,
) -> None:
    """Train twice, and compare.

    Args:
        champion: Variables of the one training: LEARNING_RATE, HIDDEN, EPOCHS.
        challenger: Those of the other one.
        examples: Number of digits to train with.
        claim: The PersistentVolumeClaim for data and results; local runs need none.
    """
    drawn = prepare(examples=examples, seed=1).set_caching_options(False)  # `file` may be gone by now
    one, other = (
        train(spec=job("side_by_side"), env=settings, data=drawn.outputs["file"]) for settings in (champion, challenger)
    )
    compared = compare(first=one.outputs["job"], second=other.outputs["job"], metric="accuracy")
    for task in (drawn, one, other, compared):
        mounted(task, claim)


if __name__ == "__main__":
    main(side_by_side, __file__)

"""A training that fails, and the clean-up behind it: the run is red, and nothing of the job is left.

`python pipelines/finalizer.py` runs it on this machine, `--compile` writes pipelines/compiled/finalizer.yaml for a
cluster.
"""

from digits_kfp import job, main
from kfp import dsl

from tfsteps.kfp import train_and_finalize


@dsl.pipeline(name="finalizer", description="A training that fails, and the clean-up behind it.")
def finalizer(
    settings: dict = {"DIVERGE_AT": "3"},  # noqa: B006  a constant: kfp compiles it
) -> None:
    """Train, and clean up however that ends.

    Args:
        settings: Variables of the training program: DIVERGE_AT is the step at which it fails; {} = it does not.
    """
    train_and_finalize(spec=job("finalizer"), env=settings, on_end="delete")


if __name__ == "__main__":
    main(finalizer, __file__)

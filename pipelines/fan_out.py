"""Tries hyper-parameters: one training for each setting, all side by side in one run, and the best one is exported.

`python pipelines/fan_out.py` runs it on this machine, `--compile` writes pipelines/compiled/fan_out.yaml for a cluster.
"""

from digits_kfp import CLAIM, best, export, job, main, mounted, prepare
from kfp import dsl

from tfsteps.kfp import train

TRIALS = [{"LEARNING_RATE": rate} for rate in ("0.03", "0.3", "1.0")]  # kfp shuffles keys, if there are more
AT_ONCE = 8


@dsl.pipeline(name="fan-out", description="Digits: one training for each setting, the best one is exported.")
def fan_out(trials: list[dict] = TRIALS, examples: int = 10_000, claim: str = CLAIM) -> None:
    """Train once for each setting, and export the model that is right most often.

    Args:
        trials: The variables of each training: LEARNING_RATE, HIDDEN, EPOCHS.
        examples: Number of digits to train with.
        claim: The PersistentVolumeClaim for data and results; local runs need none.
    """
    drawn = prepare(examples=examples, seed=1).set_caching_options(False)  # `file` may be gone by now
    with dsl.ParallelFor(trials, parallelism=AT_ONCE) as trial:
        trained = train(spec=job("fan_out"), env=trial, data=drawn.outputs["file"])
    chosen = best(jobs=dsl.Collected(trained.outputs["job"]), metric="accuracy")
    exported = export(model=chosen.outputs["model"], accuracy=0.0)
    for task in (drawn, trained, chosen, exported):
        mounted(task, claim)


if __name__ == "__main__":
    main(fan_out, __file__)

"""Teaches digits to a small network: draw the data, train distributed, evaluate, export what is good enough.

`python pipelines/mnist.py` runs it on this machine, `--compile` writes pipelines/compiled/mnist.yaml for a cluster.
"""

# ruff: noqa: PLR0917  a pipeline is called by the names of its inputs

from digits_kfp import CLAIM, evaluate, export, job, main, mounted, prepare
from digits_steps import EXPORT
from kfp import dsl

from tfsteps.kfp import train


@dsl.pipeline(name="mnist", description="Digits: prepare, train distributed, evaluate, export what is good enough.")
def mnist(
    workers: int = 2,
    parameter_servers: int = 0,
    accuracy: float = 0.9,
    examples: int = 10_000,
    settings: dict = {},  # noqa: B006  a constant: kfp compiles it
    claim: str = CLAIM,
) -> None:
    """Train a digit classifier.

    Args:
        workers: Number of workers.
        parameter_servers: 0 = the chief and the workers train in step; else they share the variables on these.
        accuracy: Share of unseen digits that the model must tell right to be exported.
        examples: Number of digits to train with.
        settings: Variables of the training program, such as {"EPOCHS": "3"}.
        claim: The PersistentVolumeClaim for data and results; local runs need none.
    """
    drawn = prepare(examples=examples, seed=1).set_caching_options(False)  # `file` may be gone by now
    trained = train(spec=job("mnist"), workers=workers, ps=parameter_servers, env=settings, data=drawn.outputs["file"])
    judged = evaluate(model=trained.outputs["model"], file=drawn.outputs["file"], accuracy=accuracy)
    with dsl.If(judged.outputs["decision"] == EXPORT, name="good-enough"):
        exported = export(model=trained.outputs["model"], accuracy=judged.outputs["accuracy_seen"])
    for task in (drawn, trained, judged, exported):
        mounted(task, claim)


if __name__ == "__main__":
    main(mnist, __file__)

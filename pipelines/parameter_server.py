"""Trains with parameter servers: the chief hands steps to the workers, which share the variables on two servers.

`python pipelines/parameter_server.py` runs it on this machine, `--compile` writes
pipelines/compiled/parameter_server.yaml for a cluster.
"""

from digits_kfp import CLAIM, evaluate, job, main, mounted, prepare
from kfp import dsl

from tfsteps.kfp import train


@dsl.pipeline(name="parameter-server", description="Digits: train with parameter servers, evaluate.")
def parameter_server(
    workers: int = 2,
    servers: int = 2,
    examples: int = 10_000,
    settings: dict = {},  # noqa: B006  a constant: kfp compiles it
    claim: str = CLAIM,
) -> None:
    """Train a digit classifier with parameter servers.

    Args:
        workers: Number of workers; one that is lost is not waited for, the others take over its steps.
        servers: Number of parameter servers.
        examples: Number of digits to train with.
        settings: Variables of the training program, such as {"EPOCHS": "3"}.
        claim: The PersistentVolumeClaim for data and results; local runs need none.
    """
    drawn = prepare(examples=examples, seed=1).set_caching_options(False)  # `file` may be gone by now
    trained = train(spec=job("parameter_server"), workers=workers, ps=servers, env=settings, data=drawn.outputs["file"])
    judged = evaluate(model=trained.outputs["model"], file=drawn.outputs["file"], accuracy=0.9)
    for task in (drawn, trained, judged):
        mounted(task, claim)


if __name__ == "__main__":
    main(parameter_server, __file__)

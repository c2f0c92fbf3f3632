"""Teaches digits to a small network: draw the data, train distributed, evaluate, export what is good enough.

`python pipelines/mnist.py` runs it on this machine, `--compile` writes pipelines/compiled/mnist.yaml for a cluster.
"""

# kfp reads the signatures of components: their parameters look unused.
# ruff: noqa: ARG001, PLR0917

import argparse
import pathlib
import sys

from kfp import compiler, dsl
from mnist_steps import EXPORT

from tfsteps import __version__
from tfsteps.kfp import run_here, train

HERE = pathlib.Path(__file__).absolute().parent
COMPILED = HERE / "compiled" / "mnist.yaml"
# TensorFlow, tfsteps and the programs of this folder, which is where its commands start.
IMAGE = f"tfsteps/mnist:{__version__}"


def program(step: str) -> dsl.ContainerSpec:
    """Return the container of one of the steps around training.

    A container, and not a Python function that kfp ships: nothing is installed when the step starts, and it is the same
    on a cluster and here. Everything goes through one argument, for no other is safe on every back end.
    """
    return dsl.ContainerSpec(
        image=IMAGE,
        command=["python", "mnist_steps.py", step],
        args=["--executor_input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )


@dsl.container_component
def prepare(
    data: dsl.Output[dsl.Dataset], file: dsl.OutputPath(str), train: int, test: int, seed: int
) -> dsl.ContainerSpec:
    """Draw a data set of `train` and `test` digits; `file` is its path as the replicas see it."""
    return program("prepare")


@dsl.container_component
def evaluate(
    metrics: dsl.Output[dsl.Metrics],
    decision: dsl.OutputPath(str),
    accuracy_seen: dsl.OutputPath(float),
    model: dsl.Input[dsl.Model],
    file: str,
    accuracy: float,
) -> dsl.ContainerSpec:
    """Score the model on the test digits; `decision` is export if at least `accuracy` of them are right."""
    return program("evaluate")


@dsl.container_component
def export(exported: dsl.Output[dsl.Model], model: dsl.Input[dsl.Model], accuracy: float) -> dsl.ContainerSpec:
    """Copy the model into the pipeline's storage."""
    return program("export")


@dsl.pipeline(name="mnist", description="Digits: prepare, train distributed, evaluate, export what is good enough.")
def mnist(workers: int = 2, parameter_servers: int = 0, accuracy: float = 0.9) -> None:
    """Train a digit classifier.

    Args:
        workers: Number of workers.
        parameter_servers: 0 = the chief and the workers train in step; else they share the variables on these.
        accuracy: Share of unseen digits that the model must tell right to be exported.
    """
    drawn = prepare(train=10_000, test=2_000, seed=1).set_caching_options(False)  # `file` may be gone by now
    trained = train(
        name="mnist",
        image=IMAGE,
        command=["python", "mnist_train.py"],
        chief=1,
        workers=workers,
        ps=parameter_servers,
        evaluator=1,
        restart="on_failure",
        deadlines={"pending": "5m", "running": "30m"},
        metric_tags={"loss": "train/loss", "accuracy": "eval/accuracy"},
        data=drawn.outputs["file"],
    )
    judged = evaluate(model=trained.outputs["model"], file=drawn.outputs["file"], accuracy=accuracy)
    with dsl.If(judged.outputs["decision"] == EXPORT, name="good-enough"):
        export(model=trained.outputs["model"], accuracy=judged.outputs["accuracy_seen"])


def main() -> int:
    """Run the pipeline here, or compile it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--parameter-servers", type=int, default=0)
    parser.add_argument("--accuracy", type=float, default=0.9, help="what the model must reach to be exported")
    parser.add_argument("--tensorboard", action="store_true", help="keep TensorBoard up at the end, until Ctrl-C")
    parser.add_argument(
        "--compile",
        nargs="?",
        const=COMPILED,
        metavar="FILE",
        help=f"run nothing, write what a cluster takes; without FILE: {COMPILED.relative_to(HERE.parent)}",
    )
    options = parser.parse_args()
    if options.compile:
        compiler.Compiler().compile(mnist, str(options.compile))
        return 0
    inputs = {name: getattr(options, name) for name in ("workers", "parameter_servers", "accuracy")}
    return run_here(mnist, inputs, images=[IMAGE], cwd=HERE, keep_tensorboard=options.tensorboard)


if __name__ == "__main__":
    sys.exit(main())

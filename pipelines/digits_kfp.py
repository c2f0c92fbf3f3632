"""What the pipelines for Kubeflow share: the steps around training as components, the claim, the command line."""

# kfp reads the signatures of components: their parameters look unused.
# ruff: noqa: ARG001, PLR0917

import argparse
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import yaml
from kfp import compiler, dsl, kubernetes
from step_program import MOUNT

from tfsteps import __version__
from tfsteps.kfp import run_here

HERE = pathlib.Path(__file__).absolute().parent
# TensorFlow, tfsteps and the programs of this folder, which is where its commands start: Dockerfile.
IMAGE = f"tfsteps/digits:{__version__}"
CLAIM = "training"
"""Name of the PersistentVolumeClaim for data and results; a local run needs none."""


def job(name: str) -> dict[str, Any]:
    """Return the job description `jobs/<name>.yaml`, for the input `spec`."""
    return yaml.safe_load((HERE / "jobs" / f"{name}.yaml").read_text("utf-8"))


def mounted(task: dsl.PipelineTask, claim: Any) -> dsl.PipelineTask:
    """Mount the claim into a task, and into the replicas of the job that it launches."""
    return kubernetes.mount_pvc(task, pvc_name=claim, mount_path=MOUNT)


def program(step: str) -> dsl.ContainerSpec:
    """Return the container of one of the steps around training.

    A container, and not a Python function that kfp ships: nothing is installed when the step starts, and it is the same
    on a cluster and here. Everything goes through one argument, for no other is safe on every back end.
    """
    return dsl.ContainerSpec(
        image=IMAGE,
        command=["python", "digits_steps.py", step],
        args=["--executor_input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )


@dsl.container_component
def prepare(data: dsl.Output[dsl.Dataset], file: dsl.OutputPath(str), examples: int, seed: int) -> dsl.ContainerSpec:
    """Draw a data set of `examples` digits; `file` is its path as the replicas see it."""
    return program("prepare")


@dsl.container_component
def check(counts: dsl.OutputPath(dict), file: str, least: int) -> dsl.ContainerSpec:
    """Fail if the data are not fit to train with."""
    return program("check")


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


@dsl.container_component
def best(
    job: dsl.OutputPath(dict),
    settings: dsl.OutputPath(dict),
    model: dsl.Output[dsl.Model],
    jobs: list,
    metric: str,
) -> dsl.ContainerSpec:
    """Choose the training with the highest `metric`."""
    return program("best")


@dsl.container_component
def compare(winner: dsl.OutputPath(str), first: dict, second: dict, metric: str) -> dsl.ContainerSpec:
    """Say which of two trainings has the higher `metric`; fail if they shared anything."""
    return program("compare")


@dsl.container_component
def promote(folder: dsl.OutputPath(str), promoted: dsl.Output[dsl.Model], job: dict) -> dsl.ContainerSpec:
    """Put the job's model where a TensorFlow Serving looks for its newest version."""
    return program("promote")


# --- the command line


def main(pipeline: Any, program: str) -> None:
    """Run a pipeline on this machine, or compile it, as the command line says; ends the process."""
    compiled = HERE / "compiled" / f"{pathlib.Path(program).stem}.yaml"
    parser = argparse.ArgumentParser(description=pipeline.description)
    inputs = pipeline.component_spec.inputs
    for name, parameter in inputs.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=_reader(parameter.type), default=parameter.default, help=_help(parameter))
    parser.add_argument("--tensorboard", action="store_true", help="keep TensorBoard up at the end, until Ctrl-C")
    parser.add_argument(
        "--compile",
        nargs="?",
        const=compiled,
        metavar="FILE",
        help=f"run nothing, write what a cluster takes; without FILE: {compiled.relative_to(HERE.parent)}",
    )
    options = parser.parse_args()
    if options.compile:
        compiler.Compiler().compile(pipeline, str(options.compile))
        sys.exit()
    values = {name: getattr(options, name) for name in inputs}
    sys.exit(run_here(pipeline, values, images=[IMAGE], cwd=HERE, keep_tensorboard=options.tensorboard))


def _reader(kind: str) -> Callable[[str], Any]:
    return {"String": str, "Integer": int, "Float": float}.get(kind, _json)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON ({error}); write it as the default is") from error


def _help(parameter: Any) -> str:
    return f"{parameter.description or ''} [{json.dumps(parameter.default)}]".replace("%", "%%")

"""Steps of a pipeline as programs, whichever engine starts them: `python PROGRAM.py STEP ...`.

Kubeflow Pipelines and local runs append `--executor_input JSON`, Argo Workflows `--argo STEP NAME=VALUE ...`.
"""

import inspect
import os
import pathlib
import sys
from collections.abc import Callable, Sequence

from tfsteps.engines.argo import ARGUMENT
from tfsteps.engines.argo.interface import Input, Interface, Kind, Output
from tfsteps.engines.argo.task import FOLDER, ArgoTask
from tfsteps.engines.base import Artifact, StepTask
from tfsteps.engines.kfp.executor import ExecutorInput
from tfsteps.spec import SpecError

MOUNT = "/mnt/tfsteps"
"""Where the steps of a cluster's run, and the replicas of its jobs, mount the claim that they share."""

Step = Callable[..., str]
"""Takes the task, and its inputs by name; returns a sentence for the log. Its annotations are the inputs' types."""

_KINDS: dict[object, Kind] = {
    str: "STRING",
    int: "NUMBER_INTEGER",
    float: "NUMBER_DOUBLE",
    bool: "BOOLEAN",
    list: "LIST",
    dict: "STRUCT",
}
_ARTIFACTS = {"model": "system.Model", "metrics": "system.Metrics"}
_OUTPUTS: dict[str, tuple[str, ...]] = {}
_STEPS: dict[str, Step] = {}


def step(*outputs: str) -> Callable[[Step], Step]:
    """Make a function a step that writes these outputs; `model` and `metrics` are artifacts."""

    def register(function: Step) -> Step:
        _STEPS[function.__name__], _OUTPUTS[function.__name__] = function, outputs
        return function

    return register


def main() -> None:
    """Run the step that the command line names."""
    name, *arguments = sys.argv[1:]
    try:
        task = _task(_STEPS[name], arguments)
        print(_STEPS[name](task, **task.parameters), flush=True)
    except SpecError as error:
        sys.exit(str(error))


def interface(function: Step) -> Interface:
    """Return what goes into a step and comes out of it: Argo's values are text, and need the types."""
    _, *inputs = inspect.signature(function).parameters.values()
    missing = inspect.Parameter.empty
    return Interface(
        name=function.__name__,
        description=inspect.getdoc(function) or "",
        inputs=tuple(
            Input(
                name=item.name,
                type=_KINDS[item.annotation],
                required=item.default is missing,
                default=None if item.default is missing else item.default,
            )
            for item in inputs
        ),
        outputs=tuple(Output(name=item, type=_ARTIFACTS.get(item, "STRING")) for item in _OUTPUTS[function.__name__]),
    )


def shared(folder: str, artifact: Artifact | None) -> pathlib.Path:
    """Return where all steps and replicas find `folder`: on the claim; in a local run that of an output artifact."""
    if pathlib.Path(MOUNT).is_dir():
        return pathlib.Path(MOUNT, folder)
    if artifact is None:
        sys.exit(f"there is no {MOUNT}: mount a claim there")
    return artifact.path


def _task(function: Step, arguments: Sequence[str]) -> StepTask:
    if arguments[:1] != [ARGUMENT]:
        return ExecutorInput.from_arguments(arguments)
    pairs = (argument.partition("=") for argument in arguments[2:])
    return ArgoTask(interface(function), {name: text for name, _, text in pairs}, os.environ, FOLDER)

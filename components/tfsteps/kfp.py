"""What authors of Kubeflow pipelines import. What runs a pipeline here is loaded when it is asked for."""

import importlib
from typing import TYPE_CHECKING, Any

from tfsteps.cleanup.component import cleanup
from tfsteps.engines.kfp.component import LauncherComponent, container_spec, launcher_component
from tfsteps.engines.kfp.lint import problems, warnings
from tfsteps.evaluate_gate.component import evaluate_gate
from tfsteps.image import IMAGE
from tfsteps.launch.component import launch
from tfsteps.train.component import train
from tfsteps.train_and_finalize.pipeline import train_and_finalize
from tfsteps.wait.component import wait

if TYPE_CHECKING:
    from tfsteps.cli.pipeline import run_here
    from tfsteps.engines.kfp.local import PipelineError, Step, run

__all__ = [
    "IMAGE",
    "LauncherComponent",
    "PipelineError",
    "Step",
    "cleanup",
    "container_spec",
    "evaluate_gate",
    "launch",
    "launcher_component",
    "problems",
    "run",
    "run_here",
    "train",
    "train_and_finalize",
    "wait",
    "warnings",
]

_LATER = {
    "PipelineError": "tfsteps.engines.kfp.local",
    "Step": "tfsteps.engines.kfp.local",
    "run": "tfsteps.engines.kfp.local",
    "run_here": "tfsteps.cli.pipeline",
}


def __getattr__(name: str) -> Any:
    """Return what is loaded when it is asked for."""
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

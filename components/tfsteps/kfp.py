"""What authors of Kubeflow pipelines import. What is slow to load is loaded when it is asked for."""

import importlib
from typing import TYPE_CHECKING, Any

try:
    import kfp as _kfp  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "kfp":
        raise
    raise ModuleNotFoundError("tfsteps.kfp needs kfp: pip install 'tfsteps[kfp]'", name="kfp") from None

from tfsteps.engines.kfp.component import LauncherComponent, container_spec, launcher_component
from tfsteps.engines.kfp.lint import lint_messages, warnings
from tfsteps.image import IMAGE
from tfsteps.steps.cleanup.component import cleanup
from tfsteps.steps.evaluate_gate.component import evaluate_gate
from tfsteps.steps.launch.component import launch
from tfsteps.steps.notify.component import notify
from tfsteps.steps.tensorboard.component import tensorboard
from tfsteps.steps.train.component import train
from tfsteps.steps.wait.component import wait

if TYPE_CHECKING:
    from tfsteps.engines.local.run_here import run_here
    from tfsteps.engines.local.runner import PipelineError, run
    from tfsteps.runs.pipeline_record import StepRecord
    from tfsteps.steps.train_and_finalize.pipeline import train_and_finalize

__all__ = [
    "IMAGE",
    "LauncherComponent",
    "PipelineError",
    "StepRecord",
    "cleanup",
    "container_spec",
    "evaluate_gate",
    "launch",
    "launcher_component",
    "lint_messages",
    "notify",
    "run",
    "run_here",
    "tensorboard",
    "train",
    "train_and_finalize",
    "wait",
    "warnings",
]

_LATER = {
    "PipelineError": "tfsteps.engines.local.runner",
    "StepRecord": "tfsteps.runs.pipeline_record",
    "run": "tfsteps.engines.local.runner",
    "run_here": "tfsteps.engines.local.run_here",
    "train_and_finalize": "tfsteps.steps.train_and_finalize.pipeline",  # a pipeline: its compilation takes 0.1 s
}


def __getattr__(name: str) -> Any:
    """Return what is loaded when it is asked for."""
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""What authors of Kubeflow pipelines import."""

from tfsteps.cli.pipeline import run_here
from tfsteps.engines.kfp.component import LauncherComponent, container_spec, launcher_component
from tfsteps.engines.kfp.lint import problems
from tfsteps.engines.kfp.local import PipelineError, Step, run
from tfsteps.image import IMAGE
from tfsteps.train.component import train

__all__ = [
    "IMAGE",
    "LauncherComponent",
    "PipelineError",
    "Step",
    "container_spec",
    "launcher_component",
    "problems",
    "run",
    "run_here",
    "train",
]

"""What authors of Argo Workflows import; Hera writes the rest."""

try:
    import hera as _hera  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "hera":
        raise
    raise ModuleNotFoundError("tfsteps.argo needs hera: pip install 'tfsteps[argo]'", name="hera") from None

from tfsteps.engines.argo.lint import lint_messages, warnings
from tfsteps.engines.argo.step import ArgoStep, argo_step, workflow_template
from tfsteps.image import IMAGE

train = argo_step("train")
"""Run one distributed TensorFlow job and wait for its end."""

launch = argo_step("launch")
"""Create one distributed TensorFlow job, or adopt it, and exit."""

wait = argo_step("wait")
"""Follow the job of a `launch` step to its end."""

cleanup = argo_step("cleanup")
"""Remove what the jobs of the run left."""

evaluate_gate = argo_step("evaluate_gate")
"""Compare a metric with a threshold, to decide a branch."""

notify = argo_step("notify")
"""Send a notification of the end of a run to a webhook."""

tensorboard = argo_step("tensorboard")
"""Start a TensorBoard for a run, and wait until it serves."""

__all__ = [
    "IMAGE",
    "ArgoStep",
    "cleanup",
    "evaluate_gate",
    "launch",
    "lint_messages",
    "notify",
    "tensorboard",
    "train",
    "wait",
    "warnings",
    "workflow_template",
]

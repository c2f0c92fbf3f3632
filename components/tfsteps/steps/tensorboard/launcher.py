"""The program of the `tensorboard` component: starts a TensorBoard on the cluster, and waits until it serves."""

import time
from collections.abc import Sequence

from tfsteps.engines.base import StepTask
from tfsteps.engines.kfp.task_config import partial_job
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.printer import Printer
from tfsteps.runs.identity import Identity
from tfsteps.spec import Problem, SpecError, TrainingJob
from tfsteps.spec.step_inputs import tensorboard_job
from tfsteps.steps import job_step, program
from tfsteps.steps.job_step import SOURCE
from tfsteps.steps.program import StepResult
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.follow.tensorboard_ready import START_SECONDS, waits_for
from tfsteps.systems.kubernetes.tensorboard.from_job import request_for
from tfsteps.systems.kubernetes.tensorboard.request import NoStorageError, TensorBoardRequest
from tfsteps.systems.kubernetes.tensorboard.start import start

_POLL_SECONDS = 1.0


def main(argv: Sequence[str] | None = None) -> int:
    """Start the TensorBoard that `argv` describes and return the exit code; None = the arguments of this process."""
    return program.run(_start, argv, failed="TensorBoard could not be started")


def _start(task: StepTask) -> StepResult:
    inputs, identity = task.parameters, task.identity()
    job = tensorboard_job(inputs, partial_job(inputs.get("task_config")), registry.options())
    if access.in_cluster():
        url = _serve(job, identity, inputs.get("log_dir") or "")
        sentence = f"TensorBoard serves at {url}"
    else:
        url = job_step.tensorboard_url()
        sentence = f"TensorBoard of this pipeline: {url}" if url else "On this machine the step starts no TensorBoard: "
        sentence += "" if url else f"`tfsteps tensorboard {identity.run}` shows the curves."
    job_step.write_link(task, url, identity.run)
    task.write({"tensorboard_url": url}, {})
    return StepResult(sentence, ExitCode.SUCCEEDED)


def _serve(job: TrainingJob, identity: Identity, log_dir: str) -> str:
    """Start the TensorBoard, wait until its pod is ready, and return its address."""
    try:
        api = Api(access.find())
        request = request_for(job, identity, api.access.namespace, log_dir)
        url = start(api, request, job.deadlines.total)
    except access.AccessError as error:
        raise LaunchError(str(error), retryable=False) from error
    except ApiError as error:
        raise LaunchError(str(error), retryable=error.unavailable) from error
    except NoStorageError as error:
        field = ("log_dir",) if log_dir else ("spec", "output_dir")
        raise SpecError([Problem(path=field, wrong=f"cannot be served: {error}", fix="Correct it")], SOURCE) from error
    _await_ready(api, request)
    return url


def _await_ready(api: Api, request: TensorBoardRequest) -> None:
    """Wait until the pod is ready; print what it waits for. LaunchError if it does not become ready."""
    printer, began, printed = Printer(), time.monotonic(), ""
    while reason := waits_for(api, request.namespace, request.name):
        waited = time.monotonic() - began
        if waited > START_SECONDS:
            wrong = f"TensorBoard {request.namespace}/{request.name} did not start within {waited:.0f} s: {reason}"
            raise LaunchError(f"{wrong}; Kubernetes goes on trying", retryable=True)
        if reason != printed:
            printer.say(f"waiting for TensorBoard {request.namespace}/{request.name}: {reason}")
            printed = reason
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    program.leave(main())

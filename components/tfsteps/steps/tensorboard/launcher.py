"""The program of the `tensorboard` component: starts a TensorBoard on the cluster, and waits until it serves."""

from collections.abc import Sequence

from tfsteps.engines.base import StepTask
from tfsteps.kube import access
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.printer import Printer
from tfsteps.runs.identity import Identity
from tfsteps.spec import Problem, SpecError, TrainingJob
from tfsteps.spec.step_inputs import tensorboard_job
from tfsteps.steps import job_step, program
from tfsteps.steps.job_step import SOURCE
from tfsteps.steps.program import StepResult
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.tensorboard.request import NoStorageError
from tfsteps.text import streams


def main(argv: Sequence[str] | None = None) -> int:
    """Start the TensorBoard that `argv` describes and return the exit code; None = the arguments of this process."""
    return program.run(_start, argv, failed="TensorBoard could not be started", creates="TensorBoard")


def _start(task: StepTask) -> StepResult:
    inputs, identity = task.parameters, task.identity()
    job = tensorboard_job(inputs, task.pod_settings(), registry.options())
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
    """Start the TensorBoard, wait until it serves, and return its address."""
    from tfsteps.systems.kubernetes.follow import tensorboard  # noqa: PLC0415  only steps on a cluster need it

    try:
        return tensorboard.serve(job, identity, log_dir, Printer().say)
    except NoStorageError as error:
        field = ("log_dir",) if log_dir else ("spec", "output_dir")
        raise SpecError([Problem(path=field, wrong=f"cannot be served: {error}", fix="Correct it")], SOURCE) from error


if __name__ == "__main__":
    streams.flush_and_exit(main())

"""The program of the `launch` component: creates or adopts the job; a `wait` step follows it."""

import pathlib
from collections.abc import Sequence

from tfsteps.engines.base import StepTask
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.failure import exit_code
from tfsteps.launcher.lifecycle import begin
from tfsteps.launcher.signals import ignore_termination
from tfsteps.runs.status import Status
from tfsteps.steps import job_step, program
from tfsteps.steps.job_step import JobOutput, LaunchRequest
from tfsteps.steps.program import StepResult
from tfsteps.text import streams


def main(argv: Sequence[str] | None = None) -> int:
    """Launch the job that `argv` describes and return the exit code; None = the arguments of this process."""
    return program.run(_launch, argv, failed="The job could not be launched", creates="job")


def _launch(task: StepTask) -> StepResult:
    with job_step.label_pod_on_failure(task, "launch"):
        request = job_step.launch_request(task)
        printer = job_step.printer(request.job)
        status = _begun(request)
    ignore_termination()
    job_step.warn(printer, status.warnings)
    task.write({"job": JobOutput.of(status, request.job).plain()}, {})
    if status.state.terminal:
        return StepResult(f"{status.job or request.job.name} {status.state}: {status.message}", exit_code(status))
    return StepResult(f"{status.job} was launched.", ExitCode.SUCCEEDED)


def _begun(request: LaunchRequest) -> Status:
    base_dir = pathlib.Path.cwd()
    if request.system.outlives_launcher:
        return begin(request.job, request.identity, request.system, base_dir=base_dir)
    from tfsteps.launcher import background  # noqa: PLC0415  pods start faster without it

    url = job_step.tensorboard_url()
    return background.start(request.job, request.identity, request.system, base_dir=base_dir, tensorboard_url=url)


if __name__ == "__main__":
    streams.flush_and_exit(main())

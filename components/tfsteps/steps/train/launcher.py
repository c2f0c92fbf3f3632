"""The program of the `train` component: launches the job and waits for its end."""

import pathlib
from collections.abc import Callable, Sequence

from tfsteps.engines.base import StepTask
from tfsteps.engines.registry import step_task
from tfsteps.launcher.lifecycle import launch
from tfsteps.launcher.signals import ignore_termination
from tfsteps.steps import job_step, program
from tfsteps.steps.program import StepResult
from tfsteps.text import streams


def main(argv: Sequence[str] | None = None, read: Callable[[Sequence[str]], StepTask] = step_task) -> int:
    """Run the job that `argv` describes to its end and return the exit code; None = the arguments of this process.

    `read` returns the task of a command line.
    """
    return program.run(_train, argv, failed="The job could not be launched", creates="job", read=read)


def _train(task: StepTask) -> StepResult:
    with job_step.label_pod_on_failure(task, "train"):
        request = job_step.launch_request(task)
        job, system = request.job, request.system
        printer = job_step.printer(job)
        known = system.warnings(job)
        job_step.warn(printer, known)
        base_dir, url = pathlib.Path.cwd(), job_step.tensorboard_url()
        status = launch(
            job,
            request.identity,
            system,
            base_dir=base_dir,
            observers=[printer],
            tensorboard_url=url,
            warnings=known,
        )
    ignore_termination()
    job_step.warn(printer, status.warnings, known)
    return job_step.end(task, job, system, status)


if __name__ == "__main__":
    streams.flush_and_exit(main())

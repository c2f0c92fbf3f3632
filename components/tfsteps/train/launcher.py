"""What the `train` component runs: launches the job and waits for its end."""

import pathlib
from collections.abc import Sequence

from tfsteps import job_task, program
from tfsteps.engines.task import Task
from tfsteps.lifecycle import launch
from tfsteps.program import Ending
from tfsteps.stopping import ignore_termination


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job that `argv` describes to its end and return the exit code; None = the process's own arguments."""
    return program.run(_train, argv, failed="The job could not be launched")


def _train(task: Task) -> Ending:
    wanted = job_task.wanted(task)
    job, system = wanted.job, wanted.system
    printer = job_task.printer(job)
    known = system.warnings(job)
    job_task.warn(printer, known)
    here, url = pathlib.Path.cwd(), job_task.tensorboard_url()
    status = launch(job, wanted.identity, system, here=here, observers=[printer], tensorboard_url=url)
    ignore_termination()
    job_task.warn(printer, status.warnings, known)
    return job_task.end(task, job, system, status)


if __name__ == "__main__":
    program.leave(main())

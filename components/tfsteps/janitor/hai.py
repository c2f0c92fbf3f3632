"""One pass over the user's tasks on HAI Platform: abandoned tasks are stopped."""

import time
from collections.abc import Callable

from tfsteps.engines.argo.abandoned import Workflows
from tfsteps.janitor.rules import overdue
from tfsteps.janitor.sweep import Count
from tfsteps.kube.errors import ApiError
from tfsteps.systems.hai import schema
from tfsteps.systems.hai.client import Client, Task
from tfsteps.systems.hai.runs import HaiRun, HaiRuns, stop_task


class HaiSweep:
    """One pass. HAI keeps records of ended tasks and removes their ranks itself, so only unfinished ones are due."""

    def __init__(
        self, client: Client, workflows: Workflows, namespace: str, say: Callable[[str], object], *, dry_run: bool
    ) -> None:
        """Get ready.

        Args:
            client: The platform.
            workflows: The cluster's Workflows, of `namespace` or of all.
            namespace: Only tasks of its Workflows are judged by their Workflow; empty = those of every namespace.
            say: Receives a line for each action, and for each failure.
            dry_run: Only report what is due.
        """
        self._runs, self._workflows, self._namespace = HaiRuns(client), workflows, namespace
        self._say, self._dry_run = say, dry_run
        self.count = Count(what="tasks on HAI", act="stops")

    def run(self) -> Count:
        """Stop all tasks that are due, and report each in a line; failures are reported, and left to the next pass."""
        try:
            jobs = self._runs.jobs()
        except ApiError as error:
            self._failed("tasks on HAI cannot be listed", error)
            return self.count
        self.count.served = 1
        for job in jobs:
            if not job.status.state.terminal:
                self._look(job)
        return self.count

    def _look(self, job: HaiRun) -> None:
        """Stop a task if that is due, and still is when it is looked at again: the list may be old."""
        self.count.jobs += 1
        try:
            if self._due(job) and (why := self._due(now := self._runs.refreshed(job))):
                self.count.due += 1
                if not self._dry_run:
                    stop_task(self._runs.client, now.task)
                done = "would be stopped" if self._dry_run else "stopped"
                self._say(f"task {job.status.job} on HAI {done}: it is {now.status.state}, and {why}")
        except ApiError as error:
            self._failed(f"task {job.status.job} on HAI", error)

    def _due(self, job: HaiRun) -> str:
        """Return why a task is to be stopped, as the end of a sentence; empty = it is not."""
        if job.status.state.terminal:
            return ""
        late = overdue(schema.deadline(job.task), job.status.created, time.time())
        return late or self._left(job.task)

    def _left(self, task: Task) -> str:
        """Return why no launcher of its Workflow will come for a task; empty = one may, or it is not ours to see."""
        namespace, name, uid = schema.workflow(task)
        if not uid or self._namespace not in ("", namespace):
            return ""
        try:
            return self._workflows.why_step_ended(namespace, name, uid, schema.launcher(task))
        except ValueError as error:
            self._failed(f"the Workflow of task {task['nb_name']} on HAI", error)
            return ""

    def _failed(self, what: str, error: Exception) -> None:
        self.count.failures += 1
        self._say(f"{what}: {error}")

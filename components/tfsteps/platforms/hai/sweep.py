"""One pass over the user's tasks on HAI Platform: abandoned tasks are stopped."""

import functools
import math
import os
from collections.abc import Callable

from tfsteps.engines.engine_objects import AbandonedRuns
from tfsteps.engines.registry import EngineRuns
from tfsteps.janitor.rules import Due, Reason, overdue
from tfsteps.janitor.sweep import Count
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.platforms.hai import access, schema
from tfsteps.platforms.hai.client import Client, Task
from tfsteps.platforms.hai.runs import HaiRun, refreshed, stop_task, unfinished_tasks

_PATIENCE_SECONDS = 30.0  # the next pass tries again


def sweep_of(api: Api, namespace: str, say: Callable[[str], object], *, dry_run: bool) -> Callable[[], Count] | None:
    """Return what makes a pass, if this process is given an address; None = it is not. AccessError as `access.find`.

    A client's file alone is not enough: on a person's machine it is there for other reasons. The arguments are those of
    `tfsteps.janitor.sweep.PlatformSweep`.
    """
    if not any(os.environ.get(name) for name in (access.LAUNCHER_SERVER, access.SERVER)):
        return None
    client = Client(access.find(), patience=_PATIENCE_SECONDS)
    client.stopping = api.stopping

    def run() -> Count:
        @functools.cache  # read, and reported, once a pass
        def namespace_uid(name: str) -> str:
            if not (uid := api.namespace_uid(name)):
                say(f"tasks on HAI of namespace {name} end by their deadlines: its uid may not be read, or it is gone")
            return uid

        return HaiSweep(client, EngineRuns(api, namespace), namespace_uid, namespace, say, dry_run=dry_run).run()

    return run


class HaiSweep:
    """One pass. HAI keeps records of ended tasks and removes their ranks itself, so only unfinished ones are due."""

    def __init__(
        self,
        client: Client,
        workflows: AbandonedRuns,
        namespace_uid: Callable[[str], str],
        namespace: str,
        say: Callable[[str], object],
        *,
        dry_run: bool,
    ) -> None:
        """Get ready.

        Args:
            client: The platform.
            workflows: The cluster's Workflows, of `namespace` or of all.
            namespace_uid: Returns the uid of a namespace of the cluster, empty = not known: tasks of Workflows in
                other clusters are not judged by those of this one.
            namespace: Only tasks of its Workflows are judged by their Workflow; empty = those of every namespace.
            say: Receives a line for each action, and for each failure.
            dry_run: Only report what is due.
        """
        self._client, self._workflows, self._namespace = client, workflows, namespace
        self._namespace_uid, self._say, self._dry_run = namespace_uid, say, dry_run
        self.count = Count(what="tasks on HAI", act="stops")

    def run(self) -> Count:
        """Stop all tasks that are due, and report each in a line; failures are reported, and left to the next pass."""
        try:
            tasks = unfinished_tasks(self._client)
        except ApiError as error:
            self._failed("tasks on HAI cannot be listed", error)
            return self.count
        self.count.served = 1
        for task in tasks:
            try:
                self._look(task)
            except ApiError as error:
                self._failed(_name(task), error)
            except Stopped:
                raise
            except Exception as error:  # noqa: BLE001  one broken record must not protect all others
                self._failed(f"{_name(task)} is not understood", error)
        return self.count

    def _look(self, task: Task) -> None:
        """Stop a task if that is due, and still is when it is looked at again: the list may be old."""
        job = HaiRun.of(task)
        if job is None or job.status.state.terminal:
            return
        self.count.jobs += 1
        if self._due(job):
            self.count.undeleted.add(job.chain)
            self._confirm(job)
            self.count.undeleted.remove(job.chain)

    def _confirm(self, listed: HaiRun) -> None:
        """Stop a task if that is due for the task as it is now."""
        job = refreshed(self._client, listed)
        if not (action := self._due(job)):
            return
        self.count.due += 1
        if not self._dry_run:
            stop_task(self._client, job.task)
            self.count.deleted("HAITask", action.reason)
        done = "would be stopped" if self._dry_run else "stopped"
        self._say(f"task {job.status.job} on HAI {done}: it is {job.status.state}, and {action.why}")

    def _due(self, job: HaiRun) -> Due | None:
        """Return why a task is to be stopped; None = it is not. Its age is that by HAI's clock; unknown = none."""
        if job.status.state.terminal:
            return None
        now = self._client.server_time()
        late = overdue(schema.deadline(job.task), job.status.created, -math.inf if now is None else now)
        if late:
            return Due("job", Reason.DEADLINE, late)
        left = self._left(job.task)
        return Due("job", Reason.ABANDONED, left) if left else None

    def _left(self, task: Task) -> str:
        """Return why no launcher of its Workflow will come for a task; empty = one may, or it is not ours to see."""
        namespace, name, uid = schema.workflow(task)
        home = schema.labels(task).get(schema.NAMESPACE_UID, "")
        if not (uid and home) or self._namespace not in ("", namespace) or home != self._namespace_uid(namespace):
            return ""
        try:
            return self._workflows.why_step_ended(namespace, name, uid, schema.launcher(task))
        except ValueError as error:
            self._failed(f"the Workflow of task {task['nb_name']} on HAI", error)
            return ""

    def _failed(self, what: str, error: Exception) -> None:
        self.count.failures += 1
        self._say(f"{what}: {error}")


def _name(task: Task) -> str:
    return f"task {task.get('nb_name', '?')} on HAI"

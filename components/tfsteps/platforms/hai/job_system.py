"""The job system: checks, creates or adopts the task; `job` follows it."""

import functools
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from tfsteps.answer import YES, Answer, known, unknown
from tfsteps.kube import access as cluster
from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.backoff import StopFlag
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.platforms.hai import access, rules, schema
from tfsteps.platforms.hai.client import Client, RequestRefusedError, Task
from tfsteps.platforms.hai.creation import Creation
from tfsteps.platforms.hai.job import HaiJob
from tfsteps.platforms.hai.runs import stop_task
from tfsteps.platforms.hai.schema import PAUSED, STOPPED
from tfsteps.platforms.hai.verdict import verdict
from tfsteps.runs.events import State, replicas_of
from tfsteps.runs.identity import ATTEMPT, RUN_ID, Identity, label_value
from tfsteps.runs.output_paths import OutputPaths, join
from tfsteps.spec import Problem, TrainingJob, is_uri
from tfsteps.systems.base import REPORT_SECONDS, JobNote, LaunchError, OnEnd, Scope, StoppedError
from tfsteps.systems.kubernetes.launcher_pod import LauncherPod
from tfsteps.systems.pipeline import FindPipeline, PipelineContext, next_attempt

_NOWHERE = "/tmp/tfsteps"  # noqa: S108  in the ranks' own file systems
_LOOK_SECONDS = 0.5
_PAUSE_SECONDS = 60.0
_GRACE_SECONDS = 25.0  # from a stop to the last question, outside of pods


class HaiSystem:
    """Tasks of HAI Platform, each rank a node."""

    name = schema.NAME
    location = schema.NAME
    outlives_launcher = True

    def __init__(self) -> None:
        """Send no request yet."""
        self._given_up, self._hurried = StopFlag(), StopFlag()
        self._stopped_at = 0.0  # when `give_up` was called, of the monotonic clock
        self._find_pipeline: FindPipeline | None = None

    def join_pipeline(self, find: FindPipeline) -> None:
        """Assign the tasks to the pipeline that `find` returns for this process's pod, if any."""
        self._find_pipeline = find

    # --- what launch sees

    def attempt(self, run: str, task: str) -> int:
        """Return the number of the attempt to start or continue; a stopped task counts as reported."""
        try:
            tagged = self._client.tagged(schema.key(run, task))
            tasks = {int(schema.labels(item)[ATTEMPT]): item for item in tagged}
            if not tasks:
                return 0
            last = max(tasks)
            state = verdict(tasks[last]).state
        except ApiError as error:
            raise LaunchError(f"earlier attempts cannot be looked for: {error}", retryable=error.unavailable) from error
        except MALFORMED as error:
            raise LaunchError(
                f"HAI's record of an earlier attempt is not understood: {error!r}", retryable=True
            ) from error
        reported = state is State.CANCELLED or schema.REPORTED in schema.labels(tasks[last])
        return next_attempt(last, state, self._pipeline, reported=reported)

    def spec_problems(self, job: TrainingJob) -> list[Problem]:
        """Return what HAI does not support. `start` asks the platform itself."""
        return rules.spec_problems(job)

    def warnings(self, job: TrainingJob) -> list[str]:
        """Return a sentence for each field of `job` that has no effect on HAI."""
        return rules.warnings(job)

    def places(self, job: TrainingJob, identity: Identity, base_dir: pathlib.Path) -> OutputPaths:
        """Return the folders on the shared file system: below `output_dir`, which may be relative to the workspace."""
        workspace = schema.workspace(job, schema.options_for(job))
        template = job.output_dir or "tfsteps/{run_id}/{task}"
        folder = template.format(name=job.name, run_id=identity.run, task=label_value(identity.task))
        kept = bool(workspace) or is_uri(folder) or folder.startswith("/")
        return OutputPaths.below(
            folder if is_uri(folder) else join(workspace or _NOWHERE, folder), job, base_dir, kept=kept
        )

    def plan(self, job: TrainingJob, identity: Identity, places: OutputPaths) -> list[dict[str, object]]:
        """Return the schema of the task that `start` would create, without the text of the agent."""
        return [schema.shown(schema.render(job, identity, places, identity.task))]

    def start(self, job: TrainingJob, identity: Identity, places: OutputPaths) -> HaiJob:
        """Create the task, or adopt the one that an earlier launcher of this attempt created.

        If `give_up` is called meanwhile, the task is returned if it exists: the caller stops it, if it may.

        Raises:
            LaunchError: The platform refuses it, or another task has its name, or whether it exists is not known.
            StoppedError: `give_up` was called, and this launcher created no task.
        """
        creation = Creation(self._client, self._rendered(job, identity, places), identity.run)
        try:
            task = self._obtained(creation)
        except RequestRefusedError as error:
            raise LaunchError(f"HAI did not take the task: {error}", retryable=False) from error
        except ApiError as error:
            made = "the task was not created" if creation.absent else "whether the task exists is not known"
            raise LaunchError(f"{made}: {error}", retryable=error.unavailable) from error
        except Stopped:
            raise StoppedError("Stopped before the task was created.") from None
        return self.attach(job, str(task["nb_name"]), str(task["chain_id"]), schema.created(task) or time.time())

    def _rendered(self, job: TrainingJob, identity: Identity, places: OutputPaths) -> dict[str, Any]:
        body = schema.render(job, identity, places, self._step or identity.task)
        if self._host and self._pipeline:
            owner, namespace = self._pipeline.owner, self._host.namespace
            try:
                namespace_uid = self._host.namespace_uid()
            except ApiError as error:
                what = f"namespace {namespace} of this launcher cannot be read: {error}"
                raise LaunchError(what, retryable=error.unavailable) from error
            body["options"]["tags"] += schema.workflow_tags(namespace_uid, namespace, owner["name"], owner["uid"])
        return body

    def _obtained(self, creation: Creation) -> Task:
        """Return the task. Stopped if there certainly is none; of an earlier launcher's, it may exist outside of pods.

        After a stop, a launcher in a pod also adopts the task of an earlier one: its pod may be evicted.
        """
        try:
            return creation.obtain()
        except ApiError as error:
            if creation.unsettled:
                raise creation.not_known(error) from error
            raise
        except Stopped:
            if not (creation.unsettled or self._host):
                raise
        seconds = self._host.grace_seconds if self._host else _GRACE_SECONDS
        task = creation.after_stop(self._stopped_at + seconds, self._hurried)
        if task is None:
            raise Stopped
        if not self._host and not creation.is_ours(task).yes:
            raise creation.left(task)
        return task

    def attach(self, job: TrainingJob, name: str, uid: str, created: float) -> HaiJob:
        """Return the task of that chain; no request is sent before its `events`."""
        ranks = replicas_of(job.roles.items())
        return HaiJob(self._client, ranks, name=name, chain_id=uid, created=created, host=self._host)

    def note(self, job: TrainingJob, name: str, uid: str, note: JobNote) -> None:  # noqa: ARG002
        """Tag the task."""
        if note is JobNote.FOLLOWED and not self._step:
            return
        client = self._client.copy(REPORT_SECONDS) if note is JobNote.REPORTED else self._client
        try:
            if note is JobNote.FOLLOWED:
                before = client.query(chain_id=uid) or {}
                for old in (schema.launcher_tag(schema.launcher(before)), schema.DETACHED):
                    if old in (before.get("tags") or []):
                        client.tag(uid, old, on=False)
            tags = {JobNote.DETACHED: schema.DETACHED, JobNote.REPORTED: schema.REPORTED}
            client.tag(uid, tags.get(note) or schema.launcher_tag(self._step), on=True)
        except ApiError as error:
            raise LaunchError(f"task {name} could not be tagged as {note}: {error}", retryable=True) from error

    def clean_up(self, identity: Identity, scope: Scope, on_end: OnEnd | None) -> list[str]:  # noqa: ARG002
        """Stop the unfinished tasks of a run, and return their names. Of ended ones nothing is left to remove."""
        stopped: list[str] = []
        left: list[str] = []
        try:
            for task in self._unfinished(identity.run):
                selected = YES if scope == "run" else self._is_sibling(identity, task)
                if selected.unknown:
                    name = f"task {task['nb_name']} was left"
                    left.append(f"{name}: whether its step has ended is not known ({selected.why})")
                if selected.yes:
                    stop_task(self._client, task)
                    stopped.append(str(task["nb_name"]))
        except ApiError as error:
            raise LaunchError(f"what is left on HAI is not known: {error}", retryable=error.unavailable) from error
        if left:
            raise LaunchError(f"{'; '.join(left)}. Stopped: {', '.join(stopped) or 'nothing'}", retryable=True)
        return stopped

    def give_up(self) -> None:
        """Stop retrying requests; called again, stop asking whether the task exists."""
        if self._given_up.is_set():
            self._hurried.set()
        else:
            self._stopped_at = time.monotonic()
            self._given_up.set()

    # --- for people

    def tasks(self, run: str = "") -> list[Task]:
        """Return the newest task of each chain that tfsteps made, of one run or of all, the newest first."""
        tag = schema.tag(RUN_ID, label_value(run)) if run else "app.kubernetes.io/managed-by=tfsteps"
        return self._client.tagged(tag)

    def pause(self, run: str) -> list[str]:
        """Stop the unfinished tasks of a run so that `resume` can continue them; return their names after their end.

        The tag is set first, so that a launcher that follows the task does not take this for its end.

        Raises:
            LaunchError: One has not ended within a minute.
        """
        paused = []
        for task in self._unfinished(run):
            if verdict(task).state is not State.SUSPENDED:
                self._client.tag(task["chain_id"], schema.tag(schema.PAUSED_TASK, str(task["id"])), on=True)
                self._client.tag(task["chain_id"], PAUSED, on=True)
                self._client.stop(task["chain_id"])
                paused.append(task)
        for task in paused:
            self._until_ended(self._client.query(chain_id=task["chain_id"]) or task)
        return [str(task["nb_name"]) for task in paused]

    def resume(self, run: str) -> list[str]:
        """Queue the paused tasks of a run again, and return their names.

        Raises:
            LaunchError: One is still being stopped after a minute, or HAI refuses to queue it.
        """
        resumed = []
        for task in self.tasks(run):
            # it may have ended before the stop
            if PAUSED in schema.labels(task) and self._until_ended(task) is State.SUSPENDED:
                try:
                    self._client.resume(task["chain_id"])
                except RequestRefusedError as error:
                    if verdict(self._client.query(chain_id=task["chain_id"]) or task).state is State.SUSPENDED:
                        raise LaunchError(f"{task['nb_name']} is paused: {error}", retryable=False) from error
                self._client.tag(task["chain_id"], PAUSED, on=False)
                resumed.append(str(task["nb_name"]))
        return resumed

    def _until_ended(self, task: Task) -> State:
        """Wait until a task that is being paused has ended, at most a minute, and return its state then.

        Raises:
            LaunchError: It has not.
        """
        name, end = task["nb_name"], time.monotonic() + _PAUSE_SECONDS
        announced = False
        while (state := verdict(task).state) is not State.SUSPENDED and not state.terminal:
            if not announced:
                sys.stderr.write(f"waiting until HAI has ended the ranks of {name}, which takes it 10 s and more\n")
                announced = True
            if time.monotonic() > end:
                fix = "look at its log on HAI, then try again"
                raise LaunchError(f"HAI has not ended {name} within {_PAUSE_SECONDS:.0f} s; {fix}", retryable=True)
            time.sleep(_LOOK_SECONDS)
            task = self._client.query(chain_id=task["chain_id"]) or task
        return state

    # --- looking

    def _unfinished(self, run: str) -> Iterator[Task]:
        for task in self.tasks(run):
            if not verdict(task).state.terminal and STOPPED not in schema.labels(task):
                yield task

    def _is_sibling(self, identity: Identity, task: Task) -> Answer:
        """Return whether a finalizer cleans up a task: of a step of its pipeline, else of a task in the same folder."""
        step = schema.launcher(task)
        if self._host and self._host.unread:
            return unknown(self._host.unread)
        if self._pipeline:
            return self._pipeline.cleans_up_after(step, detached=schema.DETACHED in schema.labels(task))
        return known(pathlib.PurePath(step).parent == pathlib.PurePath(identity.task).parent)

    @property
    def _step(self) -> str:
        """The step of the pipeline that this launcher is for; empty = there is no pipeline."""
        return self._pipeline.step if self._pipeline else ""

    @property
    def _pipeline(self) -> PipelineContext | None:
        """The pipeline of this process's pod; None = no pipeline."""
        return self._host.pipeline if self._host else None

    @functools.cached_property
    def _client(self) -> Client:
        try:
            client = Client(access.find())
        except AccessError as error:
            raise LaunchError(str(error), retryable=False) from error
        client.stopping = self._given_up
        return client

    @functools.cached_property
    def _host(self) -> LauncherPod | None:
        return LauncherPod.find(Api(cluster.find()), self._find_pipeline) if cluster.in_cluster() else None

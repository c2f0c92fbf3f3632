"""The job system: checks a job, creates or adopts its task, and finds out after a stop what has become of it.

`job` follows the task.
"""

import functools
import pathlib
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.answer import NO, YES, Answer, known, unknown
from tfsteps.kube import access as cluster
from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.backoff import StopFlag
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.platforms.hai import access, rules, schema
from tfsteps.platforms.hai.client import Client, RequestRefusedError, Task
from tfsteps.platforms.hai.job import HaiJob
from tfsteps.platforms.hai.runs import stop_task
from tfsteps.platforms.hai.schema import AUTO, PAUSED, STOPPED
from tfsteps.platforms.hai.verdict import verdict
from tfsteps.runs.events import State, replicas_of
from tfsteps.runs.identity import ATTEMPT, RUN_ID, Identity, label_value
from tfsteps.runs.output_paths import OutputPaths, join
from tfsteps.spec import Problem, TrainingJob, is_uri
from tfsteps.systems.base import REPORT_SECONDS, JobNote, LaunchError, OnEnd, Scope, StoppedError, clean_up_all
from tfsteps.systems.launcher_pod import LauncherPod
from tfsteps.systems.pipeline import FindPipeline, PipelineContext, next_attempt

_NOWHERE = "/tmp/tfsteps"  # noqa: S108  in the ranks' own file systems
_LOOK_SECONDS = 0.5  # between two looks for a task
_PAUSE_SECONDS = 60.0
_GRACE_SECONDS = 25.0  # from a stop to the last question, outside of pods
_LOOKS = 5  # for the tags of a task that another launcher has just made
_URGENT_SECONDS = 3.0  # for an answer after a stop
_ASK_SECONDS = 1.0  # between two questions after a stop
_UNFINISHED = (0, 502, 504)  # statuses of requests that the platform may still carry out: others it has ended
_DEFAULT = "default"  # in any case; HAI replaces it by its own default group
_NO_ENDPOINT = 404


class Creation:
    """The creation of one task.

    Attributes:
        absent: Whether HAI has answered that there was no such task.
        unsettled: Whether a request to create the task may have had an effect that is not known, or may still have it.
    """

    def __init__(self, client: Client, body: Mapping[str, Any], run: str) -> None:
        """Send no request yet. `body` is the rendered schema, `run` the id of the run, for messages."""
        self.unsettled = False
        self.absent = False
        self._client, self._body, self._run = client, body, shlex.quote(run)
        self._name = str(body["name"])
        self._groups = Groups(client)
        self._created = False

    def load_or_create(self) -> Task:
        """Return the task, which this call creates unless an earlier launcher of the attempt did.

        Each repetition looks for the task first: a request without an answer may have created it.

        Raises:
            LaunchError: Another task has the name, or the group of nodes is refused.
            ApiError: The platform refused, or was unavailable for too long.
            Stopped: The client's `stopping` was set.
        """
        task = self._client.retry(self._load_or_create)
        if self.has_created(task):
            self._stop_if_due(task)
        return task

    def has_created(self, task: Task) -> bool:
        """Return whether this process certainly created a task."""
        return self._created or self.is_ours(task).yes

    def is_ours(self, task: Task) -> Answer:
        """Return whether this process created a task: by the random secret that it sent with it."""
        sent = self._body["spec"]["environments"][schema.SECRET]
        secret = schema.environments(task).get(schema.SECRET)
        return unknown("HAI does not return the task's schema") if secret is None else known(secret == sent)

    def after_stop(self, end: float, repeated: StopFlag) -> Task | None:
        """Return the task after a stop; None = there certainly is none. Repeats the request while that is not known.

        Args:
            end: When to give up, of the monotonic clock.
            repeated: Once set, it gives up.

        Raises:
            LaunchError: It gave up; or another task has the name.
        """
        urgent = Client(self._client.access, patience=0, read_seconds=_URGENT_SECONDS)
        while True:
            pause = _ASK_SECONDS
            try:
                if task := self._existing(urgent):
                    return task
                if not self.unsettled:
                    return None
                why = "HAI has not answered the request to create it"
            except ApiError as error:
                why, pause = str(error), max(pause, error.retry_after)
            left = end - time.monotonic()
            if left <= 0 or repeated.wait(min(pause, left)):
                raise self.not_known(why)

    def not_known(self, why: object) -> LaunchError:
        """Return the error for a task that may exist."""
        fix = f"it may run: `tfsteps show {self._run} --on hai` finds it, `tfsteps stop {self._run} --on hai` stops it"
        return LaunchError(f"whether task {self._name} exists on HAI is not known ({why}); {fix}", retryable=True)

    def left(self, task: Task) -> LaunchError:
        """Return the error for a task that this process did not create, and leaves running after a stop."""
        why = (
            f"task {task['nb_name']} of an earlier launcher was not stopped: this one ended before it adopted the task"
        )
        return LaunchError(f"{why}; `tfsteps stop {self._run} --on hai` stops it", retryable=True)

    def _load_or_create(self) -> Task:
        if task := self._existing(self._client):
            return task
        self.absent = True
        return self._create()

    def _existing(self, client: Client) -> Task | None:
        """Return the task of this attempt; None = there is none."""
        for _ in range(_LOOKS):
            if (task := client.query_once(nb_name=self._name)) is None:
                return None
            if (answer := self._is_of_attempt(task)).yes:
                return task
            if answer.no:
                theirs = schema.labels(task).get(schema.SPEC_HASH, "not by tfsteps")
                wrong = f"task {self._name} exists and was made from another job ({theirs})"
                raise LaunchError(f"{wrong}; stop it, or use another run id", retryable=False)
            time.sleep(_LOOK_SECONDS)  # tags appear after the task
        raise LaunchError(f"task {self._name} exists, and whose it is is not known: {answer.why}", retryable=True)

    def _is_of_attempt(self, task: Task) -> Answer:
        """Return whether a launcher of this attempt created a task from the same job."""
        if theirs := schema.labels(task).get(schema.SPEC_HASH):
            return known(theirs == schema.labels(self._body["options"])[schema.SPEC_HASH])
        if self.is_ours(task).yes:
            return YES
        by_tfsteps = schema.SECRET in schema.environments(task)
        return unknown("HAI returns none of its tags; try again") if by_tfsteps else NO

    def _create(self) -> Task:
        """Create the task. If another launcher was faster, adopt its task."""
        self._groups.check(self._body)
        now = self._client.server_time() or time.time()
        options = {**self._body["options"], "tags": [*self._body["options"]["tags"], f"{schema.CREATED}={now:.3f}"]}
        try:
            task = self._client.create_task({**self._body, "options": options})
        except RequestRefusedError:
            if other := self._existing(self._client):
                return other
            raise
        except ApiError as error:
            self.unsettled = self.unsettled or error.status in _UNFINISHED
            raise
        self._created = self.unsettled = True
        return {**task, "tags": options["tags"]}

    def _stop_if_due(self, task: Task) -> None:
        """Stop a task of this process that is to begin suspended, or that would harm HAI's scheduler."""
        problem = self._groups.default_problem(self._body, str(task.get("group") or ""))
        if problem or schema.PAUSED in self._body["options"]["tags"]:
            self._client.stop(str(task["chain_id"]))
        if problem:
            raise LaunchError(f"{problem}. Task {self._name} was stopped at once", retryable=False)


class Groups:
    """The groups of nodes of one user, which are asked for when they matter."""

    def __init__(self, client: Client) -> None:
        """Send no request yet."""
        self._client = client
        self._known: frozenset[str] | None = None

    def check(self, schema: Mapping[str, Any]) -> None:
        """Check the group of a task that is about to be created.

        If HAI does not tell the groups, a task that names one must have a priority: then it harms no other user.

        Raises:
            LaunchError: The task must not be created.
            ApiError: HAI does not answer now.
        """
        group, auto = _group(schema), schema["priority"] == AUTO
        default = group.lower() == _DEFAULT
        if default and not auto:
            return
        try:
            self._known = self._client.groups()
        except ApiError as error:
            if default or not auto:
                return
            if error.unavailable and error.status != _NO_ENDPOINT:
                raise
            why = f"whether HAI has the group {group!r} is not known ({error})"
            fix = "set `priority`: without one, a task of an unknown group stops HAI's scheduler for every user"
            raise LaunchError(f"{why}; {fix}", retryable=False) from error
        if auto and not self._known:
            wrong = (
                "the user has no quota of any group of nodes, and such a task without a priority stops HAI's scheduler"
            )
            raise LaunchError(f"{wrong}; ask HAI's administrator for a quota", retryable=False)
        if self._known and not default and group not in self._known:
            raise LaunchError(self._unknown(group), retryable=False)

    def default_problem(self, schema: Mapping[str, Any], granted: str) -> str:
        """Return why a new task must be stopped whose job left the group to HAI, which has `granted` this one."""
        auto, group = schema["priority"] == AUTO and _group(schema).lower() == _DEFAULT, granted.partition("#")[0]
        stops_scheduler = auto and self._known and group.lower() not in ("", _DEFAULT) and group not in self._known
        return self._unknown(group) if stops_scheduler else ""

    def _unknown(self, group: str) -> str:
        listed = ", ".join(sorted(self._known or ()))
        return f"queue: {group!r} is no group of nodes of which the user has a quota. Allowed: {listed}. Correct it"


def _group(schema: Mapping[str, Any]) -> str:
    """Return the group that a task asks for, without its zone."""
    return str(schema["resource"]["group"]).partition("#")[0]


class HaiSystem:
    """Tasks of HAI Platform, each rank a node."""

    name = schema.NAME
    location = schema.NAME
    outlives_launcher = True

    def __init__(self) -> None:
        """Send no request yet."""
        self._given_up, self._repeated = StopFlag(), StopFlag()
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
        return rules.warnings(job)

    def output_paths(self, job: TrainingJob, identity: Identity, base_dir: pathlib.Path) -> OutputPaths:
        """Return the folders on the shared file system: below `output_dir`, which may be relative to the workspace."""
        workspace = schema.workspace(job, schema.options_for(job))
        template = job.output_dir or "tfsteps/{run_id}/{task}"
        folder = template.format(name=job.name, run_id=identity.run, task=label_value(identity.task))
        kept = bool(workspace) or is_uri(folder) or folder.startswith("/")
        return OutputPaths.below(
            folder if is_uri(folder) else join(workspace or _NOWHERE, folder), job, base_dir, kept=kept
        )

    def plan(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> list[dict[str, object]]:
        """Return the schema of the task that `start` would create, without the text of the agent."""
        return [schema.shown(schema.render(job, identity, paths, identity.task))]

    def start(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> HaiJob:
        """Create the task, or adopt the one that an earlier launcher of this attempt created.

        If `give_up` is called meanwhile, the task is returned if it exists: the caller stops it, if it may.

        Raises:
            LaunchError: The platform refuses it, or another task has its name, or whether it exists is not known.
            StoppedError: `give_up` was called, and this launcher created no task.
        """
        creation = Creation(self._client, self._rendered(job, identity, paths), identity.run)
        try:
            task = self._obtained(creation)
        except RequestRefusedError as error:
            raise LaunchError(f"HAI did not take the task: {error}", retryable=False) from error
        except ApiError as error:
            outcome = "the task was not created" if creation.absent else "whether the task exists is not known"
            raise LaunchError(f"{outcome}: {error}", retryable=error.unavailable) from error
        except Stopped:
            raise StoppedError("Stopped before the task was created.") from None
        handle = self.attach(job, str(task["nb_name"]), str(task["chain_id"]), schema.created(task) or time.time())
        handle.is_new = creation.has_created(task)
        return handle

    def _rendered(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> dict[str, Any]:
        body = schema.render(job, identity, paths, self._step or identity.task)
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
            return creation.load_or_create()
        except ApiError as error:
            if creation.unsettled:
                raise creation.not_known(error) from error
            raise
        except Stopped:
            if not (creation.unsettled or self._host):
                raise
        seconds = self._host.grace_seconds if self._host else _GRACE_SECONDS
        task = creation.after_stop(self._stopped_at + seconds, self._repeated)
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
        try:
            tasks = list(self._unfinished(identity.run))
        except ApiError as error:
            raise LaunchError(f"what is left on HAI is not known: {error}", retryable=error.unavailable) from error
        return clean_up_all(functools.partial(self._clean_up, identity, scope, task) for task in tasks)

    def _clean_up(self, identity: Identity, scope: Scope, task: Task) -> list[str]:
        name = str(task["nb_name"])
        selected = YES if scope == "run" else self._is_sibling(identity, task)
        if selected.unknown:
            why = f"whether its step has ended is not known ({selected.why})"
            raise LaunchError(f"task {name} was left: {why}", retryable=True)
        try:
            if selected.yes:
                stop_task(self._client, task)
        except ApiError as error:
            self._client.patience = min(self._client.patience, REPORT_SECONDS)  # there may be many tasks
            message = f"whether task {name} is stopped is not known: {error}"
            raise LaunchError(message, retryable=error.unavailable) from error
        return [name] if selected.yes else []

    def give_up(self) -> None:
        """Stop retrying requests; called again, stop asking whether the task exists."""
        if self._given_up.is_set():
            self._repeated.set()
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
        if not cluster.in_cluster():
            return None
        try:
            return LauncherPod.find(Api(cluster.find()), self._find_pipeline)
        except (AccessError, ApiError) as error:
            raise LaunchError(f"the launcher's own pod cannot be read: {error}", retryable=True) from error

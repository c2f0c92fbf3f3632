"""Creates a task, or adopts the one of an earlier launcher, and finds out after a stop what has become of it."""

import shlex
import time
from collections.abc import Mapping
from typing import Any

from tfsteps.answer import NO, YES, Answer, known, unknown
from tfsteps.kube.backoff import StopFlag
from tfsteps.kube.errors import ApiError
from tfsteps.platforms.hai import schema
from tfsteps.platforms.hai.client import Client, RequestRefusedError, Task
from tfsteps.platforms.hai.schema import AUTO
from tfsteps.systems.base import LaunchError

_LOOKS = 5  # for the tags of a task that another launcher has just made
_LOOK_SECONDS = 0.5
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

    def obtain(self) -> Task:
        """Return the task, which this call creates unless an earlier launcher of the attempt did.

        Each repetition looks for the task first: a request without an answer may have created it.

        Raises:
            LaunchError: Another task has the name, or the group of nodes is refused.
            ApiError: The platform refused, or was unavailable for too long.
            Stopped: The client's `stopping` was set.
        """
        task = self._client.retry(self._obtain)
        if self._created or self.is_ours(task).yes:
            self._stop_if_due(task)
        return task

    def is_ours(self, task: Task) -> Answer:
        """Return whether this process created a task: by the random secret that it sent with it."""
        sent = self._body["spec"]["environments"][schema.SECRET]
        found = schema.environments(task).get(schema.SECRET)
        return unknown("HAI does not return the task's schema") if found is None else known(found == sent)

    def after_stop(self, end: float, hurried: StopFlag) -> Task | None:
        """Return the task after a stop; None = there certainly is none. Asks until that is known.

        Args:
            end: When to give up, of the monotonic clock.
            hurried: Once set, it gives up.

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
            if left <= 0 or hurried.wait(min(pause, left)):
                raise self.not_known(why)

    def not_known(self, why: object) -> LaunchError:
        """Return the error for a task that may exist."""
        fix = f"it may run: `tfsteps show {self._run} --on hai` finds it, `tfsteps stop {self._run} --on hai` stops it"
        return LaunchError(f"whether task {self._name} exists on HAI is not known ({why}); {fix}", retryable=True)

    def left(self, task: Task) -> LaunchError:
        """Return the error for a task that this process did not create, and leaves running after a stop."""
        why = f"task {task['nb_name']} of an earlier launcher goes on: this one was stopped before it adopted the task"
        return LaunchError(f"{why}; `tfsteps stop {self._run} --on hai` stops it", retryable=True)

    def _obtain(self) -> Task:
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

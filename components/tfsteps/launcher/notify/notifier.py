"""The observer that turns changes of a job into notifications. It never waits and never raises."""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tfsteps.runs.events import LogLines, PartialLine, State
from tfsteps.runs.status import Status
from tfsteps.spec import Problem, TrainingJob, Webhook

if TYPE_CHECKING:  # imported when a job has a webhook, or an event of it: start-up is measured
    from tfsteps.launcher.notify.delivery import Delivery
    from tfsteps.launcher.notify.notification import Notification
    from tfsteps.launcher.notify.url import Url

PATIENCE_SECONDS = 600.0
"""How long a notification is sent again while the job goes on."""

_QUEUED = 100  # messages; a job that restarts more often while its receiver is down loses the oldest
_SLICE_SECONDS = 0.02


class Notifier:
    """Sends the notifications of one job, each webhook from a thread of its own.

    Attributes:
        warnings: Why webhooks are not called, or notifications were lost; without URLs.
    """

    def __init__(self, job: TrainingJob, environment: Mapping[str, str] = os.environ) -> None:
        """Read the URLs. Webhooks whose variable is not set, or wrong, are left out, with a warning."""
        self.warnings: list[str] = []
        self._name = job.name
        self._state: State | None = None
        self._counts: dict[str, int] = {}
        self._channels = [
            _Channel(webhook, url, self._warn) for webhook in job.notify if (url := self._url(webhook, environment))
        ]
        self._first = len(self.warnings)

    def _url(self, webhook: Webhook, environment: Mapping[str, str]) -> "Url | None":
        from tfsteps.launcher.notify import url  # noqa: PLC0415

        name = webhook.url.env
        try:
            if found := url.from_environment(name, environment):
                return found
            self._warn(f"A webhook is not called: the launcher's variable {name} is not set.")
        except url.UrlError as error:
            self._warn(f"A webhook is not called: the URL in the launcher's variable {name} {error}.")
        return None

    def changed(self, status: Status) -> None:
        """Queue a notification if the job's state changed to one that a webhook wants to know."""
        if status.state in (self._state, State.UNKNOWN):
            return
        before, self._state = self._state, status.state
        event = event_of(before, status.state, status.reason)
        if not event:
            return
        self._counts[event] = count = self._counts.get(event, 0) + 1
        channels = [channel for channel in self._channels if event in channel.webhook.events]
        if not channels:
            return
        from tfsteps.launcher.notify.notification import of_job  # noqa: PLC0415

        try:
            notification = of_job(status, event, time.time(), self._name, count)
            for channel in channels:
                channel.put(notification)
        except Exception as error:  # noqa: BLE001  whatever is wrong with a notification, the job goes on
            self._warn(f"The notification `{event}` was not sent: {type(error).__name__}.")

    def lines(self, lines: LogLines) -> None:
        """Do nothing."""

    def partial(self, line: PartialLine) -> None:
        """Do nothing."""

    @contextlib.contextmanager
    def delivering(self, patience: Callable[[], float], warnings: list[str]) -> Iterator[None]:
        """Deliver what is queued at the end of the block, also after an error; warnings are added to `warnings`.

        `patience` is that of `close`.
        """
        try:
            yield
        finally:
            warnings += self.close(patience)

    def close(self, patience: Callable[[], float]) -> list[str]:
        """Wait until every notification is delivered or given up, and return the warnings since the beginning.

        Args:
            patience: Returns how many seconds to wait in all; called repeatedly, because a signal may shorten it.
        """
        start = time.monotonic()
        for channel in self._channels:
            channel.closing.set()
        while any(channel.busy for channel in self._channels) and time.monotonic() - start < patience():
            time.sleep(_SLICE_SECONDS)
        for channel in self._channels:
            channel.give_up()
        return self.warnings[self._first :]

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


class _Channel:
    """The queue and the thread of one webhook; the thread starts with the first notification."""

    def __init__(self, webhook: Webhook, url: "Url", warn: Callable[[str], None]) -> None:
        self.webhook = webhook
        self.closing = threading.Event()
        self._url = url
        self._warn = warn
        self._messages: queue.Queue[Notification] = queue.Queue(_QUEUED)
        self._thread: threading.Thread | None = None
        self._delivery: Delivery | None = None
        self._given_up = False

    @property
    def busy(self) -> bool:
        """Whether a notification is waiting or being sent."""
        return self._messages.unfinished_tasks > 0

    def put(self, notification: "Notification") -> None:
        """Queue a notification. If the queue is full, the oldest is lost: the last is the end of the job."""
        with contextlib.suppress(queue.Empty):
            if self._messages.full():
                self._messages.get_nowait()
                self._messages.task_done()
                self._problem("the receiver is slower than the events of the job")
        self._messages.put_nowait(notification)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="notify", daemon=True)
            self._thread.start()

    def give_up(self) -> None:
        """Warn about the notifications that are still not delivered, and report nothing any more."""
        if self.busy:
            reason = self._delivery.problem if self._delivery else ""
            self._problem("they were not accepted before the end of the step" + (f": {reason}" if reason else ""))
        self._given_up = True

    def _run(self) -> None:
        while True:
            notification = self._messages.get()
            try:
                problem = self._send(notification)
            except Exception as error:  # noqa: BLE001  not its text, which may contain the URL
                problem = f"error of tfsteps ({type(error).__name__})"
            if problem:
                self._problem(problem)
            self._messages.task_done()

    def _send(self, notification: "Notification") -> str:
        """Send a notification, and return why it was not delivered; empty = it was."""
        from tfsteps.launcher.notify import delivery, formats  # noqa: PLC0415  not in the launcher's loop

        self._delivery = self._delivery or delivery.Delivery(self._url)
        message = delivery.Message(notification.id, notification.event, formats.body(notification, self.webhook.format))
        return self._delivery.send(message, PATIENCE_SECONDS, self.closing, self._messages.empty)

    def _problem(self, problem: str) -> None:
        if not self._given_up:
            where = f"{self._url} (variable {self.webhook.url.env})"
            self._warn(f"Notifications to {where} were not delivered: {problem}.")


def event_of(before: State | None, state: State, reason: str) -> str:
    """Return the event of a change of a job's state; empty = none. `before` is None at the first state."""
    match state:
        case State.FAILED if reason == "DeadlineExceeded":
            return "deadline"
        case State.FAILED | State.LOST:
            return "failed"
        case State.SUCCEEDED | State.CANCELLED | State.RESTARTING:
            return state.value
        case State.SUSPENDED:
            return "paused"
        case _:
            return "resumed" if before is State.SUSPENDED else ""


def webhook_problems(job: TrainingJob, environment: Mapping[str, str] = os.environ) -> list[Problem]:
    """Return the problems of the URLs of a job's webhooks; a variable that is not set is none. Shows no URL."""
    if not job.notify:
        return []
    from tfsteps.launcher.notify import url  # noqa: PLC0415

    result = []
    for i, webhook in enumerate(job.notify):
        try:
            url.from_environment(webhook.url.env, environment)
        except url.UrlError as error:
            result.append(
                Problem(
                    path=("notify", i, "url", "env"),
                    value=f"the URL in {webhook.url.env}",
                    wrong=str(error),
                    allowed="https://... or http://..., without a user name",
                    fix="Correct the variable, or the Secret that it comes from",
                )
            )
    return result

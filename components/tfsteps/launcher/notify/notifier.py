"""The observer that turns changes of a job into notifications. It never waits and never raises."""

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tfsteps.runs.events import LogLines, PartialLine, State
from tfsteps.runs.status import Status
from tfsteps.spec import Problem, TrainingJob, Webhook

if TYPE_CHECKING:  # imported when a job has a webhook: start-up is measured
    from tfsteps.launcher.notify.delivery import Channel

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
        self._channels = [channel for webhook in job.notify if (channel := self._channel(webhook, environment))]
        self._first = len(self.warnings)

    def _channel(self, webhook: Webhook, environment: Mapping[str, str]) -> "Channel | None":
        from tfsteps.launcher.notify import delivery, notification  # noqa: PLC0415

        name = webhook.url.env
        try:
            if webhook_format := notification.from_environment(name, environment):
                return delivery.Channel(webhook, webhook_format, self._warn)
            self._warn(f"A webhook is not called: the launcher's variable {name} is not set.")
        except notification.UrlError as error:
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


def webhook_problems(job: TrainingJob) -> list[Problem]:
    """Return the problems of the URLs of a job's webhooks; a variable that is not set is none. Shows no URL."""
    if not job.notify:
        return []
    from tfsteps.launcher.notify import notification  # noqa: PLC0415

    result = []
    for i, webhook in enumerate(job.notify):
        try:
            notification.from_environment(webhook.url.env)
        except notification.UrlError as error:
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

"""One webhook of a job: a bounded queue of notifications, and the thread that sends them."""

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfsteps.launcher.notify.notification import Notification
from tfsteps.launcher.notify.url import Url
from tfsteps.spec import Webhook

if TYPE_CHECKING:
    from tfsteps.launcher.notify.delivery import Delivery

PATIENCE_SECONDS = 600.0
"""How long a notification is sent again while the job goes on."""

_QUEUED = 100  # messages; a job that restarts more often while its receiver is down loses the oldest


class Channel:
    """The queue and the thread of one webhook; the thread starts with the first notification.

    Attributes:
        webhook: The webhook.
        closing: Set when the step is at its end.
    """

    def __init__(self, webhook: Webhook, url: Url, warn: Callable[[str], None]) -> None:
        """Call `warn` with each reason why notifications are lost."""
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

    def put(self, notification: Notification) -> None:
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

    def _send(self, notification: Notification) -> str:
        """Send a notification, and return why it was not delivered; empty = it was."""
        from tfsteps.launcher.notify import delivery, formats  # noqa: PLC0415  not in the launcher's loop

        self._delivery = self._delivery or delivery.Delivery(self._url)
        message = delivery.Message(notification.id, notification.event, formats.body(notification, self.webhook.format))
        return self._delivery.send(message, PATIENCE_SECONDS, self.closing, self._messages.empty)

    def _problem(self, problem: str) -> None:
        if not self._given_up:
            where = f"{self._url} (variable {self.webhook.url.env})"
            self._warn(f"Notifications to {where} were not delivered: {problem}.")

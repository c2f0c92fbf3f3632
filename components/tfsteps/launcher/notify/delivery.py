"""Delivery of notifications to one webhook: a queue, and HTTP POST, retried while the receiver is unavailable."""

import contextlib
import queue
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, ReadTimeoutError

from tfsteps import __version__
from tfsteps.kube import backoff, connections
from tfsteps.kube.connections import retry_after
from tfsteps.kube.credentials import Access
from tfsteps.launcher.notify.notification import Notification, Url, body
from tfsteps.spec import Webhook

_CONNECT_SECONDS, _READ_SECONDS = 5.0, 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_LAST_PAUSE = 1.0  # the longest pause once the step is at its end
_TRANSIENT = {408, 425, 429, *range(500, 600)}
PATIENCE_SECONDS = 600.0
"""How long a notification is sent again while the job goes on."""

_QUEUED = 100  # messages; a job that restarts more often while its receiver is down loses the oldest


class Message(msgspec.Struct, frozen=True):
    """A request to be sent.

    Attributes:
        id: The id of the event.
        event: The event.
        body: The JSON body.
    """

    id: str
    event: str
    body: bytes


class _ReceiverAnswer(msgspec.Struct, frozen=True):
    """What became of a request: `problem` is empty if it was accepted; `wait` = seconds that the receiver asks for."""

    problem: str = ""
    transient: bool = False
    wait: float = 0.0


class Delivery:
    """Sends messages to one webhook, one after another. Errors are returned as text without the URL.

    Attributes:
        problem: Why the last request was not accepted; empty = it was, or there was none.
    """

    def __init__(self, url: Url) -> None:
        """Connect at the first message."""
        self.problem = ""
        self._url = url
        self._pool: urllib3.HTTPConnectionPool | None = None
        self._target = url.target

    def send(
        self, message: Message, patience: float, closing: threading.Event, last: Callable[[], bool] = lambda: True
    ) -> str:
        """Send a message, and return why it was not delivered; empty = it was.

        Args:
            message: The message.
            patience: Seconds in which it is sent again while the receiver is unavailable.
            closing: Once set, pauses are short: the process ends soon.
            last: Whether no other message waits; once `closing` is set, a message that is not the last is tried once.
        """
        end = time.monotonic() + patience
        for pause in backoff.pauses(_FIRST_PAUSE, _LONGEST_PAUSE):
            answer = self._post(message)
            self.problem = answer.problem
            wait = max(backoff.spread(pause), answer.wait)
            given_up = time.monotonic() + wait >= end or (closing.is_set() and not last())
            if not answer.transient or given_up:
                return answer.problem
            if closing.is_set():
                time.sleep(max(min(wait, _LAST_PAUSE), answer.wait))
            else:
                closing.wait(wait)
        raise AssertionError

    def _post(self, message: Message) -> _ReceiverAnswer:
        """Send a message once."""
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"tfsteps/{__version__}",
            "Idempotency-Key": message.id,
            "Tfsteps-Event": message.event,
        }
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS)
        try:
            pool = self._pool = self._pool or self._connections()
            answer = pool.urlopen(
                "POST",
                self._target,
                message.body,
                headers,
                timeout=timeout,
                preload_content=False,  # the body of an answer may be endless, and may contain the URL
                redirect=False,
                assert_same_host=False,  # it is the proxy's pool if the URL is for a proxy
            )
            answer.close()
        except (HTTPError, OSError, ValueError) as error:
            return _ReceiverAnswer(_reason(error), transient=True)
        return _judged(answer.status, retry_after(answer.headers))

    def _connections(self) -> urllib3.HTTPConnectionPool:
        """Return the connection pool of the receiver, through the proxy that the environment names."""
        proxy, parts = _proxy(self._url), self._url.parts
        if proxy and parts.scheme == "http":
            self._target = self._url.server + self._url.target  # such a proxy reads the whole URL
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        access = Access(server=self._url.server, namespace="", tls=tls, token=lambda _: "", name="", proxy=proxy)
        return connections.pool(access)


def _proxy(url: Url) -> str:
    """Return the URL of the proxy by HTTPS_PROXY, HTTP_PROXY and NO_PROXY; empty = none."""
    if urllib.request.proxy_bypass(url.parts.netloc):
        return ""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.parts.scheme) or proxies.get("all", "")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _judged(status: int, wait: float) -> _ReceiverAnswer:
    if 200 <= status < 300:
        return _ReceiverAnswer()
    if status in _TRANSIENT:
        return _ReceiverAnswer(f"it answers with status {status}", transient=True, wait=wait)
    if 300 <= status < 400:
        return _ReceiverAnswer(f"it answers with status {status}, a redirect, which is not followed; correct the URL")
    return _ReceiverAnswer(f"it refuses them with status {status}; check the URL and the format")


def _reason(error: BaseException) -> str:
    """Return why there was no answer, without the text of urllib3's errors: it may contain the URL."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not valid: {cause.verify_message}"
        if isinstance(cause, TimeoutError | ReadTimeoutError):
            return "it does not answer in time"
        if isinstance(cause, OSError) and cause.strerror:
            return f"it cannot be reached: {cause.strerror}"
    return f"it cannot be reached: {type(error).__name__}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and the errors behind it."""
    cause: BaseException | None = error
    while cause:
        yield cause
        cause = cause.__cause__ or cause.__context__


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
        self._delivery = self._delivery or Delivery(self._url)
        message = Message(notification.id, notification.event, body(notification, self.webhook.format))
        return self._delivery.send(message, PATIENCE_SECONDS, self.closing, self._messages.empty)

    def _problem(self, problem: str) -> None:
        if not self._given_up:
            where = f"{self._url} (variable {self.webhook.url.env})"
            self._warn(f"Notifications to {where} were not delivered: {problem}.")

"""The URL of a webhook, what it receives with `format: json`, and the text for Slack: docs/guides/notifications.md."""

import datetime as dt
import hashlib
import json
import os
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.runs.status import FailureSummary, Status
from tfsteps.spec import format_duration

SCHEMA = "tfsteps.dev/notification/v1"
"""Identifies the schema. New fields may be added; a change of a field's meaning is a new version."""

MAX_TEXT = 4000
"""Characters of a message or failure sentence; a longer one is cut."""

_MAX_METRICS = 100
_MAX_TASKS = 50
_INTERNAL = (".svc", ".svc.cluster.local", ".localhost")
_SECTION = 2900  # characters; Slack refuses a section with more than 3000
_TEXT = 1000
_NAME = 200
_SHOWN_METRICS = 10
_SHOWN_TASKS = 10
_EMOJI = {
    "succeeded": ":white_check_mark:",
    "failed": ":x:",
    "deadline": ":alarm_clock:",
    "cancelled": ":no_entry_sign:",
    "paused": ":double_vertical_bar:",
    "resumed": ":arrow_forward:",
    "restarting": ":arrows_counterclockwise:",
    "unknown": ":grey_question:",
}
_WORDS = {
    "deadline": "passed a deadline",
    "restarting": "is restarting",
    "cancelled": "was cancelled",
    "unknown": "may have failed",
}

_MAX_URL = 2048


class UrlError(ValueError):
    """A URL that cannot be used. The message does not contain it."""


class Url(msgspec.Struct, frozen=True):
    """The URL of a webhook. `str()` returns what can be shown: the scheme and the host.

    Attributes:
        text: The whole URL.
    """

    text: str

    @property
    def parts(self) -> urllib.parse.SplitResult:
        """The parts of the URL."""
        return urllib.parse.urlsplit(self.text)

    @property
    def server(self) -> str:
        """The scheme, the host and the port."""
        return f"{self.parts.scheme}://{self.parts.netloc}"

    @property
    def target(self) -> str:
        """The path and the query, as a request has them."""
        return urllib.parse.urlunsplit(("", "", self.parts.path or "/", self.parts.query, ""))

    def __str__(self) -> str:
        """Return the scheme and the host."""
        return self.server

    def __repr__(self) -> str:
        """Return the same as `str()`: a traceback must not contain the URL."""
        return f"Url({self.server})"


def from_environment(name: str, environment: Mapping[str, str] = os.environ) -> Url | None:
    """Return the URL in a variable; None = the variable is not set, or empty.

    Raises:
        UrlError: It contains something else than an http or https URL.
    """
    text = environment.get(name, "").strip()  # files of Secrets often end with a newline
    return checked(text) if text else None


def checked(text: str) -> Url:
    """Return `text` as a URL. UrlError if it cannot be one that requests are sent to."""
    if len(text) > _MAX_URL:
        raise UrlError(f"is longer than {_MAX_URL} characters")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise UrlError("contains a space, a line break or another character that no URL contains")
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
    except ValueError:
        raise UrlError("is not a URL") from None  # the error has the URL
    if parts.scheme not in ("http", "https"):
        raise UrlError("does not begin with https:// or http://")
    if not parts.hostname or port == 0:
        raise UrlError("has no host or no valid port")
    if parts.username is not None or parts.password is not None:
        raise UrlError("contains a user name, which is not supported")
    return Url(text)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job failed.

    Attributes:
        summary: One sentence.
        replica: The replica that failed first, `worker-1`; empty = no single replica.
        exit_code: Its exit code; null = not known.
        meaning: Meaning of that exit code; empty = none.
        fault: platform = the same job may succeed next time; user = something must be changed first.
    """

    summary: str
    replica: str
    exit_code: int | None
    meaning: str
    fault: str


class FailedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a run that failed, as the engine reports it.

    Attributes:
        name: Its name.
        message: The engine's message; empty = none.
    """

    name: str
    message: str


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """One event, of a job or of a whole run. Empty text, null and empty lists = not known, or none.

    Attributes:
        schema: `tfsteps.dev/notification/v1`.
        id: The same for every delivery of the same event, also by a restarted launcher: drop a repeated one.
        event: succeeded, failed, deadline, cancelled, paused, resumed or restarting; of a run, unknown = whether it
            failed is not known.
        scope: job = the event of one job, sent by its launcher; run = the end of a run, sent by the step `notify`.
        at: When the event was noticed, ISO 8601.
        run: The run.
        pipeline: The pipeline's name.
        task: The task that launched the job.
        attempt: The attempt at the task, from 0.
        name: The name in the job file; of a run, the pipeline's name.
        job: The job object's name in its system.
        system: The job system.
        namespace: The job's namespace.
        state: State of the job, such as failed or lost; of a run, the engine's word.
        message: One sentence about the state.
        failure: Why the job failed.
        tasks: The steps of a run that failed; at most 50.
        created: When the job was created, ISO 8601.
        started: When all replicas had started, ISO 8601.
        ended: When the job ended, ISO 8601.
        total_seconds: From creation to the end, or to this event.
        running_seconds: From the start of all replicas to the end, or to this event.
        metrics: The metrics by name, at the end; at most 100.
        output: The output folder.
        model: The model's folder.
        tensorboard_url: Address of the TensorBoard, unless only the machine or the cluster itself can reach it.
    """

    schema: str = SCHEMA
    id: str
    event: str
    scope: str
    at: str
    run: str
    pipeline: str = ""
    task: str = ""
    attempt: int = 0
    name: str
    job: str = ""
    system: str = ""
    namespace: str = ""
    state: str
    message: str = ""
    failure: Failure | None = None
    tasks: list[FailedTask] = []
    created: str | None = None
    started: str | None = None
    ended: str | None = None
    total_seconds: float | None = None
    running_seconds: float | None = None
    metrics: dict[str, float] = {}
    output: str = ""
    model: str = ""
    tensorboard_url: str = ""


def of_job(status: Status, event: str, at: float, name: str, count: int) -> Notification:
    """Return the notification of an event of a job.

    Args:
        status: The job's status.
        event: The event.
        at: When it was noticed, in seconds since the epoch.
        name: The name in the job file.
        count: How often the event came in this attempt, from 1: a job may be paused several times.
    """
    identity, failure = status.identity, status.failure
    until = status.ended or at
    return Notification(
        id=event_id(identity.run, identity.task, str(identity.attempt), event, str(count)),
        event=event,
        scope="job",
        at=_iso(at),
        run=identity.run,
        pipeline=identity.pipeline,
        task=identity.task,
        attempt=identity.attempt,
        name=name,
        job=status.job,
        system=status.system,
        namespace=status.namespace,
        state=status.state,
        message=cut(status.message, MAX_TEXT),
        failure=_failure(failure) if failure else None,
        created=_iso(status.created) if status.created else None,
        started=_iso(status.started) if status.started else None,
        ended=_iso(status.ended) if status.ended else None,
        total_seconds=round(max(until - status.created, 0), 3) if status.created else None,
        running_seconds=round(max(until - status.started, 0), 3) if status.started else None,
        metrics=dict(list(status.metrics.items())[:_MAX_METRICS]),
        output=status.output,
        model=status.model,
        tensorboard_url=status.tensorboard_url if _public(status.tensorboard_url) else "",
    )


def _failure(failure: FailureSummary) -> Failure:
    """Return a failure without the last lines of its log, which may contain anything."""
    return Failure(
        summary=cut(failure.summary, MAX_TEXT),
        replica=failure.replica,
        exit_code=failure.exit_code,
        meaning=failure.meaning,
        fault=failure.fault,
    )


def of_run(
    run: str,
    pipeline: str,
    event: str,
    *,
    state: str,
    at: float,
    message: str = "",
    tasks: Sequence[FailedTask] = (),
    cause: str = "",
) -> Notification:
    """Return the notification of the end of a run.

    Args:
        run: The run.
        pipeline: The pipeline's name.
        event: succeeded, failed, cancelled or unknown.
        state: The engine's word for it.
        at: When it was noticed, in seconds since the epoch.
        message: One sentence about it; empty = none.
        tasks: The steps that failed.
        cause: Distinguishes this end from an earlier one of the run, which was retried; empty = not known.
    """
    kept = [FailedTask(name=cut(task.name, 200), message=cut(task.message, 500)) for task in tasks[:_MAX_TASKS]]
    return Notification(
        id=event_id(run, "failed" if event == "unknown" else event, cause),  # another try may know more
        event=event,
        scope="run",
        at=_iso(at),
        run=run,
        pipeline=pipeline,
        name=pipeline or run,
        state=state,
        message=message,
        tasks=kept,
    )


def event_id(*parts: str) -> str:
    """Return an id for an event: 32 hexadecimal digits that depend on `parts` alone."""
    return hashlib.sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()[:32]


def cut(text: str, length: int) -> str:
    """Return `text` with at most `length` characters; the end of a longer one is replaced by an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def plain(notification: Notification) -> dict[str, Any]:
    """Return the notification as a JSON object."""
    result: dict[str, Any] = msgspec.to_builtins(notification)
    return result


def _iso(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds")


def _public(url: str) -> bool:
    """Tell whether another machine may reach a URL."""
    try:
        host = urllib.parse.urlsplit(url).hostname or ""
    except ValueError:
        return False
    return bool(host) and host not in ("localhost", "127.0.0.1", "::1") and not host.endswith(_INTERNAL)


def body(notification: Notification, format_: str) -> bytes:
    """Return the body of the request; `format_` is json or slack."""
    return FORMATS[format_](notification)


def _json(notification: Notification) -> bytes:
    return _encoded(plain(notification))


def _encoded(value: Any) -> bytes:
    # not msgspec: it refuses half of a surrogate pair, which a message may contain; NaN and infinity are not JSON
    return json.dumps(_finite(value), allow_nan=False).encode()


def _finite(value: Any) -> Any:
    match value:
        case float() if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124
            return None
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list():
            return [_finite(item) for item in value]
        case _:
            return value


def _slack(notification: Notification) -> bytes:
    """Return a message with blocks; `text` is what notifications on a phone show."""
    words = _WORDS.get(notification.event) or (
        notification.event if notification.event in ("succeeded", "failed") else f"was {notification.event}"
    )
    state = f" ({notification.state})" if notification.state == "lost" else ""
    seconds = notification.total_seconds
    after = f" after {format_duration(round(seconds))}" if seconds is not None and notification.ended else ""
    name = escaped(notification.name, _NAME)
    section = _truncated([f"{_EMOJI[notification.event]} *{name}* {words}{state}{after}", *_details(notification)])
    fields = {
        "pipeline": notification.pipeline if notification.scope == "job" else "",
        "run": notification.run,
        "task": notification.task,
        "attempt": str(notification.attempt) if notification.attempt else "",
        "job": notification.job,
        "system": notification.system,
        "namespace": notification.namespace,
    }
    blocks: list[Mapping[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": section}},
        {"type": "context", "elements": [{"type": "mrkdwn", "text": _context(fields)}]},
    ]
    reason = escaped(_sentence(notification), _TEXT)
    text = f"{name} {words}{state}{after}" + (f": {reason}" if reason else "")
    return _encoded({"text": text, "blocks": blocks})


def _details(notification: Notification) -> list[str]:
    lines = []
    if sentence := _sentence(notification):
        lines.append(escaped(sentence, _TEXT))
    if notification.failure and notification.failure.fault == "platform":
        lines.append("The same job may succeed next time.")
    for task in notification.tasks[:_SHOWN_TASKS]:
        message = f": {escaped(task.message, 100)}" if task.message else ""
        lines.append(f"• {escaped(task.name, 60)}{message}")
    if (rest := len(notification.tasks) - _SHOWN_TASKS) > 0:
        lines.append(f"• and {rest} more")
    if metrics := list(notification.metrics.items())[:_SHOWN_METRICS]:
        lines.append(", ".join(f"{escaped(name, 63)} = {value:.6g}" for name, value in metrics))
    if notification.tensorboard_url.startswith(("http://", "https://")):
        url = escaped(notification.tensorboard_url, _TEXT).replace("|", "%7C")
        lines.append(f"<{url}|TensorBoard>")
    return lines


def _sentence(notification: Notification) -> str:
    return notification.failure.summary if notification.failure else notification.message


def _truncated(lines: list[str]) -> str:
    """Return as many of the lines as fit in a section; none is cut, because a cut entity or link is not valid."""
    text = ""
    for line in lines:
        if len(text) + len(line) + 1 <= _SECTION:
            text += f"\n{line}" if text else line
    return text


def _context(fields: Mapping[str, str]) -> str:
    code = {name: escaped(value, _NAME).replace("`", "'") for name, value in fields.items() if value}
    return " · ".join(f"{name} `{value}`" for name, value in code.items())


def escaped(text: str, length: int) -> str:
    """Return `text` for Slack on one line: `&`, `<` and `>` are entities, at most `length` characters with them.

    So no text can mention a channel or a person, or contain a link with another name.
    """
    entities = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    pieces: list[str] = []
    size = 0
    for character in " ".join(text.split()):
        piece = entities.get(character, character)
        size += len(piece)
        if size > length - 1:
            return "".join(pieces) + "…"
        pieces.append(piece)
    return "".join(pieces)


FORMATS: Mapping[str, Callable[[Notification], bytes]] = {"json": _json, "slack": _slack}

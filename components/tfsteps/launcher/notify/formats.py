"""The bodies of notifications: JSON, and the message that Slack's incoming webhooks take."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tfsteps.launcher.notify.notification import Notification, plain
from tfsteps.spec import format_duration

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
}
_WORDS = {"deadline": "passed a deadline", "restarting": "is restarting", "cancelled": "was cancelled"}


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
        lines.append("The platform's fault: the same job may succeed next time.")
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

"""How a run ended, in the words of the engines: Kubeflow Pipelines, its local runner, and Argo. Pure."""

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

RunEvent = Literal["succeeded", "failed", "cancelled"]

_EVENTS: dict[str, RunEvent] = {
    "succeeded": "succeeded",
    "complete": "succeeded",
    "cached": "succeeded",
    "canceled": "cancelled",
    "cancelled": "cancelled",
}


class FailedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a Workflow that failed.

    Attributes:
        name: Its name in the pipeline.
        message: Argo's message; empty = none.
        finished: When it ended, as Argo writes it; empty = not known.
    """

    name: str
    message: str = ""
    finished: str = ""


def run_event(state: str) -> RunEvent:
    """Return the event of an engine's state.

    Kubeflow Pipelines reports RUNNING if a launcher was killed or the run was terminated: it counts as failed, as any
    state that is not known.
    """
    return _EVENTS.get(state.strip().lower(), "failed")


def failed_nodes(failures: str) -> list[FailedNode]:
    """Return the nodes in the text of `{{workflow.failures}}`, in the order in which they ended.

    Argo quotes the JSON once more. A text that was cut yields the nodes that are complete.
    """
    nodes = []
    for item in _objects(_unquoted(failures)):
        name, message, finished = (_text(item.get(key)) for key in ("displayName", "message", "finishedAt"))
        if name:
            nodes.append(FailedNode(name=name, message=message, finished=finished))
    return sorted(nodes, key=lambda node: (node.finished, node.name, node.message))  # Argo's order is random


def _unquoted(text: str) -> str:
    text = text.strip()
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:  # it was cut, or has one of Go's escapes
        return re.sub(r"\\(.)", lambda match: f"\\{match[1]}" if match[1] in "nrt" else match[1], text.strip('"'))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        try:
            item, end = decoder.raw_decode(text, at)
        except ValueError:
            return
        yield item
        at = text.find("{", end)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

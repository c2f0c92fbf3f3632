"""The program of the `notify` component: sends the notification of the end of a run."""

import functools
import json
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.answer import Answer, unknown
from tfsteps.engines import registry as engines
from tfsteps.engines.base import StepTask
from tfsteps.engines.plugin import EnginePlugin
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.notify.notification import (
    FORMATS,
    FailedTask,
    Notification,
    Url,
    UrlError,
    body,
    from_environment,
    of_run,
)
from tfsteps.spec import Problem, SpecError
from tfsteps.spec.types import WEBHOOK_DEFAULT, WEBHOOK_PREFIX, WEBHOOK_VARIABLE
from tfsteps.steps import program
from tfsteps.steps.program import StepResult
from tfsteps.text import streams

_SOURCE = "inputs"
_CHOICES = ("succeeded", "failed", "cancelled")
_PATIENCE_SECONDS = 60.0
_ANSWER_SECONDS = 3.0
_UNKNOWN = "unknown"
"""The event of a run whose end is not known: sent to all that receive failures."""


def main(argv: Sequence[str] | None = None) -> int:
    """Send the notification that `argv` describes and return the exit code; None = the arguments of this process."""
    notify = functools.partial(_notify, arguments=sys.argv[1:] if argv is None else argv)
    return program.run(notify, argv, failed="The notification could not be sent")


def _notify(task: StepTask, arguments: Sequence[str]) -> StepResult:
    inputs = task.parameters
    events, format_ = _events(inputs), _one_of("format", inputs.get("format") or "json", tuple(FORMATS))
    url = _url(inputs)
    notification = _notification(task, inputs, engines.step_engine(arguments))
    what = f"The notification `{notification.event}`"
    if notification.event not in events and not (notification.event == _UNKNOWN and "failed" in events):
        problem, sentence = "chosen", f"{what} is not among those to send: {', '.join(events)}."
    elif url is None:
        problem, sentence = "unset", f"warning: {what} was not sent: the variable {_variable(inputs)} is not set."
    elif problem := _sent(url, notification, format_):
        sentence = f"warning: {what} was not delivered to {url}: {problem}."
    else:
        sentence = f"{what} was delivered to {url}."
    task.write({"delivered": not problem}, {})
    return StepResult(sentence, ExitCode.SUCCEEDED)


def _sent(url: Url, notification: Notification, format_: str) -> str:
    """Send the notification, and return why it was not delivered; empty = it was."""
    from tfsteps.launcher.notify.delivery import Delivery, Message  # noqa: PLC0415  a step that sends nothing needs no HTTP

    message = Message(notification.id, notification.event, body(notification, format_))
    return Delivery(url).send(message, _PATIENCE_SECONDS, threading.Event())


def _notification(task: StepTask, inputs: Mapping[str, Any], engine: EnginePlugin) -> Notification:
    status = inputs.get("status")
    state = str(inputs.get("state") or (status.get("state") if isinstance(status, dict) else "") or "")
    if not state or "{{" in state:
        fix = engine.run_state_source or "Pass the state of the run that the engine hands to an exit handler"
        raise _wrong("state", state, "is not the state of a run", fix)
    event, state, message = _run_end(state, engine)
    identity = task.identity()
    nodes = failed_nodes(inputs.get("failures") or "")
    return of_run(
        identity.run,
        identity.pipeline,
        event,
        state=state,
        message=message,
        at=time.time(),
        tasks=[FailedTask(name=node.name, message=node.message) for node in nodes],
        cause=f"{nodes[0].name} {nodes[0].finished}" if nodes else "",  # later ones may be retries of this step
    )


def _run_end(state: str, engine: EnginePlugin) -> tuple[str, str, str]:
    """Return the event of the state that an engine reports, the state by what its objects say, and a sentence."""
    end = {name.lower(): end for name, end in engine.run_ends.items()}.get(state.strip().lower())
    if end is None:
        return _UNKNOWN, state, f"It is not known what the state {state} of {engine.title} means."
    if end != "unreported":
        return end, state, ""
    succeeded = _all_succeeded()
    if succeeded.unknown:
        return _UNKNOWN, state, f"The state is {state}, and {succeeded.why}."
    if succeeded.yes:
        return "succeeded", "Succeeded", ""
    return "failed", "Failed", "A step failed, its launcher was killed, or the run was terminated."


def _all_succeeded() -> Answer:
    """Return whether all steps before this one have succeeded, by the Workflow of this pod."""
    from tfsteps.kube import access  # noqa: PLC0415  most ends are reported, and need no cluster
    from tfsteps.kube.client import Api  # noqa: PLC0415
    from tfsteps.systems.launcher_pod import LauncherPod  # noqa: PLC0415

    if not access.in_cluster():
        return unknown("this step runs in no pod")
    try:
        api = Api(access.find(), patience=_PATIENCE_SECONDS, read_seconds=_ANSWER_SECONDS)
        host = LauncherPod.find(api, engines.find_pipeline)
    except (ApiError, AccessError) as error:
        return unknown(error)
    ask = getattr(host.pipeline, "hooked_succeeded", None)  # engines of other packages may not say
    return ask() if ask else unknown(host.unread or "the pipeline of this pod does not say")


def _events(inputs: Mapping[str, Any]) -> list[str]:
    events = inputs.get("events") or []
    if not isinstance(events, list):
        raise _wrong("events", repr(events), "is not a list", "Write a list of events", ", ".join(_CHOICES))
    if not events:
        raise _wrong("events", "", "is empty: nothing is sent", "Name an event", ", ".join(_CHOICES))
    return [_one_of("events", event, _CHOICES) for event in events]


def _variable(inputs: Mapping[str, Any]) -> str:
    variable = str(inputs.get("variable") or WEBHOOK_DEFAULT)
    if not re.fullmatch(WEBHOOK_VARIABLE, variable):  # perhaps it is the URL itself: not shown
        fix = f"Write something like {WEBHOOK_DEFAULT}"
        raise _wrong("variable", "", f"is not the name of a variable that begins with {WEBHOOK_PREFIX}", fix)
    return variable


def _url(inputs: Mapping[str, Any]) -> Url | None:
    variable = _variable(inputs)
    try:
        return from_environment(variable)
    except UrlError as error:
        fix = "Correct the Secret that it comes from"
        raise _wrong("variable", f"the URL in {variable}", str(error), fix) from None


def _one_of(field: str, value: object, allowed: Sequence[str]) -> str:
    if value in allowed:
        return str(value)
    raise _wrong(field, repr(value), "is not one of the choices", "Choose one of these", ", ".join(allowed))


def _wrong(field: str, value: str, wrong: str, fix: str, allowed: str = "") -> SpecError:
    return SpecError([Problem(path=(field,), value=value, wrong=wrong, fix=fix, allowed=allowed)], _SOURCE)


# --- the input `failures`


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


if __name__ == "__main__":
    streams.flush_and_exit(main())

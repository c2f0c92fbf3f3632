"""The program of the `notify` component: sends the notification of the end of a run."""

import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from tfsteps.engines.base import StepTask
from tfsteps.engines.run_status import RunEvent, failed_nodes, run_event
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.notify.notification import FORMATS, FailedTask, Notification, body, of_run
from tfsteps.launcher.notify.url import Url, UrlError, from_environment
from tfsteps.spec import Problem, SpecError
from tfsteps.spec.types import WEBHOOK_DEFAULT, WEBHOOK_PREFIX, WEBHOOK_VARIABLE
from tfsteps.steps import program
from tfsteps.steps.program import StepResult
from tfsteps.text import streams

_SOURCE = "inputs"
_PATIENCE_SECONDS = 60.0
_UNREPORTED = "A step ended without a report of its state: its launcher was killed, or the run was terminated."


def main(argv: Sequence[str] | None = None) -> int:
    """Send the notification that `argv` describes and return the exit code; None = the arguments of this process."""
    return program.run(_notify, argv, failed="The notification could not be sent")


def _notify(task: StepTask) -> StepResult:
    inputs = task.parameters
    events, format_ = _events(inputs), _one_of("format", inputs.get("format") or "json", tuple(FORMATS))
    url = _url(inputs)
    notification = _notification(task, inputs)
    what = f"The notification `{notification.event}`"
    if notification.event not in events:
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


def _notification(task: StepTask, inputs: Mapping[str, Any]) -> Notification:
    status = inputs.get("status")
    state = str(inputs.get("state") or (status.get("state") if isinstance(status, dict) else "") or "")
    if not state or "{{" in state:
        fix = "Write `{{workflow.status}}` in an exit handler; Kubeflow Pipelines sets it in an exit task"
        raise _wrong("state", state, "is not the state of a run", fix)
    identity = task.identity()
    nodes = failed_nodes(inputs.get("failures") or "")
    return of_run(
        identity.run,
        identity.pipeline,
        run_event(state),
        state=state,
        message=_UNREPORTED if state.upper() == "RUNNING" else "",
        at=time.time(),
        tasks=[FailedTask(name=node.name, message=node.message) for node in nodes],
        cause=f"{nodes[0].name} {nodes[0].finished}" if nodes else "",  # later ones may be retries of this step
    )


def _events(inputs: Mapping[str, Any]) -> list[str]:
    events = inputs.get("events") or []
    if not isinstance(events, list):
        raise _wrong("events", repr(events), "is not a list", "Write a list of events", ", ".join(get_args(RunEvent)))
    if not events:
        raise _wrong("events", "", "is empty: nothing is sent", "Name an event", ", ".join(get_args(RunEvent)))
    return [_one_of("events", event, get_args(RunEvent)) for event in events]


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


if __name__ == "__main__":
    streams.flush_and_exit(main())

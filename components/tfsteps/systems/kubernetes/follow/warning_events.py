"""Why pods of a job are not made: quotas, policies and webhooks refuse them to the operator, and only events tell."""

import datetime as dt
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from tfsteps.kube.client import Api, Resource
from tfsteps.kube.errors import ApiError

EVENTS = Resource("v1", "events", "Event")

_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 600.0
_SKEW_SECONDS = 60.0  # by which the cluster's clock may differ
_MOST = "500"
_OF_JOBS = "involvedObject.kind=Job,reason=FailedCreate"  # operators make Jobs, and those pods
_NAMES = re.compile(r'"[^"]*"')  # of pods, which are others at each try


class WarningEvent(msgspec.Struct, frozen=True):
    """A warning about pods, or objects that make them, which could not be made.

    Attributes:
        reason: FailedCreate, FailedCreatePod, TrainJobResourcesCreationFailed, ...
        message: What refused them.
    """

    reason: str
    message: str


class WarningEvents:
    """Looks for warnings about one job while pods of it are missing, and ever more seldom."""

    def __init__(self, api: Api, namespace: str, name: str, since: float) -> None:
        """Look with `api`, which must not be patient, for warnings about the job called `name` that are newer than it.

        What was said before all replicas had their pods is no news: `since`, in seconds since the epoch, moves on.
        """
        self._api = api
        self._namespace, self._name, self._since = namespace, name, since
        self._allowed = True
        self._latest: WarningEvent | None = None
        self._pause = _FIRST_PAUSE
        self._due = time.monotonic() + self._pause

    def look(self, missing: Callable[[], bool]) -> WarningEvent | None:
        """Return the newest warning; None = none is known. Asks, when it is time, whether pods are missing, and why."""
        due = time.monotonic() >= self._due
        if (due or self._latest) and not missing():
            self._latest, self._pause = None, _FIRST_PAUSE
            self._since = self._api.server_time() or time.time()
        elif due:
            self._ask()
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        else:
            return self._latest
        self._due = time.monotonic() + self._pause
        return self._latest

    def _ask(self) -> None:
        if not self._allowed:
            return
        try:
            listed = [*self._warnings(f"involvedObject.name={self._name}"), *self._warnings(_OF_JOBS)]
        except ApiError as error:
            self._allowed = error.unavailable  # without the right, nothing is said
            return
        if warning := newest(listed, self._name, self._since - _SKEW_SECONDS):
            known = self._latest and _NAMES.sub("", self._latest.message) == _NAMES.sub("", warning.message)
            self._latest = self._latest if known else warning

    def _warnings(self, selector: str) -> list[Mapping[str, Any]]:
        """Return warnings of the namespace; it may hold thousands that are not about us."""
        selected = {"fieldSelector": f"type=Warning,{selector}", "limit": _MOST}
        return self._api.list(EVENTS, self._namespace, once=True, **selected)["items"] or []


def newest(events: Iterable[Mapping[str, Any]], name: str, since: float) -> WarningEvent | None:
    """Return the newest warning that something of the job called `name` could not be made; None = none `since`."""
    warnings = [event for event in events if _is_complaint(event) and concerns(event, name)]
    last = max(warnings, key=event_time, default=None)
    if last is None or dt.datetime.fromisoformat(event_time(last)).timestamp() < since:
        return None
    return WarningEvent(last["reason"], last.get("message") or "")


def _is_complaint(event: Mapping[str, Any]) -> bool:
    return "Creat" in (event.get("reason") or "") and event["involvedObject"].get("kind") != "Pod"


def concerns(event: Mapping[str, Any], name: str) -> bool:
    """Tell whether an event is about the job called `name`, or an object whose name begins with that."""
    return f"{event['involvedObject'].get('name')}-".startswith(f"{name}-")


def event_time(event: Mapping[str, Any]) -> str:
    """Return when an event was seen last, as the API writes times; they sort by it."""
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    return str(next((at for at in times if at), event["metadata"]["creationTimestamp"]))

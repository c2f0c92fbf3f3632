"""Why pods of a job are not created: if a quota, policy or webhook refuses them, only events report it."""

import datetime as dt
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import EVENTS

_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 600.0
_SKEW_SECONDS = 60.0  # the cluster's clock may differ by this much
_MOST = "500"
_OF_JOBS = "involvedObject.kind=Job,reason=FailedCreate"  # operators create Jobs, which create pods
_NAMES = re.compile(r'"[^"]*"')  # of pods, which change at each try


class WarningEvent(msgspec.Struct, frozen=True):
    """A warning that pods, or objects that create pods, could not be created.

    Attributes:
        reason: FailedCreate, FailedCreatePod, TrainJobResourcesCreationFailed, ...
        message: Why they were refused.
    """

    reason: str
    message: str


class WarningEvents:
    """Reads warnings about one job while its pods are missing, at growing intervals."""

    def __init__(self, api: Api, namespace: str, name: str, since: float) -> None:
        """Read warnings about the job `name` since `since`, in seconds since the epoch. `api` must not retry.

        Once all replicas have pods, `since` advances: earlier warnings no longer apply.
        """
        self._api = api
        self._namespace, self._name, self._since = namespace, name, since
        self._allowed = True
        self._latest: WarningEvent | None = None
        self._pause = _FIRST_PAUSE
        self._due = time.monotonic() + self._pause

    def look(self, missing: Callable[[], bool]) -> WarningEvent | None:
        """Return the newest warning; None = none. If it is due, call `missing` and read the events again."""
        due, wait = time.monotonic() >= self._due, 0.0
        if (due or self._latest) and not missing():
            self._latest, self._pause = None, _FIRST_PAUSE
            self._since = self._api.server_time() or time.time()
        elif due:
            wait = self._ask()
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        else:
            return self._latest
        self._due = time.monotonic() + max(self._pause, wait)
        return self._latest

    def _ask(self) -> float:
        """Read the events; return the seconds that the server asks to wait before the next request."""
        if not self._allowed:
            return 0.0
        try:
            listed = [*self._warnings(f"involvedObject.name={self._name}"), *self._warnings(_OF_JOBS)]
        except ApiError as error:
            self._allowed = error.unavailable  # without the permission, no warnings are reported
            return error.retry_after
        if warning := newest(listed, self._name, self._since - _SKEW_SECONDS):
            known = self._latest and _NAMES.sub("", self._latest.message) == _NAMES.sub("", warning.message)
            self._latest = self._latest if known else warning
        return 0.0

    def _warnings(self, selector: str) -> list[Mapping[str, Any]]:
        """Return warnings of the namespace; it may have thousands that concern other jobs."""
        selected = {"fieldSelector": f"type=Warning,{selector}", "limit": _MOST}
        return self._api.list(EVENTS, self._namespace, once=True, **selected)["items"] or []


def newest(events: Iterable[Mapping[str, Any]], name: str, since: float) -> WarningEvent | None:
    """Return the newest warning that an object of the job `name` could not be created; None = none `since`."""
    warnings = [event for event in events if _is_creation_failure(event) and concerns(event, name)]
    last = max(warnings, key=event_time, default=None)
    if last is None or dt.datetime.fromisoformat(event_time(last)).timestamp() < since:
        return None
    return WarningEvent(last["reason"], last.get("message") or "")


def _is_creation_failure(event: Mapping[str, Any]) -> bool:
    return "Creat" in (event.get("reason") or "") and event["involvedObject"].get("kind") != "Pod"


def concerns(event: Mapping[str, Any], name: str) -> bool:
    """Tell whether an event is about the job called `name`, or about an object with that name as prefix."""
    return f"{event['involvedObject'].get('name')}-".startswith(f"{name}-")


def event_time(event: Mapping[str, Any]) -> str:
    """Return when an event occurred last, as the API writes times: text order is time order."""
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    return str(next((at for at in times if at), event["metadata"]["creationTimestamp"]))

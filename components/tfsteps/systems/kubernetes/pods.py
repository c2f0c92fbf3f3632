"""What a pod says about its replica. Pure."""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.systems.base import ReplicaState

_STUCK = {
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
}


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of a job.

    Attributes:
        name: Its name.
        uid: Its uid: a pod made again has the name of the one before it.
        state: Where its replica stands.
        started: When its container started last, in seconds since the epoch; None = not yet.
        restarts: How often the kubelet started its container again.
        exit_code: Of the container's last end; None = it has not ended, or nobody knows.
        reason: OOMKilled, Evicted, ImagePullBackOff, Unschedulable, ...; empty = none.
        message: One sentence to it; empty = none.
        node: Where it runs; empty = nowhere yet.
        ended: Whether its container has ended for good.
        deleting: Whether it is being deleted.
    """

    name: str
    uid: str
    state: ReplicaState
    started: float | None = None
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    node: str = ""
    ended: bool = False
    deleting: bool = False


def pod(item: Mapping[str, Any], container: str) -> Pod:
    """Return what the API's `item` says about `container`."""
    meta, status = item["metadata"], item.get("status", {})
    seen: Mapping[str, Any] = next(
        (each for each in status.get("containerStatuses") or [] if each["name"] == container), {}
    )
    phase = status.get("phase", "Pending")
    now, before = seen.get("state") or {}, seen.get("lastState") or {}
    ended = now.get("terminated") or {}
    last = ended or before.get("terminated") or {}
    running = now.get("running") or {}
    reason, message = next(_troubles(status, now, last))
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        state=_state(phase, now, seen.get("restartCount", 0)),
        started=_seconds(running.get("startedAt") or last.get("startedAt")),
        restarts=seen.get("restartCount", 0),
        exit_code=last.get("exitCode") if not running else None,
        reason=reason,
        message=message,
        node=item.get("spec", {}).get("nodeName", ""),
        ended=phase in ("Succeeded", "Failed"),
        deleting="deletionTimestamp" in meta,
    )


def _state(phase: str, now: Mapping[str, Any], restarts: int) -> ReplicaState:
    match phase:
        case "Succeeded":
            return ReplicaState.SUCCEEDED
        case "Failed":
            return ReplicaState.FAILED
        case "Running" if "running" in now:
            return ReplicaState.RUNNING
        case "Running" | "Pending" if "terminated" in now:  # the kubelet is about to say how it goes on
            return ReplicaState.SUCCEEDED if now["terminated"].get("exitCode") == 0 else ReplicaState.FAILED
        case _:
            return ReplicaState.RESTARTING if restarts else ReplicaState.PENDING


def _troubles(status: Mapping[str, Any], now: Mapping[str, Any], last: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (reason, message) of what is wrong with a pod, the most telling first."""
    if reason := status.get("reason"):  # Evicted, NodeLost, ...: the whole pod's
        yield reason, status.get("message", "")
    conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
    disruption = conditions.get("DisruptionTarget", {})
    if disruption.get("status") == "True":
        yield disruption.get("reason", "Disrupted"), disruption.get("message", "")
    inits = [each.get("state") or {} for each in status.get("initContainerStatuses") or []]
    for waiting in (state.get("waiting") or {} for state in (now, *inits)):
        if waiting.get("reason") in _STUCK:
            yield waiting["reason"], waiting.get("message", "")
    if last.get("reason") == "OOMKilled":
        yield "OOMKilled", "the container used more memory than its limit"
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        yield scheduled.get("reason", "Unschedulable"), scheduled.get("message", "")
    if last.get("exitCode") and "running" not in now and last.get("reason") != "Error":
        yield last.get("reason") or "", last.get("message", "")
    yield "", ""


def _seconds(text: str | None) -> float | None:
    return dt.datetime.fromisoformat(text).timestamp() if text else None

"""Parses a pod into the state of its replica. Pure."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfsteps.runs.code import image_of
from tfsteps.runs.events import ReplicaState
from tfsteps.spec.units import parse_bytes
from tfsteps.systems.kubernetes.times import latest, seconds

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

_PAUSE = re.compile(r'^Back-off pulling image ".*?": \w+: ')
"""The prefix of the message while the kubelet waits; removed, so that a failing pull has one message, not two."""
_BY_KUBELET = {"Terminated", "NodeShutdown", "Shutdown", "Preempting", "NodeAffinity", "UnexpectedAdmissionError"}
"""Reasons of a pod that its node ended (a shutdown, a critical pod) or rejected; `OutOfcpu`, ... are others."""


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """One container of a pod that has started: the program's, an init container, or a sidecar.

    Attributes:
        name: Its name; empty = the program's.
        restarts: Number of restarts by the kubelet.
        ended: Whether it has ended for good.
        sidecar: Whether it runs beside the program.
    """

    name: str
    restarts: int = 0
    ended: bool = False
    sidecar: bool = False


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of a job.

    Attributes:
        name: Its name.
        uid: Its uid: a recreated pod has the same name.
        version: The resourceVersion of its object; empty = not known.
        state: The state of its replica.
        created: When it was created, in seconds since the epoch; None = not known.
        started: When the program's container started last; None = not yet.
        finished: When that container ended, or the one that failed instead of it; None = it runs, or not known.
        restarts: Number of restarts of that container by the kubelet.
        exit_code: Of the last end of that container, or of the one that failed instead of it; None = there is none.
        reason: OOMKilled, Evicted, ImagePullBackOff, Unschedulable, ...; empty = none.
        message: A sentence about the reason; empty = none.
        node: Its node; empty = not scheduled yet.
        ended: Whether all its containers have ended for good.
        deleting: Whether it is being deleted.
        killed: Whether it ended after its deletion had begun.
        earlier: The same pod when its program ended before its last restart; None = it was not restarted.
        before: Number of incarnations of its replica before this pod.
        memory_limit: Memory limit of the program's container in bytes; None = it has none, or not known.
        image: Image of the program's container, as `images.image_of` returns it; empty = it has not started, or of an
            earlier incarnation: then it is not known.
        failed: Name of the container that failed instead of the program's; empty = none.
        containers: The started containers, the program's last.
    """

    name: str
    uid: str
    state: ReplicaState
    version: str = ""
    created: float | None = None
    started: float | None = None
    finished: float | None = None
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    node: str = ""
    ended: bool = False
    deleting: bool = False
    killed: bool = False
    earlier: "Pod | None" = None
    before: int = 0
    memory_limit: int | None = None
    image: str = ""
    failed: str = ""
    containers: tuple[Container, ...] = ()

    @property
    def program_ended(self) -> bool:
        """Whether the program has ended for good; sidecars may still run."""
        return self.ended or any(container.ended for container in self.containers if not container.name)

    @property
    def since(self) -> float | None:
        """When its present state began, in seconds since the epoch; None = not known."""
        match self.state:
            case ReplicaState.PENDING:
                return self.created
            case ReplicaState.RUNNING:
                return self.started
        return self.finished


def pod(item: Mapping[str, Any], container: str) -> Pod:
    """Parse a pod object; `container` is the name of the program's container."""
    meta, status = item["metadata"], item.get("status", {})
    seen: Mapping[str, Any] = next(
        (entry for entry in status.get("containerStatuses") or [] if entry["name"] == container), {}
    )
    phase = status.get("phase", "Pending")
    now, before = seen.get("state") or {}, seen.get("lastState") or {}
    ended = now.get("terminated") or {}
    last = ended or before.get("terminated") or {}
    running = now.get("running") or {}
    failed = _failed(item, container) if not last.get("exitCode") and not running else {}
    reason, message = next(_troubles(status, now, last, failed))
    finished = _finished(status, failed if phase == "Failed" and failed else ended)
    until, grace = seconds(meta.get("deletionTimestamp")), meta.get("deletionGracePeriodSeconds") or 0
    result = Pod(
        name=meta["name"],
        uid=meta["uid"],
        version=meta.get("resourceVersion", ""),
        state=_state(phase, now, seen.get("restartCount", 0)),
        created=seconds(meta.get("creationTimestamp")),
        started=seconds(running.get("startedAt") or last.get("startedAt")),
        finished=finished,
        restarts=seen.get("restartCount", 0),
        exit_code=(failed if phase == "Failed" and failed else last).get("exitCode") if not running else None,
        reason=reason,
        message=message,
        node=item.get("spec", {}).get("nodeName", ""),
        ended=phase in ("Succeeded", "Failed"),
        deleting="deletionTimestamp" in meta,
        killed=until is not None and finished is not None and finished >= until - grace,
        memory_limit=_memory_limit(item, failed.get("name") or container),
        image=image_of(seen.get("imageID") or ""),
        failed=failed.get("name", ""),
        containers=tuple(_containers(item, container)),
    )
    return msgspec.structs.replace(result, earlier=_earlier(result, seen))


def _memory_limit(item: Mapping[str, Any], container: str) -> int | None:
    spec = item.get("spec") or {}
    for entry in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        if entry.get("name") == container:
            with contextlib.suppress(ValueError):  # a form that tfsteps does not write, such as 1e9
                return parse_bytes(str(((entry.get("resources") or {}).get("limits") or {}).get("memory", "")))
    return None


def _finished(status: Mapping[str, Any], end: Mapping[str, Any]) -> float | None:
    """Return when a pod ended: by its container, or, if the kubelet killed it before, by its conditions."""
    if (finished := seconds(end.get("finishedAt"))) or status.get("phase") not in ("Succeeded", "Failed"):
        return finished
    return latest(condition.get("lastTransitionTime") for condition in status.get("conditions") or [])


def _earlier(seen: Pod, container: Mapping[str, Any]) -> Pod | None:
    """Return a pod at the end of its program's container before its last restart; None = it was not restarted.

    While the container waits for its restart, `lastState` is the end of its present incarnation.
    """
    end = (container.get("lastState") or {}).get("terminated")
    waits = "waiting" in (container.get("state") or {})
    if not end or not (waits or seen.restarts):
        return None
    return msgspec.structs.replace(
        seen,
        state=ReplicaState.FAILED if end.get("exitCode") else ReplicaState.SUCCEEDED,
        restarts=seen.restarts - (not waits),
        exit_code=end.get("exitCode"),
        reason=end["reason"] if end.get("reason") not in (None, "Error", "Completed") else "",
        message="",
        started=seconds(end.get("startedAt")),
        finished=seconds(end.get("finishedAt")),
        image=seen.image if waits else "",
    )


def _containers(item: Mapping[str, Any], program: str) -> Iterator[Container]:
    """Yield the started containers in start order, the program's last."""
    status, spec = item.get("status", {}), item.get("spec", {})
    policy, native = spec.get("restartPolicy", "Always"), _native_sidecars(item)
    over = status.get("phase") in ("Succeeded", "Failed")
    kinds = (("initContainerStatuses", True), ("containerStatuses", False))
    listed = [(entry, init) for key, init in kinds for entry in status.get(key) or []]
    for entry, init in sorted(listed, key=lambda pair: pair[0]["name"] == program):
        now, before = entry.get("state") or {}, entry.get("lastState") or {}
        if not {"running", "terminated"} & now.keys() and "terminated" not in before:
            continue  # it has not started
        sidecar = entry["name"] in native or not (init or entry["name"] == program)
        code = (now.get("terminated") or {}).get("exitCode")
        again = sidecar if init else policy == "Always"
        final = code is not None and not again and (policy == "Never" or code == 0)
        yield Container(
            name="" if entry["name"] == program else entry["name"],
            restarts=entry.get("restartCount", 0),
            ended=over or final,
            sidecar=sidecar,
        )


def _native_sidecars(item: Mapping[str, Any]) -> set[str]:
    """Return the names of the init containers that run as long as their pod."""
    inits = item.get("spec", {}).get("initContainers") or []
    return {container["name"] for container in inits if container.get("restartPolicy") == "Always"}


def _failed(item: Mapping[str, Any], program: str) -> Mapping[str, Any]:
    """Return the end and the name of a failed container that is not the program's; empty = none.

    Native sidecars are skipped: the pod's end ends them.
    """
    status, native = item.get("status", {}), _native_sidecars(item)
    beside = status.get("containerStatuses") or [] if status.get("phase") == "Failed" else []
    for kind, listed in (("init container", status.get("initContainerStatuses") or []), ("container", beside)):
        for entry in listed:
            now, before = entry.get("state") or {}, entry.get("lastState") or {}
            end = now.get("terminated") or ({} if "running" in now else before.get("terminated")) or {}
            if end.get("exitCode") and entry["name"] not in {program, *native}:
                return {**end, "name": entry["name"], "kind": kind}
    return {}


def _state(phase: str, now: Mapping[str, Any], restarts: int) -> ReplicaState:
    match phase:
        case "Succeeded":
            return ReplicaState.SUCCEEDED
        case "Failed":
            return ReplicaState.FAILED
        case "Running" if "running" in now:
            return ReplicaState.RUNNING
        case "Running" | "Pending" if "terminated" in now:  # the kubelet has not decided yet whether it restarts
            return ReplicaState.SUCCEEDED if now["terminated"].get("exitCode") == 0 else ReplicaState.FAILED
        case _:
            return ReplicaState.RESTARTING if restarts else ReplicaState.PENDING


def _troubles(
    status: Mapping[str, Any], now: Mapping[str, Any], last: Mapping[str, Any], failed: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield (reason, message) for each problem of a pod, the most specific first."""
    if reason := status.get("reason"):  # Evicted, NodeLost, ...: the whole pod's
        if reason in _BY_KUBELET or reason.startswith("OutOf"):
            yield "TerminationByKubelet", f"{reason}: {status.get('message', '')}"
        yield reason, status.get("message", "")
    conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
    disruption = conditions.get("DisruptionTarget", {})
    if disruption.get("status") == "True":
        yield disruption.get("reason", "Disrupted"), disruption.get("message", "")
    listed = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    for waiting in (state.get("waiting") or {} for state in (now, *(entry.get("state") or {} for entry in listed))):
        if waiting.get("reason") in _STUCK:
            yield waiting["reason"], _PAUSE.sub("", waiting.get("message", ""))
    if failed:
        yield _of_another(failed)
    if last.get("reason") == "OOMKilled":
        yield "OOMKilled", "the container used more memory than its limit"
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        yield scheduled.get("reason", "Unschedulable"), scheduled.get("message", "")
    if last.get("exitCode") and "running" not in now and last.get("reason") != "Error":
        yield last.get("reason") or "", last.get("message", "")
    yield "", ""


def _of_another(failed: Mapping[str, Any]) -> tuple[str, str]:
    """Return (reason, message) for a failed container that is not the program's."""
    reason, init = failed.get("reason") or "Error", failed["kind"] == "init container"
    last = (failed.get("message") or "").strip().rpartition("\n")[2]
    detail = f": {last}" if last else ""
    words = f"{failed['kind']} {failed['name']} failed with exit code {failed['exitCode']} ({reason}){detail}"
    return reason if reason != "Error" else "InitContainerFailed" if init else "SidecarFailed", words

"""Stores the packed code of a job on a claim, by a Kubernetes Job that mounts it, before the job is created.

The archive is in ConfigMaps that the Job owns. The Job deletes itself if the launcher does not.
"""

import base64
import contextlib
import pathlib
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.resource import CLAIMS, EVENTS, PODS, Resource
from tfsteps.runs import code_archive
from tfsteps.runs.code_archive import CodeError
from tfsteps.runs.identity import PREFIX
from tfsteps.spec import CodeSource, TrainingJob
from tfsteps.systems.base import LaunchError
from tfsteps.systems.expansion import escaped
from tfsteps.systems.kubernetes.code import MOST_BYTES
from tfsteps.systems.kubernetes.job_kind import JobKind, RenderedJob
from tfsteps.systems.kubernetes.permissions import CONFIG_MAPS, JOBS

if TYPE_CHECKING:
    from tfsteps.kube.client import Api

MOST_PARTS = 24
"""The most ConfigMaps of 700 KiB for one archive: the cluster's store keeps them until the Job is deleted."""

UNUSED_DAYS = 90
"""Days without a launch after which an archive is removed from the claim."""

_WRITABLE = {"ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"}
_FIX = "free or enlarge the claim, let the user of the replicas write to it, or use a bucket"
_CONTAINER, _MOUNT, _PARTS = "store", "/tfsteps-claim", "/tfsteps-parts"
_WAIT_SECONDS = 600.0  # until it is stored; pulling the image takes most of it
_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.25, 2.0
_JOB_SECONDS = 15.0  # between two reads of the Job while its pod runs
_SILENT_SECONDS = 5.0  # after which what it waits for is printed
_DELETE_SECONDS = 3.0  # for an answer: this launcher may be stopping
_HOPELESS = {"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError"}
_RESOURCES = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
_SIDECARS = {"sidecar.istio.io/inject": "false"}  # one would outlive the program


def store(api: "Api", kind: JobKind, job: TrainingJob, source: CodeSource, rendered: RenderedJob) -> None:
    """Store the code of a job on its claim.

    An archive that is there already, with the right hash, is used again. The pod has the image, user, node selector and
    tolerations of the job's first role.

    Args:
        api: The cluster.
        kind: Of the job.
        job: The job.
        source: Its code, which names a claim.
        rendered: What is rendered for it.

    Raises:
        LaunchError: It is not stored, or whether it is stored is not known.
        ApiError: The cluster refuses the objects.
        Stopped: `stopping` was set.
    """
    namespace, claim, digest = rendered.namespace, source.claim, source.digest or ""
    _check_claim(api, namespace, claim, job)
    try:
        archive = code_archive.read(digest) if code_archive.kept(digest) else b""
    except CodeError as error:
        raise LaunchError(str(error), retryable=False) from error
    if len(archive) > MOST_PARTS * MOST_BYTES:
        wrong = f"code is {len(archive) >> 10} KiB packed, and a claim takes at most {MOST_PARTS * MOST_BYTES >> 10}"
        largest = code_archive.largest(digest)
        raise LaunchError(f"{wrong} KiB; the largest files: {largest}; use a bucket or an image", retryable=False)
    parts = [archive[start : start + MOST_BYTES] for start in range(0, len(archive), MOST_BYTES)]
    role, template = next(iter(kind.roles(rendered.observed()).items()))
    name = f"tfsteps-code-{digest[:12]}-{uuid.uuid4().hex[:8]}"
    image = job.resolved_roles()[role].image or ""
    manifest = manifest_of(source, name, image, template.template["spec"], len(parts))
    uid = _created(api, JOBS, namespace, manifest)["metadata"]["uid"]
    owner = {"apiVersion": JOBS.api, "kind": JOBS.kind, "name": name, "uid": uid}
    try:
        for number, part in enumerate(parts):
            metadata = {"name": _part_name(name, number), "ownerReferences": [owner]}
            content = {"binaryData": {"part": base64.b64encode(part).decode()}, "immutable": True}
            _created(api, CONFIG_MAPS, namespace, {"metadata": metadata, **content})
        _await_end(api, namespace, name, claim)
    finally:
        with contextlib.suppress(ApiError):  # it deletes itself
            api.without_retries(_DELETE_SECONDS).delete(JOBS, namespace, name, uid)


def manifest_of(source: CodeSource, name: str, image: str, spec: Mapping[str, Any], parts: int) -> dict[str, Any]:
    """Return the Job that stores code on a claim.

    Args:
        source: The code.
        name: Of the Job.
        image: That it runs.
        spec: Of the pods of a role, whose user, nodes and pull secrets it has.
        parts: Number of ConfigMaps that have the archive; 0 = the archive must be on the claim.
    """
    program = pathlib.Path(__file__).with_name("store_code.py").read_text(encoding="utf-8")
    files = [f"{_PARTS}/{number}" for number in range(parts)]
    arguments = [program, f"{_MOUNT}/{source.claim_folder}", source.digest or "", str(UNUSED_DAYS), *files]
    words = ["sh", "-c", 'exec "$(command -v python3 || echo python)" -c "$@"', "tfsteps", *arguments]
    volumes: list[dict[str, Any]] = [{"name": "claim", "persistentVolumeClaim": {"claimName": source.claim}}]
    mounts: list[dict[str, Any]] = [{"name": "claim", "mountPath": _MOUNT}]
    if parts:
        items = [
            {"configMap": {"name": _part_name(name, number), "items": [{"key": "part", "path": str(number)}]}}
            for number in range(parts)
        ]
        volumes.append({"name": "parts", "projected": {"sources": items}})
        mounts.append({"name": "parts", "mountPath": _PARTS, "readOnly": True})
    trains: Mapping[str, Any] = next(iter(spec.get("containers") or [{}]))
    copied = ("nodeSelector", "tolerations", "securityContext", "imagePullSecrets", "serviceAccountName")
    container = {
        "name": _CONTAINER,
        "image": image,
        "command": [escaped(word) for word in words],
        "resources": _RESOURCES,
        "volumeMounts": mounts,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **{key: trains[key] for key in ("securityContext", "imagePullPolicy") if key in trains},
    }
    pod = {
        **{key: spec[key] for key in copied if key in spec},
        "containers": [container],
        "volumes": volumes,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
    }
    metadata = {"labels": {f"{PREFIX}code": (source.digest or "")[:12]}, "annotations": _SIDECARS}
    return {
        "apiVersion": JOBS.api,
        "kind": JOBS.kind,
        "metadata": {"name": name, **metadata},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": round(_WAIT_SECONDS) + 60,  # the launcher, which knows why, reports first
            "ttlSecondsAfterFinished": 60,
            "template": {"metadata": metadata, "spec": pod},
        },
    }


def _part_name(name: str, number: int) -> str:
    return f"{name}-{number}"


def _created(api: "Api", resource: Resource, namespace: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Create an object and return it, also if an earlier try of the request created it without an answer."""
    body = {"apiVersion": resource.api, "kind": resource.kind, **manifest}
    try:
        return api.create(resource, namespace, body)
    except ApiError as error:
        if error.status != 409:
            raise
    return api.get(resource, namespace, manifest["metadata"]["name"])


def _check_claim(api: "Api", namespace: str, claim: str, job: TrainingJob) -> None:
    """Raise LaunchError if a claim certainly cannot be written to, or not be mounted by the job's replicas.

    Where the nodes of the replicas decide whether they can mount it, this prints a warning. A claim that is not bound
    yet is bound when the pod starts.
    """
    try:
        item = api.get(CLAIMS, namespace, claim, once=True)
    except ApiError as error:
        if error.missing:
            raise LaunchError(
                f"claim {namespace}/{claim} is missing: create it, or correct code.bucket", retryable=False
            ) from error
        return  # not known; the pod will show it
    modes = set((item.get("status") or {}).get("accessModes") or (item.get("spec") or {}).get("accessModes") or ())
    phase = (item.get("status") or {}).get("phase")
    replicas = sum(role.replicas for role in job.resolved_roles().values())
    wrong = ""
    if phase == "Lost":
        wrong = "has lost its volume: restore it, or name another claim"
    elif modes and not modes & _WRITABLE:
        wrong = f"is read-only ({', '.join(sorted(modes))}): name a claim that pods may write to"
    elif modes == {"ReadWriteOncePod"} and replicas > 1:
        wrong = (
            f"is ReadWriteOncePod, and the job has {replicas} replicas that mount it: use ReadWriteMany, or a bucket"
        )
    if modes == {"ReadWriteOnce"} and replicas > 1:
        text = (
            f"claim {namespace}/{claim} of code.bucket is ReadWriteOnce, and the job has {replicas} replicas: those on "
        )
        with contextlib.suppress(OSError):
            sys.stderr.write(
                f"warning: {text}other nodes than the first cannot start; use ReadWriteMany, or a bucket\n"
            )
    if wrong:
        raise LaunchError(f"nothing was created: claim {namespace}/{claim} of code.bucket {wrong}", retryable=False)


def _await_end(api: "Api", namespace: str, name: str, claim: str) -> None:
    """Wait until a pod of the Job has succeeded. LaunchError if the Job fails, cannot start, or takes too long.

    Its pods are listed at growing intervals. The Job itself is read when no pod runs or waits, and now and then: it may
    be deleted, or end without a pod.
    """
    begun, shown, pause, read_at = time.monotonic(), "", _POLL_SECONDS, 0.0
    while True:
        pods = api.list(PODS, namespace, labelSelector=f"job-name={name}")["items"] or []
        statuses = [item.get("status") or {} for item in pods]
        if any(status.get("phase") == "Succeeded" for status in statuses):
            return
        waited = time.monotonic() - begun
        going = any(status.get("phase") in ("Pending", "Running") for status in statuses)
        ended: set[str] = set()
        if not going or waited > read_at + _JOB_SECONDS:
            read_at = waited
            status = api.get(JOBS, namespace, name).get("status") or {}
            ended = {item["type"] for item in status.get("conditions") or [] if item["status"] == "True"}
        if "Complete" in ended:
            return
        states = [entry["state"] for status in statuses for entry in status.get("containerStatuses") or []]
        message = next((state["terminated"].get("message", "") for state in states if "terminated" in state), "")
        waiting = _waiting(statuses, states)
        what = f"the code was not stored on claim {namespace}/{claim}"
        if "Failed" in ended:
            raise LaunchError(f"{what}: {message.strip() or waiting}; {_FIX}", retryable=not message)
        if waited > _WAIT_SECONDS or waiting.partition(":")[0] in _HOPELESS:
            events = _warnings(api, namespace, [item["metadata"]["name"] for item in pods])
            why = "; ".join(filter(None, [waiting, *events]))
            raise LaunchError(f"{what} within {waited:.0f} s: {why}; {_FIX}", retryable=False)
        if waited > _SILENT_SECONDS and waiting != shown:
            shown = waiting
            with contextlib.suppress(OSError):
                sys.stderr.write(f"code: a pod of Job {namespace}/{name} stores it on claim {claim}: {waiting}\n")
        if api.stopping.wait(pause):
            raise Stopped
        pause = min(pause * 1.25, _LONGEST_POLL_SECONDS)


def _waiting(statuses: Sequence[Mapping[str, Any]], states: Sequence[Mapping[str, Any]]) -> str:
    """Return what the pod waits for, `reason: message`."""
    conditions = [item for status in statuses for item in status.get("conditions") or []]
    unscheduled = [item for item in conditions if item["type"] == "PodScheduled" and item["status"] == "False"]
    for item in (*unscheduled, *(state["waiting"] for state in states if "waiting" in state)):
        return ": ".join(filter(None, [item.get("reason", ""), item.get("message", "")]))
    return "it runs" if states else "it has no pod, or no node, yet"


def _warnings(api: "Api", namespace: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the warnings about pods, each once, such as a volume that another node has attached; none if not known."""
    for name in names:
        with contextlib.suppress(ApiError):
            selector = f"involvedObject.kind=Pod,involvedObject.name={name},type=Warning"
            items = api.list(EVENTS, namespace, once=True, fieldSelector=selector)["items"] or []
            yield from dict.fromkeys(str(item.get("message", "")) for item in items)

"""Records every object with the labels of tfsteps in a namespace, by polls that no fault can reach."""

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from tests.soak.judge import ObjectRecord
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.runs.events import State
from tfsteps.runs.identity import ATTEMPT, RUN_ID
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.tensorboard.manifests import COMPONENT

_POLL_SECONDS = 2.0
_SELECTOR = "app.kubernetes.io/managed-by=tfsteps"
_OTHERS = [
    PODS,
    Resource("v1", "services", "Service"),
    Resource("v1", "configmaps", "ConfigMap"),
    Resource("v1", "secrets", "Secret"),
]
_WORKFLOW = "Workflow"


class Recorder:
    """Polls in a thread for the length of a `with` block.

    Attributes:
        objects: All objects that were ever seen, by uid.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="recorder", daemon=True)
        self.objects: dict[str, ObjectRecord] = {}

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop after the current poll."""
        self._stop.set()
        self._thread.join()

    def snapshot(self) -> list[ObjectRecord]:
        """Return the records after a poll of now."""
        self.poll()
        with self._lock:
            return list(self.objects.values())

    def poll(self) -> None:
        """Look at everything once. What cannot be listed keeps its records as they are."""
        with self._lock:
            for kind in registry.kinds():
                if (items := self._list(kind.resource)) is not None:
                    self._note(kind.resource, items, kind)
            for resource in _OTHERS:
                if (items := self._list(resource)) is not None:
                    self._note(resource, items, None)

    def _loop(self) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            self.poll()

    def _list(self, resource: Resource) -> list[dict[str, Any]] | None:
        with contextlib.suppress(ApiError):
            return list(self._api.iterate(resource, self._namespace, labelSelector=_SELECTOR))
        return None

    def _note(self, resource: Resource, items: Sequence[dict[str, Any]], kind: JobKind | None) -> None:
        now = time.time()
        jobs = {item["metadata"]["uid"]: item for item in (kind.group_objects(items) if kind else []) if _is_job(item)}
        for item in items:
            uid = item["metadata"]["uid"]
            record = self.objects.setdefault(uid, _record(resource, item, now, is_job=uid in jobs))
            record.last = now
            if record.ended is None:
                self._note_end(record, item, kind if uid in jobs else None, jobs.get(uid, item), now)
        there = {item["metadata"]["uid"] for item in items}
        for record in self.objects.values():
            if record.kind == f"{resource.api} {resource.kind}" and record.gone is None and record.uid not in there:
                record.gone = now

    def _note_end(
        self, record: ObjectRecord, item: Mapping[str, Any], kind: JobKind | None, whole: Mapping[str, Any], now: float
    ) -> None:
        if kind:
            state = kind.verdict(whole).state
            ended, record.succeeded = state.terminal, state is State.SUCCEEDED
        else:
            conditions = (item.get("status") or {}).get("conditions") or []
            ended = any(
                condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
                for condition in conditions
            )
        if ended:
            record.ended = now
        else:
            record.unfinished = now


def _is_job(item: Mapping[str, Any]) -> bool:
    """Tell whether an object is a job object, not a part of one that its controller created."""
    meta = item["metadata"]
    owners = meta.get("ownerReferences") or []
    return ATTEMPT in meta["labels"] and all(owner["kind"] == _WORKFLOW for owner in owners)


def _record(resource: Resource, item: Mapping[str, Any], now: float, *, is_job: bool) -> ObjectRecord:
    meta = item["metadata"]
    is_board = resource.kind == "Job" and COMPONENT.items() <= meta["labels"].items()
    return ObjectRecord(
        kind=f"{resource.api} {resource.kind}",
        name=meta["name"],
        uid=meta["uid"],
        run=meta["labels"].get(RUN_ID, ""),
        role="job" if is_job else "tensorboard" if is_board else "part",
        first=now,
        last=now,
    )

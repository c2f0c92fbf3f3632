"""One pass over the jobs of a namespace or of a cluster: a few lists, and a deletion for each thing that is due."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.engines.argo.abandoned import Workflows, owner_of
from tfsteps.janitor.rules import Due, due
from tfsteps.kube.client import Api, Resource
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.logs import PODS
from tfsteps.kube.metadata import metadata_of
from tfsteps.runs.events import Replica, replicas_of
from tfsteps.runs.identity import ATTEMPT, MANAGED_BY, RUN_ID, TASK
from tfsteps.systems.kubernetes.dependents import apply
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.ownership import is_own

_LABELS = (RUN_ID, TASK, ATTEMPT)
_OURS = ",".join([*(f"{key}={value}" for key, value in MANAGED_BY.items()), *_LABELS])
_KEPT = ("namespace", "name", "uid", "labels", "creationTimestamp", "deletionTimestamp", "ownerReferences")
_Item = Mapping[str, Any]


class Count(msgspec.Struct):
    """What a pass did.

    Attributes:
        jobs: How many were looked at.
        due: How many of those, or of their pods, were to be deleted or stopped.
        failures: How many actions failed; each was reported.
        served: How many kinds of job the cluster serves.
        what: What was looked at.
        act: What is done with it.
    """

    jobs: int = 0
    due: int = 0
    failures: int = 0
    served: int = 0
    what: str = "jobs"
    act: str = "deletions"

    def __str__(self) -> str:
        """Return it as people read it."""
        failed = f", {self.failures} failed" if self.failures else ""
        return f"{self.jobs} {self.what} looked at, {self.due} {self.act} due{failed}"


class Sweep:
    """One pass. What is asked of the cluster more than once is kept until its end; what is due is looked at anew."""

    def __init__(
        self, api: Api, kinds: Sequence[JobKind], namespace: str, say: Callable[[str], object], *, dry_run: bool = False
    ) -> None:
        """Get ready.

        Args:
            api: The cluster.
            kinds: Of the jobs to look at.
            namespace: Where; empty = everywhere.
            say: Receives a line for each action, and for each failure.
            dry_run: Only report what is due.
        """
        self.count = Count()
        self._api, self._kinds, self._namespace = api, kinds, namespace
        self._say, self._dry_run = say, dry_run
        self._workflows = Workflows(api, namespace)

    def run(self) -> Count:
        """Do all that is due, and report each action in a line; failures are reported, and left to the next pass."""
        for kind in self._kinds:
            try:
                listed = self._api.iterate(kind.resource, self._namespace, labelSelector=_OURS)
                for item in kind.group_objects(item for item in listed if self._is_sound(kind.resource, item)):
                    self._look(kind, item)
                self.count.served += 1
            except ApiError as error:
                if error.status != 404:  # a cluster without this kind
                    self._failed(f"{kind.resource.plural} cannot be listed", error)
        return self.count

    def _is_sound(self, resource: Resource, item: Any) -> bool:
        """Tell whether an object is valid; report it if not. An object that cannot be read is not deleted."""
        try:
            where = metadata_of(item).namespace
            if self._namespace not in ("", where):
                raise ValueError(f"it is of namespace {where}, which was not asked for")  # noqa: TRY301
        except ValueError as error:
            self._failed(f"{_name(resource, item)} is not understood", error)
            return False
        return True

    # --- one job

    def _look(self, kind: JobKind, item: _Item) -> None:
        """Do what is due for a job, if it still is when that one is looked at anew: the list may be minutes old."""
        self.count.jobs += 1
        try:
            if self._due(kind, item, self._workflows, lambda: bool(self._own(kind, item, self._all_pods))):
                self._confirm(kind, item)
        except ApiError as error:
            self._failed(_name(kind.resource, item), error)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001  a job object may have any content
            self._failed(f"{_name(kind.resource, item)} is not understood", error)

    def _due(self, kind: JobKind, item: _Item, workflows: Workflows, has_pods: Callable[[], bool]) -> Due | None:
        why = functools.partial(workflows.why_abandoned, item)
        return due(kind, item, time.time(), why_abandoned=why, has_pods=has_pods)

    def _confirm(self, kind: JobKind, listed: _Item) -> None:
        """Do what is due for a job as it is now."""
        meta, owner = listed["metadata"], owner_of(listed)
        selectors = kind.watch_selector(meta["name"])
        selectors["labelSelector"] = ",".join([_OURS, *filter(None, [selectors.get("labelSelector")])])
        candidates = self._api.iterate(kind.resource, meta["namespace"], **selectors)
        sound = [item for item in candidates if self._is_sound(kind.resource, item)]
        item = next((item for item in kind.group_objects(sound) if item["metadata"]["uid"] == meta["uid"]), None)
        if item is None:
            return
        workflows = Workflows(self._api, meta["namespace"], owner.name if owner else "")
        pods = functools.cache(lambda: self._pods(kind, item))
        if now := self._due(kind, item, workflows, lambda: bool(pods())):
            self._do(kind, item, now, pods)

    def _do(self, kind: JobKind, item: _Item, action: Due, pods: Callable[[], list[_Item]]) -> None:
        if action.what == "job":
            self._delete(kind.resource, item, action.why)
            return
        if not self._dry_run:  # else the pods of parameter servers would come back
            apply(self._api, kind.stop_stragglers(item), item["metadata"]["namespace"], item["metadata"]["uid"])
        for pod in pods():
            self._delete(PODS, pod, f"{_name(kind.resource, item)}: {action.why}")

    def _delete(self, resource: Resource, item: _Item, why: str) -> None:
        self.count.due += 1
        meta = item["metadata"]
        if not self._dry_run:
            self._api.delete(resource, meta["namespace"], meta["name"], meta["uid"])
        done = "would be deleted" if self._dry_run else "deleted"
        self._say(f"{_name(resource, item)} {done}: {why}")

    def _failed(self, what: str, error: Exception) -> None:
        self.count.failures += 1
        self._say(f"{what}: {error}")

    # --- pods

    @functools.cached_property
    def _all_pods(self) -> dict[tuple[str, ...], list[_Item]]:
        """The metadata of all jobs' pods, by what they and their job are labelled with."""
        pods: dict[tuple[str, ...], list[_Item]] = {}
        for pod in self._api.iterate(PODS, self._namespace, labelSelector=_OURS):
            if self._is_sound(PODS, pod):
                metadata = {key: pod["metadata"][key] for key in _KEPT if key in pod["metadata"]}
                pods.setdefault(_key(pod), []).append({"metadata": metadata})
        return pods

    def _pods(self, kind: JobKind, item: _Item) -> list[_Item]:
        """Return the pods of a job as they are now."""
        meta = item["metadata"]
        selector = f"{_OURS},{kind.selector(meta['name'])}"
        listed = self._api.iterate(PODS, meta["namespace"], labelSelector=selector)
        return self._own(kind, item, {_key(item): [pod for pod in listed if self._is_sound(PODS, pod)]})

    def _own(self, kind: JobKind, item: _Item, pods: Mapping[tuple[str, ...], list[_Item]]) -> list[_Item]:
        """Return the replicas of a job that are not being deleted: of its labels, and owned by it."""
        replicas = replicas_of(kind.roles(item).items())
        return [pod for pod in pods.get(_key(item), []) if self._is_replica(kind, item, pod, replicas)]

    def _is_replica(self, kind: JobKind, item: _Item, pod: _Item, replicas: Sequence[Replica]) -> bool:
        meta = pod["metadata"]
        try:
            return "deletionTimestamp" not in meta and is_own(kind, meta, item) and bool(kind.replica(meta, replicas))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._failed(f"{_name(PODS, pod)} is not understood", error)
            return False


def _key(item: _Item) -> tuple[str, ...]:
    meta = item["metadata"]
    return (meta["namespace"], *((meta.get("labels") or {}).get(label, "") for label in _LABELS))


def _name(resource: Resource, item: Any) -> str:
    meta = item.get("metadata") if isinstance(item, dict) else None
    namespace, name = (meta.get(key, "?") for key in ("namespace", "name")) if isinstance(meta, dict) else "??"
    return f"{resource.kind} {namespace}/{name}"

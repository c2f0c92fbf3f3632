"""Everything that tfsteps has created for one run, or a task of it, in a namespace: found by labels, deleted by uid.

And the demos of a namespace, for what is deleted or stopped together with another object: a run with its jobs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.runs.demo import SELECTOR, check_changeable, mark_of
from tfsteps.runs.identity import MANAGED_BY, RUN_ID, TASK, label_value
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.permissions import JOBS, SERVICES
from tfsteps.systems.kubernetes.preflight.discovery import served

_UNSEEN = {403, 404}


class RunObject(msgspec.Struct, frozen=True):
    """An object of a run.

    Attributes:
        resource: Its kind.
        namespace: Its namespace.
        name: Its name.
        uid: Its uid.
        owners: Its ownerReferences.
        deleting: Whether it is being deleted.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    owners: Sequence[Mapping[str, Any]] = ()
    deleting: bool = False

    def __str__(self) -> str:
        """Return `TFJob ml/mnist-abc`."""
        return f"{self.resource.kind} {self.namespace}/{self.name}"


class RunObjects:
    """The objects of one run, or of one task of it, in one namespace.

    Attributes:
        unseen: The kinds that the last `list` could not look for, without the permission: `tfjobs.kubeflow.org`.
        untold: The objects of the run that the last `list` left out because they do not name their task.
    """

    def __init__(
        self,
        api: Api,
        kinds: Sequence[JobKind],
        namespace: str,
        run: str,
        task: str = "",
        *,
        of_engine: Callable[[Sequence[Mapping[str, Any]]], object],
        whole_run: bool = False,
    ) -> None:
        """Keep the arguments; no request is sent.

        Args:
            api: The cluster.
            kinds: The kinds of job objects.
            namespace: The namespace; empty = all.
            run: Id of the run.
            task: The task; empty = all tasks.
            of_engine: Given the ownerReferences of a pod, tells whether an engine's object of a run is among them.
            whole_run: Whether the run is the task's own: then what names no task is the task's, too, unless another
                task has objects.
        """
        self._api, self._namespace, self._of_engine = api, namespace, of_engine
        self._task, self._whole_run = task and label_value(task), whole_run
        self._labels = {**MANAGED_BY, RUN_ID: label_value(run)}
        self._resources = list(dict.fromkeys([*(kind.resource for kind in kinds), JOBS, SERVICES, PODS]))
        self.unseen: list[str] = []
        self.untold: list[RunObject] = []

    def list(self) -> list[RunObject]:
        """Return the objects, job objects first and pods last.

        Pods of steps are not among them: they belong to the engine of the run.

        Raises:
            DemoError: One of them is a demo.
            ApiError: The server refuses all of them, or does not answer.
        """
        self.unseen, errors = [], []
        objects: list[tuple[RunObject, str | None]] = []  # each with its task; None = it names none
        for resource in self._resources:
            try:
                objects += self._of(resource)
            except ApiError as error:
                if error.status not in _UNSEEN:
                    raise
                errors.append(error)
                if error.status == 403:
                    self.unseen.append(f"{resource.plural}.{resource.api.rpartition('/')[0]}".rstrip("."))
        if len(errors) == len(self._resources):
            raise next((error for error in errors if error.status == 403), errors[0])
        alone = self._whole_run and all(task in (None, self._task) for _, task in objects)
        tasks = {task for _, task in objects} if not self._task else {self._task, *([None] if alone else [])}
        self.untold = [item for item, task in objects if task is None and task not in tasks]
        return [item for item, task in objects if task in tasks]

    def delete(self, item: RunObject) -> None:
        """Delete an object, if it still has its uid and the labels of the run.

        Raises:
            DemoError: It is a demo now.
            ApiError: The server refuses that, or does not answer.
        """
        try:
            now = self._api.get(item.resource, item.namespace, item.name)
        except ApiError as error:
            if error.missing:
                return
            raise
        check_changeable(item.resource, now)
        meta = now["metadata"]
        if meta["uid"] == item.uid and self._may_delete(meta.get("labels") or {}):
            self._api.delete(item.resource, item.namespace, item.name, item.uid)

    def _of(self, resource: Resource) -> Iterator[tuple[RunObject, str | None]]:
        selector = ",".join(f"{key}={value}" for key, value in self._labels.items())
        for listed in self._api.iterate(resource, self._namespace, labelSelector=selector):
            meta = listed["metadata"]
            owners = meta.get("ownerReferences") or []
            of_engine = resource == PODS and self._of_engine(owners)
            labels = meta.get("labels") or {}
            if self._labels.items() <= labels.items() and not of_engine:
                if not self._task or labels.get(TASK) in (None, self._task):
                    check_changeable(resource, listed)
                deleting = "deletionTimestamp" in meta
                item = RunObject(resource, meta["namespace"], meta["name"], meta["uid"], owners, deleting)
                yield item, labels.get(TASK)

    def _may_delete(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels of an object are still those of the run and the task."""
        tasks = {self._task, *([None] if self._whole_run else [])}
        return self._labels.items() <= labels.items() and (not self._task or labels.get(TASK) in tasks)


def list_demos(api: Api, namespace: str, resources: Iterable[Resource]) -> Iterator[tuple[Resource, Mapping[str, Any]]]:
    """Yield the demos of some kinds, with their kind.

    Args:
        api: The cluster.
        namespace: Where to look; empty = everywhere.
        resources: The kinds; those that the cluster does not serve have no demos.

    Raises:
        ApiError: A kind cannot be listed: whether it has demos is not known.
    """
    refused: dict[str, tuple[Resource, ApiError]] = {}
    for resource in resources:
        try:
            for item in api.iterate(resource, namespace, labelSelector=SELECTOR):
                if mark_of(item):
                    yield resource, item
        except ApiError as error:
            if error.status not in (403, 404):  # both are answered for a kind that is not served, and for one that is
                raise
            refused[f"{resource.plural}.{resource.api}"] = resource, error
    if refused:
        for name in served(api, {name: resource for name, (resource, _) in refused.items()}):
            raise refused[name][1]


def runs_of(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a demo protects, as namespace and uid: the object itself, its owners, and the run that launched it."""
    meta = item["metadata"]
    run = (meta.get("labels") or {}).get(RUN_ID, "")
    for uid in (meta["uid"], *(owner["uid"] for owner in meta.get("ownerReferences") or []), run):
        yield meta["namespace"], uid

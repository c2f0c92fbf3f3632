"""Everything that tfsteps has created for one run in a namespace: found by labels, and deleted by uid."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.logs import PODS
from tfsteps.kube.resource import Resource
from tfsteps.runs.identity import MANAGED_BY, RUN_ID, label_value
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.permissions import JOBS, SERVICES

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
    """The objects of one run in one namespace.

    Attributes:
        unseen: The kinds that the last `list` could not look for, without the permission: `tfjobs.kubeflow.org`.
    """

    def __init__(self, api: Api, kinds: Sequence[JobKind], namespace: str, run: str) -> None:
        """Keep the arguments; no request is sent."""
        self._api, self._namespace = api, namespace
        self._labels = {**MANAGED_BY, RUN_ID: label_value(run)}
        self._resources = list(dict.fromkeys([*(kind.resource for kind in kinds), JOBS, SERVICES, PODS]))
        self.unseen: list[str] = []

    def list(self) -> list[RunObject]:
        """Return the objects, job objects first and pods last.

        Pods of a Workflow are not among them: they belong to its engine.

        Raises:
            ApiError: The server refuses all of them, or does not answer.
        """
        self.unseen, errors = [], []
        objects: list[RunObject] = []
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
        return objects

    def delete(self, item: RunObject) -> None:
        """Delete an object, if it still has its uid and the labels of the run. ApiError if that is refused."""
        try:
            meta = self._api.get(item.resource, item.namespace, item.name)["metadata"]
        except ApiError as error:
            if error.missing:
                return
            raise
        if meta["uid"] == item.uid and self._labels.items() <= (meta.get("labels") or {}).items():
            self._api.delete(item.resource, item.namespace, item.name, item.uid)

    def _of(self, resource: Resource) -> Iterator[RunObject]:
        selector = ",".join(f"{key}={value}" for key, value in self._labels.items())
        for item in self._api.iterate(resource, self._namespace, labelSelector=selector):
            meta = item["metadata"]
            owners = meta.get("ownerReferences") or []
            of_engine = resource == PODS and any(owner["kind"] == "Workflow" for owner in owners)
            if self._labels.items() <= (meta.get("labels") or {}).items() and not of_engine:
                deleting = "deletionTimestamp" in meta
                yield RunObject(resource, meta["namespace"], meta["name"], meta["uid"], owners, deleting)

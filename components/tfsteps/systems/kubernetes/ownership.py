"""Which pods belong to a job: those that the job controls, or an object that the job owns. Labels do not suffice.

Anybody can put a job's labels on a pod, and an earlier job may have had the same name. Only uids tell. Objects between
a job and its pods, such as the Jobs of a JobSet, are looked up where their uid is not known yet.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tfsteps.answer import NO, YES, Answer, unknown
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.systems.kubernetes.job_kind import DEPENDENTS, Between, JobKind

_PAUSE_SECONDS = 5.0  # after a failed look-up
_Item = Mapping[str, Any]


class Owners(msgspec.Struct, frozen=True):
    """What controls the pods of one job, as far as it is known.

    Attributes:
        uids: The uids of the job and of what it owns.
        others: The uids of objects that are certainly something else.
        between: The kinds of objects that the job may own and that control pods.
        why: Why further objects are not known; empty = they were not looked up.
    """

    uids: frozenset[str]
    others: frozenset[str] = frozenset()
    between: frozenset[tuple[str, str]] = frozenset()
    why: str = ""

    def control(self, meta: _Item) -> Answer:
        """Return whether the job controls a pod with this metadata, directly or through an object that it owns."""
        controller = _controller(meta)
        if not controller:
            return NO
        if controller["uid"] in self.uids:
            return YES
        if (
            controller["uid"] in self.others
            or (_group(controller["apiVersion"]), controller["kind"]) not in self.between
        ):
            return NO
        what = f"{controller['kind']} {controller['name']}, which controls it"
        return unknown(f"{what}, could not be looked up: {self.why}" if self.why else f"{what}, was not looked up")


class OwnerIndex:
    """Looks up the objects between jobs and pods: lists them when a pod's controller is not known, and keeps uids."""

    def __init__(self, api: Api, namespace: str, name: str = "") -> None:
        """Look for nothing yet.

        Args:
            api: The cluster.
            namespace: Of the jobs; empty = all.
            name: Of the only job; empty = there may be many.
        """
        self._api, self._namespace, self._name = api, namespace, name
        self._owned: dict[str, set[str]] = {}  # the uids of the objects that an object owns, by its uid
        self._looked_up: set[str] = set()
        self._why, self._pause_until = "", 0.0

    def owners(self, kind: JobKind, job: _Item, pods: Iterable[_Item]) -> Owners:
        """Return what controls the pods of a job; look up what controls `pods`, objects with metadata, if necessary."""
        owners = self._known(kind, job)
        untold = {_controller(pod["metadata"])["uid"] for pod in pods if owners.control(pod["metadata"]).unknown}
        if not untold or time.monotonic() < self._pause_until:
            return owners
        try:
            # from the pods to the job: an owner exists before what it owns, and is in the later list
            for between in reversed(kind.between):
                self._list(between)
        except ApiError as error:
            self._why, self._pause_until = str(error), time.monotonic() + _PAUSE_SECONDS
        else:
            self._why = ""
            self._looked_up |= untold
        return self._known(kind, job)

    def _known(self, kind: JobKind, job: _Item) -> Owners:
        """Return what a job object with its DEPENDENTS, and the look-ups so far, tell."""
        owner_uids = set[str]()
        new = {item["metadata"]["uid"] for item in (job, *job.get(DEPENDENTS, ())) if "uid" in item["metadata"]}
        while new:
            owner_uids |= new
            new = {uid for item in new for uid in self._owned.get(item, ())} - owner_uids
        kinds = frozenset((_group(between.resource.api), between.resource.kind) for between in kind.between)
        return Owners(frozenset(owner_uids), frozenset(self._looked_up - owner_uids), kinds, self._why)

    def _list(self, between: Between) -> None:
        for item in self._api.iterate(between.resource, self._namespace, **between.selectors(self._name)):
            meta = item["metadata"]
            for owner in meta.get("ownerReferences") or []:
                self._owned.setdefault(owner["uid"], set()).add(meta["uid"])
            self._looked_up.add(meta["uid"])


def _controller(meta: _Item) -> _Item:
    """Return the reference to the object that controls another one; empty = there is none."""
    return next((owner for owner in meta.get("ownerReferences") or [] if owner.get("controller") is True), {})


def _group(api: str) -> str:
    """Return the group of an API: its versions have the same objects."""
    return api.rpartition("/")[0]

"""Passes on what happens to a job's own pods. Other pods may have the job's labels."""

from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.kube.watch import Changed, Deleted, Listed, Seen
from tfsteps.systems.kubernetes.follow.warning_events import WarningEvent
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.ownership import OwnerIndex, Owners

_Item = Mapping[str, Any]


class OwnPods:
    """Filters the events of the watch on the pods of one job."""

    def __init__(self, kind: JobKind, index: OwnerIndex) -> None:
        """Begin without a pod."""
        self._kind, self._index = kind, index
        self._own: set[str] = set()  # uids
        self._undecided: dict[str, dict[str, Any]] = {}
        self._why = ""

    @property
    def complaint(self) -> WarningEvent | None:
        """Which pods are not followed because it is not known whose they are; None = there are none."""
        if not self._undecided:
            return None
        names = [item["metadata"]["name"] for item in self._undecided.values()]
        more = f" and {len(names) - 1} more" if names[1:] else ""
        message = f"Pod {names[0]}{more} may not be this job's, and is not followed: {self._why}."
        return WarningEvent("PodsNotKnown", message)

    def among(self, seen: Seen, job: _Item) -> Seen | None:
        """Return an event as far as it is about the job's own pods; None = it is not.

        Args:
            seen: The event.
            job: The job object, with its dependents under DEPENDENTS.
        """
        match seen:
            case Listed(items=items):
                owners = self._index.owners(self._kind, job, items)
                self._undecided.clear()
                return Listed([item for item in items if self._is_own(item, owners)])
            case Changed(item=item):
                if self._is_own(item, self._index.owners(self._kind, job, [item])):
                    return seen
                return Deleted(item) if item["metadata"]["uid"] in self._own else None
            case Deleted(item=item):
                self._undecided.pop(item["metadata"]["uid"], None)
                return seen if item["metadata"]["uid"] in self._own else None
        return seen

    def decided(self, job: _Item) -> Iterator[Changed]:
        """Yield the pods that turn out to be the job's; arguments as for `among`."""
        items = list(self._undecided.values())
        if items:
            owners = self._index.owners(self._kind, job, items)
            yield from (Changed(item) for item in items if self._is_own(item, owners))

    def _is_own(self, item: dict[str, Any], owners: Owners) -> bool:
        uid, answer = item["metadata"]["uid"], owners.control(item["metadata"])
        self._undecided.pop(uid, None)
        if answer.yes:
            self._own.add(uid)
        elif answer.unknown:
            self._undecided[uid], self._why = item, answer.why
        return answer.yes

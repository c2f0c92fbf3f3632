"""Times in objects of the API server and the kubelet. Pure."""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from tfsteps.systems.kubernetes.job_kind import DEPENDENTS, true_conditions

_Item = TypeVar("_Item", bound=Mapping[str, Any])


def seconds(text: str | None) -> float | None:
    """Return an RFC 3339 time in seconds since the epoch; None if it is missing, empty, or the epoch itself.

    The kubelet writes 1970-01-01T00:00:00Z where it does not know when a container started.
    """
    return (dt.datetime.fromisoformat(text).timestamp() or None) if text else None


def latest(times: Iterable[str | None]) -> float | None:
    """Return the latest of some RFC 3339 times in seconds since the epoch; None if there is none."""
    return max((at for text in times if (at := seconds(text))), default=None)


def by_age(items: Iterable[_Item]) -> list[_Item]:
    """Return objects by creation time, the newest last. The API server lists them by name."""
    return sorted(items, key=lambda item: seconds(item["metadata"].get("creationTimestamp")) or 0.0)


def age_at(item: Mapping[str, Any], condition: Mapping[str, Any]) -> float:
    """Return how old an object was, in seconds, when one of its conditions changed last; 0 = not known."""
    created, changed = seconds(item["metadata"].get("creationTimestamp")), seconds(condition.get("lastTransitionTime"))
    return changed - created if created is not None and changed is not None else 0.0


def job_ended(item: Mapping[str, Any]) -> float | None:
    """Return when an ended job ended: by its completion times, else by its last condition; None = not known.

    If no status has a time, because the operator writes no times, the operator's last change of the object ended the
    job, and the API server records the times of changes.
    """
    entries = [item, *item.get(DEPENDENTS, ())]
    times = [
        *((entry.get("status") or {}).get("completionTime") for entry in entries),
        *(condition.get("lastTransitionTime") for entry in entries for condition in true_conditions(entry).values()),
    ]
    changes = [entry.get("time") for entry in item["metadata"].get("managedFields") or []]
    return latest(times) or latest(changes)

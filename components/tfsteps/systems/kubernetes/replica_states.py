"""The last states of a job's replicas in an annotation of its object, for commands that find no pods. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.events import ReplicaName, ReplicaState
from tfsteps.runs.identity import PREFIX
from tfsteps.spec import RoleName

REPLICAS = f"{PREFIX}replicas"
"""`{"succeeded": {"chief": [[0, 0]], "worker": [[0, 3]]}}`: by state and role, ranges of the replicas' indices, both
ends included."""

_Ranges = list[tuple[int, int]]
_Noted = dict[ReplicaState, dict[RoleName, _Ranges]]


def annotation(states: Mapping[ReplicaName, ReplicaState]) -> str:
    """Return the value of the annotation."""
    noted: _Noted = {}
    for replica in sorted(states):
        ranges = noted.setdefault(states[replica], {}).setdefault(replica.role, [])
        if ranges and ranges[-1][1] == replica.index - 1:
            ranges[-1] = ranges[-1][0], replica.index
        else:
            ranges.append((replica.index, replica.index))
    return msgspec.json.encode(noted).decode()


def noted_states(item: Mapping[str, Any], replicas: list[ReplicaName]) -> dict[ReplicaName, ReplicaState]:
    """Return what is noted on a job object of its `replicas`; empty if nothing is, or it is not understood.

    Anybody may have written it: ranges are in order, as `annotation` writes them, so that nothing is counted twice.
    """
    text = (item["metadata"].get("annotations") or {}).get(REPLICAS) or "{}"
    try:
        noted = msgspec.json.decode(text, type=_Noted)
    except NOT_READABLE:
        return {}
    by_role: dict[RoleName, list[ReplicaName]] = {}
    for replica in sorted(replicas):
        by_role.setdefault(replica.role, []).append(replica)
    states: dict[ReplicaName, ReplicaState] = {}
    for state, roles in noted.items():
        for role, ranges in roles.items():
            end = -1
            for first, last in ranges:
                if not end < first <= last:
                    return {}
                end = last
                states |= dict.fromkeys(by_role.get(role, [])[first : last + 1], state)
    return states

"""What the watch on a job object tells of it and of its parts, up to its end. Pure.

The last states of the replicas are noted in an annotation, for commands that find no pods.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen
from tfsteps.runs.events import JobChanged, ReplicaName, ReplicaState, State, Verdict
from tfsteps.runs.identity import PREFIX
from tfsteps.spec import RoleName
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.job_kind import GONE, JobKind
from tfsteps.systems.kubernetes.times import job_ended

STOPPED = f"{PREFIX}stopped"
"""Annotation of a job that `tfsteps stop` is about to delete; its value is the time."""
REPLICAS = f"{PREFIX}replicas"
"""`{"succeeded": {"chief": [[0, 0]], "worker": [[0, 3]]}}`: by state and role, ranges of the replicas' indices, both
ends included."""

_Ranges = list[tuple[int, int]]
_Noted = dict[ReplicaState, dict[RoleName, _Ranges]]


class JobObject:
    """One job object and its parts; objects of other jobs must not be reported to it.

    Attributes:
        name, uid, namespace: Of the job object.
        item: The last known job object.
        verdict: By that object; PENDING before it was looked at.
        was_read: Whether it was looked at.
        stopping: The verdict for an object that is gone because tfsteps deleted it; None = it did not.
        end: The end of the job, without the replica that caused it; None = it has not ended.
    """

    def __init__(self, kind: JobKind, item: Mapping[str, Any]) -> None:
        """Start with the object as it was created or adopted."""
        self.item = item
        self.verdict = Verdict(State.PENDING)
        self.was_read = False
        self.stopping: Verdict | None = None
        self.end: JobChanged | None = None
        self._kind = kind
        meta = item["metadata"]
        self.name, self.uid, self.namespace = str(meta["name"]), str(meta["uid"]), str(meta.get("namespace", ""))
        self._objects: dict[str, Mapping[str, Any]] = {}  # the job object and its parts, by name

    def apply(self, seen: Seen, now: float) -> None:
        """Apply an event of the watch.

        Raises:
            LaunchError: The object cannot be watched any more.
        """
        match seen:
            case Listed(items=items):
                listed = {item["metadata"]["name"]: item for item in items}
                gone = self._objects.keys() - listed.keys() - {self.name}
                self._objects = {**listed, **{name: {**self._objects[name], GONE: True} for name in gone}}
                self._judge(now)
                if self.name not in self._objects:
                    self._deleted(now)
            case Changed(item=item):
                self._objects[item["metadata"]["name"]] = item
                self._judge(now)
            case Deleted(item=item):
                name, uid = item["metadata"]["name"], item["metadata"]["uid"]
                if uid != self._objects.get(name, item)["metadata"]["uid"] or (name == self.name and uid != self.uid):
                    return  # event of an earlier object of this name
                self._objects[name] = item
                self._judge(now)  # it may have ended first
                if name == self.name:
                    del self._objects[name]
                    self._deleted(now)
                else:
                    self._objects[name] = {**item, GONE: True}
                    self._judge(now)
            case Refused(error=error, retryable=retryable):
                raise LaunchError(
                    f"{self.name} was not stopped, but cannot be watched any more: {error}", retryable=retryable
                )

    def finish(self, verdict: Verdict, at: float) -> None:
        """End with `verdict`, whatever the object says later; do nothing if it has ended."""
        if self.end is None:
            self.end = JobChanged(at=at, state=verdict.state, reason=verdict.reason, message=verdict.message)

    def _judge(self, now: float) -> None:
        for item in self._kind.group_objects(self._objects.values()):
            meta = item["metadata"]
            if meta["name"] != self.name:
                continue
            if meta["uid"] != self.uid:
                self.finish(Verdict(State.LOST, "Replaced", "The job was deleted, and another one has its name."), now)
                continue
            self.item, self.verdict = item, self._kind.verdict(item)
            if STOPPED in (meta.get("annotations") or {}):
                self.stopping = self.stopping or Verdict(State.CANCELLED, "Stopped", "`tfsteps stop` ended it.")
            if self.verdict.state.terminal:  # perhaps before it was followed
                self.finish(self.verdict, now if self.was_read else job_ended(item) or now)
            self.was_read = True

    def _deleted(self, now: float) -> None:
        lost = Verdict(State.LOST, "Deleted", "The job object was deleted, not by this launcher; by whom is not known.")
        self.finish(self.stopping or lost, now)


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
        noted = typed_json.decode(text, _Noted)
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

"""A job file that is being written: its fields, why they are what they are, and what has no counterpart in it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps.spec import Path, RoleName, TrainingJob, dotted
from tfsteps.spec.problems import shown
from tfsteps.spec.units import write_duration
from tfsteps.systems.manifest.fields import Fields

NO_LIMIT = 10_000
"""The largest backoff limit of a job file, for a job that has none."""

_ORDER = ("name", "image", "command", "args", "working_dir", "env", "roles")
_SHARED = (
    "image",
    "command",
    "args",
    "working_dir",
    "env",
    "resources",
    "volumes",
    "node_selector",
    "tolerations",
    "restart",
    "pod",
)
_DAY = 86_400
_LONGEST = 3650 * _DAY
_REASONS: Mapping[str, str] = {
    "metadata.namespace": "a job file has no namespace: give it with --namespace",
    "metadata.ownerReferences": "the new job does not belong to these objects",
    "metadata.finalizers": "they are for a program that knows this object",
    "managedBy": "a launcher follows the pods of its own cluster, and could not see those of another controller",
    "minResources": "the operator sums the replicas' requests itself",
}
_OF_THE_SERVER = (
    "status",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.managedFields",
    "metadata.selfLink",
)


class Draft:
    """The job file that a manifest becomes.

    Attributes:
        fields: The fields of the job, as plain data of a job file.
        roles: Those of its roles.
        comments: Sentences to write above a field, by its path.
        notes: Sentences about what the job file does not have.
        roles_at: The field of the manifest that has its roles, for messages.
        no_replicas: Fields that are 0, so that their roles are left out.
        reads_gangs: See `Imported`.
    """

    def __init__(self, roles_at: str = "spec", *, reads_gangs: bool = False) -> None:
        """Begin with nothing."""
        self.roles_at, self.reads_gangs = roles_at, reads_gangs
        self.no_replicas: list[str] = []
        self.fields: dict[str, Any] = {}
        self.roles: dict[RoleName, dict[str, Any]] = {}
        self.comments: dict[Path, str] = {}
        self.notes: list[str] = []

    def decide(self, path: Path, value: Any, reason: str = "") -> None:
        """Set the field at `path`, below the job; `reason` = the comment above it."""
        inside = self.fields
        for part in path[:-1]:
            inside = inside.setdefault(str(part), {})
        inside[str(path[-1])] = value
        if reason:
            self.comments[path] = reason

    def option(self, system: str, name: str, value: Any) -> None:
        """Set an option of a job system; nothing for None, False and what is empty."""
        if value not in (None, False, "", [], {}):
            self.decide(("systems", system, name), value)

    def suspend(self, system: str, suspended: bool | None) -> None:
        """Create the job suspended if the object was; such as Kueue leaves one that it has not admitted."""
        if suspended:
            reason = "a run waits until `tfsteps resume`, or Kueue, starts it; remove this to start at once"
            self.decide(("systems", system, "suspend"), value=True, reason=reason)

    def note(self, sentence: str) -> None:
        """Add a sentence about what the job file does not have."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def lowered(self, field: str, number: int, most: int, shown_most: str = "") -> int:
        """Return a number of the manifest, at most what a job file can have; if it is lowered, a note says so."""
        if number > most:
            self.note(f"{field} = {number}: lowered to {shown_most or most}, the most that a job file can have")
        return min(number, most)

    def deadline(self, seconds: int | None) -> None:
        """Set the deadline of the whole job; None = the manifest has none."""
        if seconds is None:
            self.note("deadlines.total: the manifest has no deadline; a job file's is 7d unless it says another")
        elif seconds > 0:
            self.decide(("deadlines", "total"), self._duration("activeDeadlineSeconds", seconds))
        else:
            wrong = f"activeDeadlineSeconds = {seconds}: such a job fails as soon as it has started"
            self.note(f"{wrong}; the job file's deadline is 7d unless it says another")

    def time_to_live(self, seconds: int | None) -> None:
        """Set how long an ended job is kept; None = the manifest does not say."""
        if seconds is not None and seconds <= 0:
            self.decide(("on_end",), "delete", f"ttlSecondsAfterFinished: {seconds}")
        elif seconds:
            self.decide(("keep_for",), self._duration("ttlSecondsAfterFinished", seconds))

    def _duration(self, field: str, seconds: int) -> str:
        return write_duration(self.lowered(field, seconds, _LONGEST, write_duration(_LONGEST)))

    def report(self, fields: Fields) -> None:
        """Add a note for each field that has not been taken; fields that the API server writes are none."""
        for path, value in fields.left():
            name = dotted(path)
            if name.startswith(_OF_THE_SERVER):
                continue
            reasons = (reason for key, reason in _REASONS.items() if name.startswith(key) or key in path)
            self.note(f"{name} = {shown(value)}: {next(reasons, 'a job file has no field for it')}")

    def finished(self, bare: frozenset[RoleName] = frozenset()) -> dict[str, Any]:
        """Return the job: what all roles have in common is the job's.

        Args:
            bare: Roles whose pods the manifest does not describe; they inherit everything.
        """
        described = [role for name, role in self.roles.items() if name not in bare]
        for field in _SHARED:
            first = described[0].get(field)
            if first is not None and all(role.get(field) == first for role in described):
                self.fields[field] = first
                for role in described:
                    del role[field]
        _lift_pod_fields(self.fields, described)
        if self.fields.get("restart") == "never":
            del self.fields["restart"]
        names = [*_ORDER, *(name for name in TrainingJob.__struct_fields__ if name not in _ORDER)]
        self.fields["roles"] = self.roles
        self.comments = {self._moved(path): reason for path, reason in self.comments.items()}
        return {name: self.fields[name] for name in names if name in self.fields}

    def _moved(self, path: Path) -> Path:
        """Return where a field of a role is now."""
        if path[:1] != ("roles",) or len(path) < 3:
            return path
        return path if str(path[2]) in self.roles.get(path[1], {}) else path[2:]  # type: ignore[call-overload]


class Imported(msgspec.Struct, frozen=True):
    """A job in the notation of job files.

    Attributes:
        source: What it was, for messages: `TFJob mnist`.
        system: The job system whose jobs it is like; empty = none in particular.
        job: Its fields.
        comments: Sentences to write above a field, by its path.
        notes: Sentences about what the job file does not have.
        reads_gangs: Whether a PodGroup of its pods may be its `gang`, or the options `min_available` and
            `schedule_timeout` of its system; False = the job file leaves them as they are.
    """

    source: str
    system: str
    job: dict[str, Any]
    comments: Mapping[Path, str]
    notes: list[str]
    reads_gangs: bool = False


def _lift_pod_fields(job: dict[str, Any], roles: list[dict[str, Any]]) -> None:
    """Make fields of pods that a job file has for all roles together fields of the job, if they are the same in all."""
    patches = [job["pod"]] if "pod" in job else [role.get("pod", {}) for role in roles]
    specs = [patch.get("spec", {}) for patch in patches]
    containers: list[dict[str, Any]] = [next(iter(spec.get("containers", [])), {}) for spec in specs]
    _lift(job, "service_account", specs, "serviceAccountName")
    _lift(job, "image_pull_policy", containers, "imagePullPolicy")
    pull_secrets = [spec.get("imagePullSecrets") for spec in specs]
    if all(isinstance(item, list) and all(list(entry) == ["name"] for entry in item) for item in pull_secrets):
        _lift(job, "image_pull_secrets", specs, "imagePullSecrets")
        if "image_pull_secrets" in job:
            job["image_pull_secrets"] = [entry["name"] for entry in job["image_pull_secrets"]]
    for place in (job, *roles):
        if "pod" in place:
            prune(place)


def _lift(job: dict[str, Any], field: str, places: list[dict[str, Any]], name: str) -> None:
    values = [place.get(name) for place in places]
    if values[0] is not None and all(value == values[0] for value in values):
        job[field] = values[0]
        for place in places:
            del place[name]


def prune(place: dict[str, Any]) -> None:
    """Remove the parts of a pod patch that have become empty."""
    pod = place["pod"]
    spec = pod.get("spec", {})
    if [list(container) for container in spec.get("containers", [])] == [["name"]]:
        del spec["containers"]
    for part, fields in (("labels", pod.get("metadata", {})), ("metadata", pod), ("spec", pod)):
        if fields.get(part) == {}:
            del fields[part]
    if not pod:
        del place["pod"]

"""The retention policy in a job object's annotations, for clean-up without its launcher. Pure."""

import datetime as dt
import math
from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.identity import PREFIX
from tfsteps.spec import TrainingJob
from tfsteps.spec.step_inputs import without_run_variables
from tfsteps.systems.base import OnEnd

LAUNCHER, DETACHED, REPORTED = f"{PREFIX}launcher", f"{PREFIX}detached", f"{PREFIX}reported"
KEPT_UNTIL, KEPT_FOR_TRY = f"{PREFIX}kept-until", f"{PREFIX}kept-for-try"
"""Annotations of a job that a keeper owns: until when; for another try of its step, with its owner before, as JSON."""

HOME = f"{PREFIX}home"
"""Annotation of a job that was launched from another cluster: a `Home` as JSON."""

JOB = f"{PREFIX}job"
"""Annotation of a job object: the job with its defaults, as JSON."""

_JOB_BYTES = 128 << 10  # Kubernetes allows 256 KiB for all annotations of an object
_DEADLINE, _KEEP_FOR, _ON_END = f"{PREFIX}deadline", f"{PREFIX}keep-for", f"{PREFIX}on-end"


class Home(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the step of a job is that was launched from another cluster. No ownerReference leads there.

    Attributes:
        namespace: The namespace of the step.
        namespace_uid: The uid of that namespace, which tells clusters apart; empty = not known.
        owner: The ownerReference that the job would have there; empty = the step is in no pipeline.
    """

    namespace: str
    namespace_uid: str = ""
    owner: Mapping[str, Any] = {}

    @property
    def text(self) -> str:
        """The value of the annotation."""
        return msgspec.json.encode(self).decode()


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When and how a job is cleaned up.

    Attributes:
        launcher: The step that launches or follows it, the same over retries: a node of its Workflow, else the task
            within its run; empty = not known.
        detached: It was left running for a `wait` step that has not begun.
        reported: A launcher has reported how it ended.
        deadline: Seconds from its creation to its deadline `total`; None = not known.
        keep_for: Seconds that it is kept after its end; None = for ever.
        on_end: What is removed once it has ended; None = the pods if it succeeded.
        kept_until: Its launcher was evicted, and Kubernetes deletes it at this time, in seconds since the epoch; None =
            it is not kept.
        kept_for_try: It is kept for another try of its step, not for a retry of the run: a finalizer after the step
            finds that none has come.
        elsewhere: It was launched from another cluster: nothing on this one tells whether a launcher will come.
    """

    launcher: str = ""
    detached: bool = False
    reported: bool = False
    deadline: float | None = None
    keep_for: float | None = None
    on_end: OnEnd | None = None
    kept_until: float | None = None
    kept_for_try: bool = False
    elsewhere: bool = False


def annotations(job: TrainingJob) -> dict[str, str]:
    """Return the annotations of the object created for `job`, without the launcher's."""
    noted = {_DEADLINE: f"{job.deadlines.total:g}", _ON_END: job.on_end or ""}
    if job.keep_for is not None:
        noted[_KEEP_FOR] = f"{job.keep_for:g}"
    return {name: text for name, text in noted.items() if text}


def recorded(job: TrainingJob) -> dict[str, str]:
    """Return the annotation from which any machine can follow a job and run it again; empty for a job that is too long.

    It has none of the variables that mean this run alone, such as its trace.
    """
    text = msgspec.json.encode(without_run_variables(job)).decode()
    return {JOB: text} if len(text.encode()) <= _JOB_BYTES else {}


def retention_policy(item: Mapping[str, Any]) -> RetentionPolicy:
    """Parse the annotations of a job object; invalid values count as missing."""
    noted = item["metadata"].get("annotations") or {}
    on_end: OnEnd | None = next((value for value in get_args(OnEnd) if value == noted.get(_ON_END)), None)
    return RetentionPolicy(
        launcher=noted.get(LAUNCHER, ""),
        detached=DETACHED in noted,
        reported=REPORTED in noted,
        deadline=_seconds(noted.get(_DEADLINE)),
        keep_for=_seconds(noted.get(_KEEP_FOR)),
        on_end=on_end,
        kept_until=_time(noted.get(KEPT_UNTIL)),
        kept_for_try=KEPT_FOR_TRY in noted,
        elsewhere=HOME in noted,
    )


def owned_by_run(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a job that is kept for another try of its step with its owner before; any other job as it is."""
    text = (item["metadata"].get("annotations") or {}).get(KEPT_FOR_TRY)
    try:
        owner = typed_json.decode(text or "{}", dict[str, Any])
    except NOT_READABLE:
        return item
    return {**item, "metadata": {**item["metadata"], "ownerReferences": [owner]}} if owner else item


def home_of(item: Mapping[str, Any]) -> Home | None:
    """Return where a job was launched from; None = on its own cluster, or that is not known."""
    text = (item["metadata"].get("annotations") or {}).get(HOME)
    try:
        return None if text is None else typed_json.decode(text, Home)
    except NOT_READABLE:
        return None


def _seconds(text: str | None) -> float | None:
    """Return a number of seconds; None if the text is not a duration."""
    try:
        seconds = -1.0 if text is None else float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


def _time(text: str | None) -> float | None:
    """Return an ISO 8601 time in seconds since the epoch; None if the text is not a time."""
    try:
        return None if text is None else dt.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None

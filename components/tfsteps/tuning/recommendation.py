"""The rule: which runs count, what they used at the most, and what the replicas of each role should request. Pure."""

import enum
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from tfsteps.runs.events import State
from tfsteps.runs.status import Status
from tfsteps.settings.types import Layer
from tfsteps.spec import Path, Resources, RoleName, TrainingJob, dotted, format_bytes
from tfsteps.spec.step_inputs import DATA
from tfsteps.spec.units import write_bytes, write_cores

OFF = "NO_RESOURCE_CHECK"
"""The variable of a job that switches tuning off, as in cube-studio."""

DAYS = 30.0
"""Runs that were created longer ago do not count."""

COMPARED = ("replicas", "image", "command", "args", "working_dir", "env")
"""The fields of a role that runs must have in common; resources and all others may differ."""

Resource = Literal["cpu", "memory"]

_NOT_OFF = ("", "0", "false", "no", "off")
_COVERED = 0.5  # share of the time of the replicas that the samples must stand for
_AT_LIMIT = 0.95  # share of a CPU limit
_GIB = 2**30
_STEPS: Mapping[Resource, Sequence[tuple[float, float]]] = {
    "cpu": ((2.0, 0.1), (10.0, 0.5), (math.inf, 1.0)),
    "memory": ((_GIB, 64 * 2**20), (4 * _GIB, _GIB / 4), (math.inf, _GIB)),
}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How a recommendation follows from the use.

    Attributes:
        headroom: Added to the largest use, as a share of it.
        runs: So many good runs are needed.
        caps: The most that a replica may have, by resource, each with the setting that says so.
    """

    headroom: float = 0.4
    runs: int = 10
    caps: Mapping[Resource, tuple[str, float]] = {}

    @classmethod
    def of(cls, layers: Sequence[tuple[str, Layer]], headroom: float | None = None, runs: int | None = None) -> "Rule":
        """Return the rule of platform settings, the last layer first.

        Args:
            layers: The platform's settings and the project's, each with its prefix in messages.
            headroom: Counts before the settings; None = as they say.
            runs: The same.
        """
        caps: dict[Resource, tuple[str, float]] = {}
        for prefix, layer in layers:
            for resource in _STEPS:
                most = layer.limits.cpu if resource == "cpu" else layer.limits.memory
                if most is not None:
                    caps[resource] = f"{prefix}limits.{resource}", most
        tunings = [layer.tuning for _, layer in reversed(layers)]
        headrooms = [headroom, *(tuning.headroom for tuning in tunings), cls().headroom]
        numbers = [runs, *(tuning.runs for tuning in tunings), cls().runs]
        return cls(
            headroom=next(value for value in headrooms if value is not None),
            runs=next(number for number in numbers if number is not None),
            caps=caps,
        )


class RecordedAttempt(msgspec.Struct, frozen=True):
    """One attempt at the task.

    Attributes:
        status: Its status.
        job: The job as it was recorded; None = it was not.
    """

    status: Status
    job: TrainingJob | None


class Standing(enum.StrEnum):
    """Whether an attempt counts."""

    GOOD = "good"
    LOWER_BOUND = "lower bound"
    NOT_GOOD = "does not count"


class Considered(msgspec.Struct, frozen=True):
    """An attempt that was looked at.

    Attributes:
        attempt: The attempt.
        standing: Whether it counts.
        reason: Why it is not a good run; empty = it is one.
        same_job: Whether its job is certainly the one that is tuned.
    """

    attempt: RecordedAttempt
    standing: Standing
    reason: str = ""
    same_job: bool = True


class Amount(msgspec.Struct, frozen=True):
    """A request and a limit, in cores or bytes; None = not set."""

    request: float | None = None
    limit: float | None = None


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What is recommended for one resource of the replicas of a role.

    Attributes:
        role: The role.
        resource: cpu or memory.
        path: The field of the job whose resources the role has: its own, or the job's.
        now: What the job requests.
        used: By run id: the most that a replica of the role used, the newest run first.
        most: The largest use; None = not known.
        new: What is recommended; None = nothing, `reasons` say why.
        reasons: What it follows from, each a phrase.
    """

    role: RoleName
    resource: Resource
    path: Path
    now: Amount
    used: Mapping[str, float] = {}
    most: float | None = None
    new: Amount | None = None
    reasons: Sequence[str] = ()

    @property
    def changed(self) -> bool:
        """Whether something else is recommended than what the job has."""
        return self.new is not None and self.new != self.now


class TaskTuning(msgspec.Struct, frozen=True, kw_only=True):
    """The recommendations for one task.

    Attributes:
        pipeline: The pipeline's name; empty = the job is in none.
        task: The task's name.
        rule: How they follow from the use.
        runs: All attempts that were looked at, the newest first.
        off: Why there are no recommendations; empty = there are.
        advices: By role and resource.
    """

    pipeline: str
    task: str
    rule: Rule
    runs: Sequence[Considered] = ()
    off: str = ""
    advices: Sequence[Advice] = ()

    @property
    def good(self) -> int:
        """The number of good runs."""
        return sum(run.standing is Standing.GOOD for run in self.runs)


def tune(
    job: TrainingJob,
    attempts: Sequence[RecordedAttempt],
    rule: Rule,
    *,
    pipeline: str,
    task: str,
    ignored: Collection[str],
    launched: TrainingJob | None = None,
) -> TaskTuning:
    """Return what is recommended for a job.

    Args:
        job: The job that is tuned.
        attempts: Attempts at its task, in any order.
        rule: How recommendations follow from the use.
        pipeline: Name of the pipeline; empty = none.
        task: Name of the task.
        ignored: Those of COMPARED that may differ.
        launched: The job with the platform's settings, as its runs may have been launched; None = as `job`.
    """
    newest_first = sorted(attempts, key=lambda attempt: -attempt.status.created)
    runs = [_considered(attempt, [job, *([launched] if launched else [])], ignored) for attempt in newest_first]
    tuning = TaskTuning(pipeline=pipeline, task=task, rule=rule, runs=runs)
    if off := _off(job, newest_first):
        return msgspec.structs.replace(tuning, off=off)
    advices = [_advice(role, resource, job, runs, rule) for role in job.resolved_roles() for resource in _STEPS]
    if tuning.good < rule.runs:
        runs_needed = f"{rule.runs} {'is' if rule.runs == 1 else 'are'} needed"
        off = f"{good_runs(tuning.good)} of the last {DAYS:.0f} days, and {runs_needed}"
        return msgspec.structs.replace(
            tuning, off=off, advices=[msgspec.structs.replace(advice, new=None) for advice in advices]
        )
    return msgspec.structs.replace(tuning, advices=list(_shared(advices)))


def good_runs(count: int) -> str:
    """Return `1 good run`, `2 good runs`."""
    return f"{count} good run{'s' * (count != 1)}"


def written(resource: Resource, amount: float | None) -> str:
    """Return an amount as job files have it: `500m`, `2`, `1536Mi`; `-` for None."""
    if amount is None:
        return "-"
    return str(write_cores(amount) if resource == "cpu" else write_bytes(round(amount)))


def _off(job: TrainingJob, newest_first: Sequence[RecordedAttempt]) -> str:
    """Return why a job is not tuned, by its variable, or by that which the newest run got; empty = it is."""
    recorded = [attempt.job for attempt in newest_first if attempt.job is not None]
    for where, source in [("the job", job), *((("the newest run", recorded[0]),) if recorded else ())]:
        for name, role in source.resolved_roles().items():
            value = role.env.get(OFF, "")
            if not isinstance(value, str) or value.strip().lower() not in _NOT_OFF:
                shown = repr(value) if isinstance(value, str) else "not known: it is from another object"
                return (
                    f"{OFF} of the {name} of {where} is {shown}, which switches tuning off; remove it from `env` of "
                    "the job, or ask your operator to remove it from `defaults.env` of the platform settings"
                )
    return ""


def amount_of(need: Resources, resource: Resource) -> Amount:
    """Return the request and the limit in the resources of a replica."""
    return Amount(need.cpu, need.cpu_limit) if resource == "cpu" else Amount(need.memory, need.memory_limit)


def range_of(resource: Resource, amount: Amount | None) -> str:
    """Return a request and a limit as one value of a job file: `2`, `2~4`; `-` = neither is set."""
    if amount is None:
        return "-"
    request, limit = written(resource, amount.request), written(resource, amount.limit)
    return limit if request in (limit, "-") else f"{request}~{limit}"


def rounded_use(resource: Resource, amount: float | None) -> str:
    """Return a use for people: `0.82 cores`, `1.2 GiB`; `not known` for None."""
    if amount is None:
        return "not known"
    return f"{amount:.2g} cores" if resource == "cpu" else format_bytes(amount)


# --- which runs count


def _considered(attempt: RecordedAttempt, jobs: Sequence[TrainingJob], ignored: Collection[str]) -> Considered:
    status = attempt.status
    if attempt.job is None:
        return Considered(attempt, Standing.NOT_GOOD, "its job is not recorded", same_job=False)
    if other := min((_differences(job, attempt.job, ignored) for job in jobs), key=len):
        return Considered(attempt, Standing.NOT_GOOD, f"another job: {', '.join(other)}", same_job=False)
    if status.state is not State.SUCCEEDED:
        wrong = status.state.value if status.state.terminal else f"has not ended: {status.state.value}"
        return Considered(attempt, Standing.NOT_GOOD, wrong)
    for role in jobs[0].resolved_roles():
        usage = status.usage.get(role)
        if usage is None or usage.cpu_peak is None or usage.memory_peak is None:
            return Considered(attempt, Standing.NOT_GOOD, f"the use of {role} is not known")
        if (share := _covered(status, role)) < _COVERED:
            return Considered(attempt, Standing.LOWER_BOUND, f"{share:.0%} of the time of {role} was sampled")
    return Considered(attempt, Standing.GOOD)


def _covered(status: Status, role: RoleName) -> float:
    """Return the share of the running time of a role's replicas that its samples stand for; 0 if it is not known.

    A replica whose end was not seen, as of a parameter server that is removed with its job, ran to the job's end.
    """
    incarnations = [part for replica in status.replicas if replica.role == role for part in replica.incarnations]
    if status.ended is None:
        return 0.0
    seconds = sum((part.ended or status.ended) - part.started for part in incarnations)
    return min(status.usage[role].seconds / seconds, 1.0) if seconds > 0 else 0.0


def _differences(job: TrainingJob, other: TrainingJob, ignored: Collection[str]) -> list[str]:
    """Return the fields that decide what a replica uses, and that differ; resources are not among them."""
    roles, others = job.resolved_roles(), other.resolved_roles()
    if roles.keys() != others.keys():
        return ["roles"]
    differences: list[str] = []
    for name, role in roles.items():
        for field in COMPARED:
            values = [getattr(one, field) for one in (role, others[name])]
            if field == "env":
                values = [{key: value for key, value in env.items() if key not in (DATA, OFF)} for env in values]
            if values[0] != values[1] and field not in ignored:
                differences.append(f"{field} of {name}")
    return differences


# --- what is recommended


def _advice(role: RoleName, resource: Resource, job: TrainingJob, runs: Sequence[Considered], rule: Rule) -> Advice:
    """Return the recommendation for the replicas of one role, without regard to others that share its resources."""
    role_settings = getattr(job.roles, role)
    path: Path = (
        ("roles", role, "resources")
        if role_settings is not None and role_settings.resources is not None
        else ("resources",)
    )
    need = job.resolved_roles()[role].resources
    used: dict[str, float] = {}
    for run in runs:
        peak, name = _peak(run.attempt.status, role, resource), run.attempt.status.identity.run
        if run.standing is not Standing.NOT_GOOD and peak is not None:
            used[name] = max(used.get(name, 0.0), peak)  # of all attempts
    advice = Advice(role=role, resource=resource, path=path, now=amount_of(need, resource), used=used)
    if not used:
        return msgspec.structs.replace(advice, reasons=["its use is not known"])
    most, reasons = max(used.values()), [f"largest use of {len(used)} runs"]
    for run in runs:
        for floor, reason in _floors(run, role, resource):
            if floor >= most:
                most, reasons = floor, [reason]
    if resource == "memory" and need.shared_memory and need.shared_memory > most:
        most, reasons = float(need.shared_memory), ["shared_memory counts against the limit"]
    limit = _rounded(most * (1 + rule.headroom), resource)
    reasons.append(f"+ {rule.headroom:.0%}")
    if (cap := rule.caps.get(resource)) and limit > cap[1]:
        limit = cap[1]
        below = ", which is not enough" if limit < most else ""
        reasons.append(f"at most {written(resource, limit)} by {cap[0]}{below}")
    return msgspec.structs.replace(advice, most=most, new=_shaped(advice.now, limit, resource), reasons=reasons)


def _shaped(now: Amount, limit: float, resource: Resource) -> Amount:
    """Return a request and a limit in the proportion that the job has between them."""
    if now.request is None and now.limit is not None:
        return Amount(None, limit)
    if now.request is None or now.limit is None or now.request >= now.limit:
        return Amount(limit, limit)
    return Amount(min(_rounded(limit * now.request / now.limit, resource), limit), limit)


def _floors(run: Considered, role: RoleName, resource: Resource) -> Iterator[tuple[float, str]]:
    """Yield what a replica certainly needed in a run, also in one that failed: it was stopped or held at a limit."""
    status, job = run.attempt.status, run.attempt.job
    if not run.same_job or job is None:
        return
    need, name = job.resolved_roles()[role].resources, status.identity.run
    if resource == "cpu":
        peak = _peak(status, role, resource)
        if peak is not None and need.cpu_limit and peak >= _AT_LIMIT * need.cpu_limit:
            yield max(peak, need.cpu_limit), f"held at its limit of {written('cpu', need.cpu_limit)} in {name}"
        return
    for replica in status.replicas:
        for part in replica.incarnations:
            out_of_memory = replica.role == role and part.reason == "OOMKilled" and not part.container
            if out_of_memory and (limit := part.memory_limit or need.memory_limit):
                yield float(limit), f"out of memory at {format_bytes(limit)} in {name}"


def _shared(advices: Sequence[Advice]) -> Iterator[Advice]:
    """Yield the recommendations; roles that have the job's resources get the largest of theirs."""
    for advice in advices:
        same = [a for a in advices if (a.path, a.resource) == (advice.path, advice.resource)]
        unknown = [other.role for other in same if other.new is None]
        if unknown:  # never lowered by half of what is known
            yield msgspec.structs.replace(advice, new=None, reasons=[f"the use of {', '.join(unknown)} is not known"])
            continue
        largest = max(same, key=lambda other: (other.new or other.now).limit or 0.0)
        if largest.new == advice.new:
            yield advice
            continue
        reasons = [*largest.reasons, f"of {largest.role}, which has the same `{dotted(advice.path)}`"]
        yield msgspec.structs.replace(advice, new=largest.new, reasons=reasons)


def _peak(status: Status, role: RoleName, resource: Resource) -> float | None:
    usage = status.usage.get(role)
    if usage is None:
        return None
    return usage.cpu_peak if resource == "cpu" else usage.memory_peak


def _rounded(amount: float, resource: Resource) -> float:
    """Return the next amount in the steps of its size; at least one step."""
    step = next(step for below, step in _STEPS[resource] if amount <= below)
    steps = max(math.ceil(round(amount / step, 6)), 1)
    return round(steps * step, 1) if resource == "cpu" else float(steps * step)

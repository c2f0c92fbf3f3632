"""How a job system handles each feature that a job can use: the refusal, the warning and the row of the docs.

docs/systems/features.md is generated from the same objects, and `problems` and `warnings` are what a job is checked by,
so that the page and the product cannot differ.
"""

import enum
import functools
from collections.abc import Iterable, Mapping

import msgspec

from tfsteps.spec import Problem, TrainingJob, dotted
from tfsteps.spec.units import write_duration
from tfsteps.systems.features import FEATURES, Use, Uses


class Level(enum.StrEnum):
    """The provider of a feature."""

    NATIVE = "native"
    DONE = "done by tfsteps"
    REFUSED = "refused"
    UNUSED = "no effect"


class Capability(msgspec.Struct, frozen=True):
    """How one job system handles one feature.

    Attributes:
        level: Who provides it.
        note: Native: the system's own name for it. Done: how. Refused and unused: why.
        fix: Refused: what to do. Unused: what to do instead; empty = nothing.
        uses: Finds the fields that are refused or unused; None = all that use the feature.
    """

    level: Level
    note: str
    fix: str = ""
    uses: Uses | None = None


native = functools.partial(Capability, Level.NATIVE)
"""A capability that the job system has itself."""

done = functools.partial(Capability, Level.DONE)
"""A capability that tfsteps adds to the job system."""

refused = functools.partial(Capability, Level.REFUSED)
"""A capability that is not supported: a job that uses it is refused with the reason and the fix."""

unused = functools.partial(Capability, Level.UNUSED)
"""A capability that is not supported: the job runs without it, and a warning says why."""


def spec_problems(job: TrainingJob, capabilities: Mapping[str, Capability]) -> list[Problem]:
    """Return a problem for each field of a job that a job system refuses."""
    return [
        Problem(
            path=use.path,
            value=use.value,
            wrong=f"{feature.refusal}: {capability.note}",
            fix=capability.fix,
        )
        for name, feature in FEATURES.items()
        if (capability := capabilities[name]).level is Level.REFUSED
        for use in (capability.uses or feature.uses)(job)
    ]


def warnings(job: TrainingJob, capabilities: Mapping[str, Capability]) -> list[str]:
    """Return a sentence for each reason why fields of a job have no effect on a job system."""
    ignored: dict[tuple[str, str], list[Use]] = {}
    for name, feature in FEATURES.items():
        if (capability := capabilities[name]).level is Level.UNUSED:
            ignored.setdefault((capability.note, capability.fix), []).extend((capability.uses or feature.uses)(job))
    return [sentence for (reason, fix), uses in ignored.items() for sentence in no_effect(uses, reason, fix)]


def held_at_start(job: TrainingJob, system: str) -> list[str]:
    """Return the warning that a job of a system is created suspended, so that it does not start; empty if it is not."""
    if not job.systems.get(system, {}).get("suspend"):
        return []
    who = f"its queue, {job.queue}, another program or" if job.queue else "another program or"
    waits = f"the job does not start until {who} `tfsteps resume RUN` resumes it"
    return [
        f"`suspend` of {system}: {waits}; `deadlines.total`, {write_duration(job.deadlines.total)}, counts meanwhile."
    ]


def no_effect(uses: Iterable[Use], reason: str, fix: str = "") -> list[str]:
    """Return the warning that fields have no effect; empty if there are none."""
    names = [f"`{dotted(use.path)}`" for use in uses]
    verb = "have" if names[1:] else "has"
    return [f"{', '.join(names)} {verb} no effect: {reason}.{fix and f' {fix}.'}"] if names else []

"""The states of jobs on platforms that no launcher follows any more, for lists of this machine's records."""

from collections.abc import Mapping, Sequence

import msgspec

from tfsteps.backends.backend_location import on_of
from tfsteps.backends.open import open_platform
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.location import Location
from tfsteps.runs.status import Status, may_continue
from tfsteps.systems import registry


def refreshed(statuses: Sequence[Status]) -> list[Status]:
    """Return recorded statuses with the states that platforms report now of the jobs that launchers left there.

    If a platform does not answer, or its address is not set, these states are unknown, and a warning says why. A job
    that the platform does not have keeps its recorded state.
    """
    left: dict[str, list[Status]] = {}
    for status in statuses:
        if may_continue(status) and (on := on_of(status.location)) not in (Location.LOCAL, Location.KUBERNETES):
            left.setdefault(on, []).append(status)
    current: dict[str, Status] = {}
    for name, recorded in left.items():
        current |= _states(name, recorded)
    return [_with_state(status, current) for status in statuses]


def _states(name: str, left: Sequence[Status]) -> dict[str, Status]:
    """Return the statuses that a platform reports of some jobs, by their uids; unknown ones if it does not answer."""
    try:
        with open_platform(name) as backend:
            reported = [job.status for run in {status.identity.run for status in left} for job in backend.jobs(run)]
    except CommandError as error:
        warn(f"the states of {len(left)} jobs on {registry.platform(name).title} are not known: {error}")
        return {status.uid: _UNKNOWN for status in left}
    uids = {status.uid for status in left}
    return {status.uid: status for status in reported if status.uid in uids}


_UNKNOWN = Status(identity=Identity(run="", task=""), job="", system="", state=State.UNKNOWN)


def _with_state(status: Status, current: Mapping[str, Status]) -> Status:
    """Return a status with the state of the same job in `current`, if it is there."""
    now = current.get(status.uid, status)
    return msgspec.structs.replace(status, state=now.state, reason=now.reason, message=now.message, ended=now.ended)

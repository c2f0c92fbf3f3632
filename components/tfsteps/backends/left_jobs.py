"""The states of jobs on HAI that no launcher of this machine follows any more, for lists of this machine's records."""

from collections.abc import Mapping, Sequence

import msgspec

from tfsteps.backends.errors import CommandError
from tfsteps.backends.open import open_backend
from tfsteps.backends.place import On, Place
from tfsteps.console.messages import warn
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.location import Location
from tfsteps.runs.lost_launcher import may_continue
from tfsteps.runs.status import Status


def refreshed(statuses: Sequence[Status]) -> list[Status]:
    """Return recorded statuses with the states that HAI reports now of the jobs that launchers left there.

    If HAI does not answer, or its address is not set, these states are unknown, and a warning says why. A job that HAI
    does not have keeps its recorded state.
    """
    left = {status.uid for status in statuses if may_continue(status) and status.location is Location.HAI}
    if not left:
        return [*statuses]
    try:
        with open_backend(Place(On.HAI)) as hai:
            runs = dict.fromkeys(status.identity.run for status in statuses if status.uid in left)
            current = {job.status.uid: job.status for run in runs for job in hai.jobs(run)}
    except CommandError as error:
        warn(f"the states of {len(left)} jobs on HAI are not known: {error}")
        current = dict.fromkeys(left, _UNKNOWN)
    return [_with_state(status, current) if status.uid in left else status for status in statuses]


_UNKNOWN = Status(identity=Identity(run="", task=""), job="", system="", state=State.UNKNOWN)


def _with_state(status: Status, current: Mapping[str, Status]) -> Status:
    """Return a status with the state of the same job in `current`, if it is there."""
    now = current.get(status.uid, status)
    return msgspec.structs.replace(status, state=now.state, reason=now.reason, message=now.message, ended=now.ended)

"""What is known of a job whose launcher has ended before it, or of whose launcher nothing is known. Pure."""

from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.status import Status, Transition

ABANDONED = "LauncherDied"
"""Reason of a status if the launcher was killed. The job's state is unknown then if it outlives its launcher."""

DETACHED = "Detached"
"""Reason of a status if the job was left running without a launcher, on purpose. The job's state is unknown then."""

UNREACHABLE = "LauncherElsewhere"
"""Reason of a status if this machine cannot know whether the launcher still runs."""

_ENDED = {ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.STOPPED}


def abandon(status: Status, at: float, *, stopped: bool) -> None:
    """Change the last status of a launcher that ended at about `at`, before its job, to what is known now.

    Args:
        status: Changed in place.
        at: Seconds since the epoch.
        stopped: Whether all replicas were seen to be gone.
    """
    if status.detached:
        _leave(status)
        return
    where = f" in namespace {status.namespace}" if status.namespace else ""
    rest = "its replicas were stopped too" if stopped else "it is not known whether its replicas were stopped too"
    status.state, status.reason, status.ended = State.LOST, ABANDONED, max(at, status.created)
    status.message = f"The launcher was killed; {f'the job may go on{where}' if status.outlives_launcher else rest}."
    status.transitions.append(
        Transition(at=status.ended, state=status.state, reason=status.reason, message=status.message)
    )
    _end_replicas(status, ReplicaState.STOPPED if stopped else ReplicaState.UNKNOWN)
    for replica in status.replicas:
        for incarnation in replica.incarnations:
            if incarnation.ended is None:
                incarnation.ended, incarnation.state = max(at, incarnation.started), replica.state


def doubt(status: Status, why: str) -> None:
    """Change a status to that of a job of which nothing is known now; `why` is the end of a sentence."""
    status.message = f"Last recorded: {status.state}. {why[:1].upper()}{why[1:]}."
    status.state, status.reason = State.UNKNOWN, UNREACHABLE
    _end_replicas(status, ReplicaState.UNKNOWN)


def _leave(status: Status) -> None:
    """Change the status of a job that was left running to what is known of it now."""
    where = f" in namespace {status.namespace}" if status.namespace else f" on {status.system}"
    status.state, status.reason = State.UNKNOWN, DETACHED
    status.message = f"The job was left running{where}; `tfsteps attach {status.identity.run}` follows it."
    _end_replicas(status, ReplicaState.UNKNOWN)


def _end_replicas(status: Status, state: ReplicaState) -> None:
    for replica in status.replicas:
        if replica.state not in _ENDED:
            replica.state = state


def may_continue(status: Status) -> bool:
    """Return whether the job of a status may go on while no launcher on this machine follows it."""
    return status.outlives_launcher and status.reason in (ABANDONED, DETACHED)

"""The message of a failed job, from the job object and its pods. Pure."""

from collections.abc import Sequence

from tfsteps.runs.events import JobChanged, Replica, ReplicaChanged

_NAMED = 5  # replicas in a message


def explanation(final: JobChanged, replica: ReplicaChanged | None, failure: str, gone: Sequence[Replica]) -> str:
    """Return the message of a failed job.

    Args:
        final: The end of the job, by the job object.
        replica: The end of the replica whose failure is the cause; None = no remaining pod failed.
        failure: The failure of another container than that replica's program; empty = none.
        gone: Replicas without a pod, of which no pod was seen.
    """
    if replica is None:
        return f"{final.message} {_unknown(gone)}".strip() if gone else final.message
    if failure:
        return f"{final.message} {replica.replica}: {failure}.".strip()
    if final.message and final.reason != "ReplicaFailed":
        return final.message
    code = "" if replica.exit_code is None else f" with exit code {replica.exit_code}"
    return f"{replica.replica} failed{code}{f' ({replica.reason})' if replica.reason else ''}."


def several(final: JobChanged, failed: Sequence[ReplicaChanged]) -> str:
    """Return the message of a job of which several replicas `failed`, at unknown times."""
    ends = ", ".join(f"{change.replica} with exit code {change.exit_code}" for change in failed[:_NAMED])
    more = f" and {len(failed) - _NAMED} more" if failed[_NAMED:] else ""
    return f"{final.message} These failed: {ends}{more}; which one first is not known.".strip()


def _unknown(gone: Sequence[Replica]) -> str:
    names = ", ".join(map(str, gone[:_NAMED])) + (f" and {len(gone) - _NAMED} more" if gone[_NAMED:] else "")
    return f"No pod is left of {names}, so it is not known which replica failed and with which exit code."

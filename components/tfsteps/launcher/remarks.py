"""What the outcome of a job does not show: failures that did not count, and different images of one role."""

from collections.abc import Callable, Iterator, Sequence

from tfsteps.runs.events import ReplicaState
from tfsteps.runs.images import differ, short
from tfsteps.runs.status import Incarnation, Status
from tfsteps.text.tracebacks import raised

_NAMED = 5


def remarks(status: Status, last_lines: Callable[[str, int], Sequence[str]]) -> Iterator[str]:
    """Yield a sentence for each: a traceback of the replica that decided the job, and replicas that failed.

    Args:
        status: Of the ended job.
        last_lines: Returns the last lines of a replica, by its name and the number of the incarnation, from 0.
    """
    ends = [(replica, replica.incarnations[-1]) for replica in status.replicas if replica.incarnations]
    for replica, last in ends:
        if replica.name == status.decisive_replica and last.state is ReplicaState.SUCCEEDED:
            error = raised(last_lines(replica.name, last.number))
            if error.exception:
                where = f" at {error.frame}" if error.frame else ""
                yield (
                    f"{replica.name} ended with exit code 0 after it had printed a traceback: {error.exception}"
                    f"{where}. If its command runs several programs, `set -e` ends it at the first that fails."
                )
    failed = [f"{replica.name}{_code(last)}" for replica, last in ends if replica.state is ReplicaState.FAILED]
    if failed:
        more = f" and {len(failed) - _NAMED} more" if failed[_NAMED:] else ""
        who = f"{', '.join(failed[:_NAMED])}{more}"
        yield f"{who} failed. {status.decisive_replica} decides the outcome: the job has succeeded without."


def mixed_images(status: Status) -> Iterator[str]:
    """Yield a sentence for each role whose replicas certainly ran different images."""
    for role, images in status.images.items():
        if differ(images):
            yield (
                f"The replicas of {role} ran different images: {short(images)}. The tag was moved, or a node had an "
                "older copy; name the image by its digest."
            )


def _code(last: Incarnation) -> str:
    return "" if last.exit_code is None else f" (exit code {last.exit_code})"

"""The pods of each replica of a job, in their order. Pure."""

import itertools
from collections.abc import Collection, Iterable

from tfsteps.runs.events import Replica, ReplicaChanged, ReplicaState
from tfsteps.systems.kubernetes.follow.pods import Pod

_LONGEST = 300  # characters of a message


class PodHistory(dict[Replica, list[str]]):
    """The uids of each replica's pods, the newest last."""

    def __init__(self, replicas: Iterable[Replica]) -> None:
        """Begin without a pod."""
        super().__init__((replica, []) for replica in replicas)
        self.restarts: dict[str, int] = {}
        """Number of restarts of a pod's program within the pod, by uid."""
        self.withdrawn: set[str] = set()
        """Uids of pods that were deleted because the job was stopped or suspended: new ones are no restarts."""

    def incarnations_before(self, replica: Replica, uid: str, without: Collection[str] = ()) -> int:
        """Return how many incarnations a replica had before the pod with this uid.

        Args:
            replica: Whose pod.
            uid: Of the pod, which need not be listed yet.
            without: Uids of pods that do not count.
        """
        earlier = itertools.takewhile(lambda other: other != uid, self[replica])
        return sum(1 + self.restarts[other] for other in earlier if other not in without)

    def change(self, replica: Replica, seen: Pod, now: float) -> ReplicaChanged:
        """Return the state of a replica by its pod at `now`, in seconds since the epoch."""
        return ReplicaChanged(
            at=now,
            replica=replica,
            state=seen.state,
            restarts=seen.restarts + self.incarnations_before(replica, seen.uid, without=self.withdrawn),
            exit_code=seen.exit_code,
            reason=seen.reason,
            message=seen.message[:_LONGEST] if seen.state is ReplicaState.FAILED else "",
            memory_limit=seen.memory_limit,
            container=seen.failed if seen.state is ReplicaState.FAILED else "",
            place=f"{seen.name} on {seen.node}" if seen.node else seen.name,
            started=seen.started,
            image=seen.image,
            incarnation=seen.restarts + self.incarnations_before(replica, seen.uid),
        )

"""What the end of one replica means for the others: pure rules, from what TensorFlow was seen to do.

MultiWorkerMirrored: no task can rejoin, so all that train start again, counted once. Parameter servers: only what died;
the chief too when it was a ps, for it cannot go on. Evaluators and TensorFlow 1's between-graph tasks: each for itself.
"""

from collections.abc import Mapping

import msgspec

from tfsteps.runs.events import Replica, ReplicaState
from tfsteps.spec import TrainingJob

RETRYABLE_FROM = 128
"""With `restart: exit_code`, codes from here on (ended by a signal) are tried again, as TFJob does."""


class Succeed(msgspec.Struct, frozen=True):
    """The job has succeeded."""


class Fail(msgspec.Struct, frozen=True):
    """The job has failed.

    Attributes:
        reason: One CamelCase word.
        message: One sentence.
    """

    reason: str
    message: str


class Restart(msgspec.Struct, frozen=True):
    """Start these again, all at once when the last of them has ended.

    Attributes:
        replicas: Who.
        count: How many restarts have been used up by now, this one included.
    """

    replicas: frozenset[Replica]
    count: int


class Wait(msgspec.Struct, frozen=True):
    """Nothing to do."""


Decision = Succeed | Fail | Restart | Wait


class RestartPolicy:
    """Judges the end of replicas, and counts restarts."""

    def __init__(self, job: TrainingJob) -> None:
        """Start with no restart used up."""
        self._job = job
        self._roles = job.resolved_roles()
        self.replicas = [Replica(name, i) for name, role in self._roles.items() for i in range(role.replicas)]
        self.trainers = frozenset(r for r in self.replicas if r.role in ("chief", "worker"))
        self.decisive_replica = Replica(*job.decisive_replica)
        self._used: dict[str | None, int] = {}

    def judge(self, ended: Replica, exit_code: int, reason: str, states: Mapping[Replica, ReplicaState]) -> Decision:
        """Decide what follows from the end of `ended`, which nobody asked for.

        Args:
            ended: Who.
            exit_code: As a shell counts.
            reason: PeerLost where the program says that it failed because another one did; else anything.
            states: Of all replicas; that of `ended` is up to date.
        """
        if exit_code == 0:
            return self._after_success(ended, states)
        policy = self._roles[ended.role].restart
        what = f"{ended} ended with exit code {exit_code}"
        permanent = policy == "exit_code" and exit_code < RETRYABLE_FROM and reason != "PeerLost"
        if policy == "never" or permanent:
            return Fail(reason or "ReplicaFailed", what)
        return self._again(ended, what)

    def _after_success(self, ended: Replica, states: Mapping[Replica, ReplicaState]) -> Decision:
        if self._job.success == "all_workers":
            if all(states[replica] is ReplicaState.SUCCEEDED for replica in self.trainers):
                return Succeed()
        elif ended == self.decisive_replica:
            return Succeed()
        if self._roles[ended.role].restart == "always" and ended != self.decisive_replica:
            return self._again(ended, f"{ended} ended with exit code 0, and `restart: always` wants it back,")
        return Wait()

    def _again(self, ended: Replica, what: str) -> Decision:
        own = self._roles[ended.role].backoff_limit
        account, limit = (ended.role, own) if own is not None else (None, self._job.effective_backoff_limit)
        used = self._used.get(account, 0)
        if used >= limit:
            return Fail("BackoffLimitExceeded", f"{what} after {used} of {limit} restarts")
        self._used[account] = used + 1
        return Restart(self._with(ended), sum(self._used.values()))

    def _with(self, ended: Replica) -> frozenset[Replica]:
        """Return who has to start again when `ended` does."""
        if self._job.effective_strategy == "multi_worker_mirrored" and ended in self.trainers:
            return self.trainers
        if self._job.effective_strategy == "parameter_server" and ended.role == "ps":
            return frozenset({ended, Replica("chief", 0)})
        return frozenset({ended})


def delay(count: int) -> float:
    """Return the seconds to wait before restart number `count`: none for the first, then 1, 2, 4, ... up to 30."""
    return 0.0 if count <= 1 else min(2.0 ** (count - 2), 30.0)

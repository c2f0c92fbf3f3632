"""When a replica is restarted, and which others with it, if no operator decides: local runs and HAI.

The rules follow the observed behaviour of TensorFlow. MultiWorkerMirrored: no task can rejoin, so all training replicas
restart together, counted once. Parameter servers: only the ended replica restarts; after the end of a ps, the chief
restarts too, because it cannot continue. Evaluators and TensorFlow 1's between-graph tasks restart alone.
`restart: always` also restarts the decisive replica, as Kubernetes does: such a job ends at its backoff limit.

This file also runs on the ranks of HAI, on their Python, 3.7 or newer: standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tfsteps.spec import RoleName, TrainingJob

    Member = tuple[RoleName, int]  # the role and the index of a replica

RETRYABLE_FROM = 128
"""With `restart: exit_code`, a replica restarts after this exit code or above (ended by a signal), as in a TFJob."""

_TRAIN = ("chief", "worker")
_LONGEST_DELAY = 30.0


class RestartDecision(NamedTuple):
    """What follows from the end of a replica.

    Attributes:
        action: wait = nothing follows; succeed, fail = the job ends so; restart = restart `members`, all at once when
            the last of them has ended.
        reason: Of a failure: one CamelCase word.
        message: Of a failure or a restart: one sentence without its full stop.
        members: The replicas to restart.
        delay: Seconds to wait before the restart.
    """

    action: str
    reason: str = ""
    message: str = ""
    members: frozenset[Member] = frozenset()
    delay: float = 0.0


WAIT, SUCCEED = RestartDecision("wait"), RestartDecision("succeed")


def restart_rules(job: TrainingJob) -> dict[str, Any]:
    """Return the rules of a job for `RestartPolicy`, as JSON values."""
    return {
        "strategy": job.effective_strategy,
        "success": job.success,
        "backoff": job.effective_backoff_limit,
        "roles": {
            name: {"replicas": role.replicas, "restart": role.restart, "limit": role.backoff_limit}
            for name, role in job.resolved_roles().items()
        },
    }


class RestartPolicy:
    """Decides what follows from the end of a replica, and counts restarts."""

    def __init__(self, rules: Mapping[str, Any], *, patient: bool = True) -> None:
        """Create the policy with no restart used.

        Args:
            rules: The result of `restart_rules`.
            patient: Whether all restarts are used. Else the same failure twice in succession is the last.
        """
        self._strategy, self._success, self._backoff = rules["strategy"], rules["success"], rules["backoff"]
        self._roles = rules["roles"]
        counts = {name: role["replicas"] for name, role in self._roles.items() if name in _TRAIN}
        self._trainers = frozenset((name, i) for name, count in counts.items() for i in range(count))
        self._decisive: Member = ("chief" if "chief" in self._roles else "worker", 0)
        self._patient = patient
        self._failure = ""  # the last one that is known
        self._used: dict[str | None, int] = {}  # restarts, by role if it has a limit; None = the shared limit

    def judge(
        self, ended: Member, exit_code: int, succeeded: Collection[Member], reason: str = "", failure: str = ""
    ) -> RestartDecision:
        """Decide what follows from the end of a replica that was not stopped on request.

        Args:
            ended: The replica.
            exit_code: As in a shell: 128 + n for signal n.
            succeeded: The replicas that have succeeded so far.
            reason: Why it failed: PeerLost = because another replica did; empty = not known.
            failure: The exception and its place, if it will come again; empty = not known.
        """
        what = "{}-{} ended with exit code {}".format(*ended, exit_code)
        policy = self._roles[ended[0]]["restart"]
        if exit_code == 0:
            if policy == "always":
                return self._restart(ended, what)
            all_workers = self._success == "all_workers"
            done = self._trainers <= {*succeeded, ended} if all_workers else ended == self._decisive
            return SUCCEED if done else WAIT
        permanent = policy == "exit_code" and exit_code < RETRYABLE_FROM and reason != "PeerLost"
        if policy == "never" or permanent:
            return RestartDecision("fail", reason or "ReplicaFailed", what)
        repeated, self._failure = failure and failure == self._failure, failure
        if repeated and not self._patient:
            return RestartDecision("fail", "SameFailure", f"{what}, twice by the same exception at the same place")
        return self._restart(ended, what)

    def _restart(self, ended: Member, what: str) -> RestartDecision:
        role_limit = self._roles[ended[0]]["limit"]
        account, limit = (ended[0], role_limit) if role_limit is not None else (None, self._backoff)
        used = self._used.get(account, 0)
        if used >= limit:
            return RestartDecision("fail", "BackoffLimitExceeded", f"{what} after {used} of {limit} restarts")
        self._used[account] = used + 1
        message = f"{what}; restart {used + 1} of {limit}"
        return RestartDecision("restart", "", message, self._with(ended), delay(sum(self._used.values())))

    def _with(self, ended: Member) -> frozenset[Member]:
        """Return which replicas restart together with `ended`."""
        if self._strategy == "multi_worker_mirrored" and ended in self._trainers:
            return self._trainers
        if self._strategy == "parameter_server" and ended[0] == "ps":
            return frozenset({ended, ("chief", 0)})
        return frozenset({ended})


def delay(count: int) -> float:
    """Return the seconds to wait before restart number `count`: none for the first, then 1, 2, 4, ... up to 30."""
    return 0.0 if count <= 1 else min(2.0 ** (count - 2), _LONGEST_DELAY)

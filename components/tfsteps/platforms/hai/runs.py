"""The tasks of all runs on one HAI Platform, selected by their tags."""

import contextlib
import datetime as dt
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.kube.answers import MALFORMED
from tfsteps.platforms.hai import schema
from tfsteps.platforms.hai.client import Client, Task
from tfsteps.platforms.hai.verdict import verdict
from tfsteps.runs.events import ReplicaName, ReplicaState, State
from tfsteps.runs.identity import ATTEMPT, PREFIX, RUN_ID, TASK, Identity, label_value
from tfsteps.runs.status import ReplicaStatus, Status

_MANAGED_BY = "app.kubernetes.io/managed-by=tfsteps"
_LONGEST_PLAN = 10_000  # ranks; a tampered record may name any number
_PODS_RUN = "All pods run. `tfsteps show RUN` reads from the logs whether every program has started."
_POD_STATES = {
    "created": ReplicaState.PENDING,
    "building": ReplicaState.PENDING,
    "unschedulable": ReplicaState.PENDING,
    "running": ReplicaState.RUNNING,
    "succeeded": ReplicaState.SUCCEEDED,
    "failed": ReplicaState.FAILED,
    "stopped": ReplicaState.STOPPED,
}


class TaskPlan(msgspec.Struct, frozen=True):
    """The parts of a task's plan for its ranks that commands need.

    Attributes:
        replicas: The replica of each rank, in order.
        env: The variables that all ranks share.
    """

    replicas: Sequence[ReplicaName]
    env: Mapping[str, str]

    @classmethod
    def of(cls, task: Task) -> "TaskPlan | None":
        """Return the plan in a task's schema; None if tfsteps did not create the task."""
        try:
            plan = json.loads(shlex.split(schema.environments(task)[schema.PLAN])[0])
            counts = [int(role["replicas"]) for role in plan["roles"].values()]
            if min(counts, default=0) < 0 or sum(counts) > _LONGEST_PLAN:
                return None
            ranks = [ReplicaName(name, i) for name, role in plan["roles"].items() for i in range(role["replicas"])]
            return cls(ranks, {str(name): str(value) for name, value in plan["env"].items()})
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            return None


class HaiRun(msgspec.Struct, frozen=True):
    """A snapshot of one task; `task` is the newest of its chain."""

    task: Task
    plan: TaskPlan
    status: Status

    @classmethod
    def of(cls, task: Task) -> "HaiRun | None":
        """Return the snapshot of a task; None if tfsteps did not create it. ValueError or KeyError if it is broken."""
        plan = TaskPlan.of(task)
        return cls(task, plan, _status(task, plan, time.time())) if plan else None

    @property
    def run_object(self) -> str:
        """The name of the task's Workflow; empty = none."""
        return schema.workflow(self.task)[1]

    @property
    def demo(self) -> None:
        """No task of HAI is a demo: it has no labels that could be changed later."""

    @property
    def chain(self) -> str:
        """The id of the task's chain."""
        return str(self.task["chain_id"])


def listed_runs(client: Client, run: str = "") -> list[HaiRun]:
    """Return the tasks of a run, or of all runs if it is empty, the oldest first.

    Tasks with the tag of tfsteps are skipped if they have no plan, or a record that is not understood.

    Raises:
        ApiError: The tasks cannot be listed.
    """
    tag = schema.tag(RUN_ID, label_value(run)) if run else _MANAGED_BY
    jobs = []
    for task in client.tagged(tag, pods=True):
        with contextlib.suppress(*MALFORMED):
            jobs += [job] if (job := HaiRun.of(task)) else []
    return sorted(jobs, key=lambda job: (job.status.created, job.status.identity.attempt))


def unfinished_tasks(client: Client) -> list[Task]:
    """Return the tasks of all runs that wait, run or are paused. HAI never removes records: ended ones are many.

    Raises:
        ApiError: The tasks cannot be listed.
    """
    lists = [
        client.tagged(_MANAGED_BY, queue_status="queued"),
        client.tagged(_MANAGED_BY, queue_status="scheduled"),
        client.tagged(schema.PAUSED),  # ended ones, for HAI
    ]
    return list({task["chain_id"]: task for tasks in lists for task in tasks}.values())


def refreshed(client: Client, job: HaiRun) -> HaiRun:
    """Return the current state of a task; if the platform no longer has it, the last state as `lost`.

    Raises:
        ApiError: The platform does not answer, or refuses.
    """
    if (task := client.query(chain_id=job.chain)) is None:
        return msgspec.structs.replace(job, status=msgspec.structs.replace(job.status, state=State.LOST))
    return HaiRun(task, job.plan, _status(task, job.plan, time.time()))


def stop_task(client: Client, task: Task) -> None:
    """Stop a task for good, even if it is paused.

    Raises:
        ApiError: The platform does not answer, or refuses.
    """
    if schema.PAUSED in schema.labels(task):
        client.tag(task["chain_id"], schema.PAUSED, on=False)
    client.stop(task["chain_id"])
    client.tag(task["chain_id"], schema.STOPPED, on=True)


def _status(task: Task, plan: TaskPlan, now: float) -> Status:
    """Return the status of a task from the list of tasks; its ranks' logs have more details."""
    current, env = verdict(task), plan.env
    if task.get("worker_status") == "running" and current.state is State.RUNNING:
        # that programs run is only in the logs, which may have many megabytes
        current = msgspec.structs.replace(current, reason="PodsRunning", message=_PODS_RUN)
    replicas = [ReplicaStatus(role=replica.role, index=replica.index) for replica in plan.replicas]
    for pod in task.get("_pods_") or []:
        rank, state = int(pod.get("job_id", -1)), str(pod.get("status") or "").removesuffix("_terminating")
        if 0 <= rank < len(replicas):
            replicas[rank].state = _POD_STATES.get(state, ReplicaState.PENDING)
    tags = schema.labels(task)
    number = tags.get(ATTEMPT, "")
    return Status(
        identity=Identity(
            run=env.get("TFSTEPS_RUN_ID") or tags.get(RUN_ID, ""),
            task=env.get("TFSTEPS_TASK") or tags.get(TASK, ""),
            attempt=int(number) if number.isdigit() else 0,
            pipeline=tags.get(f"{PREFIX}pipeline", ""),
        ),
        job=str(task["nb_name"]),
        uid=str(task["chain_id"]),
        system=schema.NAME,
        location=schema.NAME,
        decisive_replica=str(plan.replicas[0]),
        state=current.state,
        reason=current.reason,
        message=current.message,
        created=schema.created(task) or _seconds(task.get("created_at")) or now,
        ended=(_seconds(task.get("end_at")) or now) if current.state.terminal else None,
        output=env.get("TFSTEPS_OUTPUT_DIR", ""),
        logs=env.get("TFSTEPS_LOG_DIR", ""),
        model=env.get("TFSTEPS_MODEL_DIR", ""),
        replicas=replicas,
    )


def _seconds(text: Any) -> float | None:
    """Return a time of the platform's tables in seconds since the epoch; it is read as UTC. None = no time."""
    try:
        return dt.datetime.fromisoformat(str(text)).replace(tzinfo=dt.UTC).timestamp()
    except ValueError:
        return None

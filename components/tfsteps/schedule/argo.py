"""A schedule as an Argo CronWorkflow. Needs Argo Workflows 3.6 or newer."""

from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.schedule.fires import fire_times
from tfsteps.schedule.types import Schedule, utc
from tfsteps.spec.problems import Problem, problem

NAME = "Argo Workflows"
NAME_LENGTH = 52  # a run's name has its time added, and is to stay a label


def problems(schedule: Schedule) -> list[Problem]:
    """Return what a CronWorkflow cannot express of `schedule`."""
    return list(_problems(schedule))


def fires(schedule: Schedule, now: float) -> Iterator[int]:
    """Yield when its runs start, in seconds since the epoch."""
    return fire_times(schedule, now)


def cron_workflow(schedule: Schedule, workflow: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the CronWorkflow that runs a Workflow; for a schedule without problems.

    Args:
        schedule: When.
        workflow: The Workflow object; its labels and annotations become those of each run.
        name: The CronWorkflow's name.
    """
    cron = schedule.expression
    metadata = {key: value for key, value in workflow["metadata"].items() if key in {"labels", "annotations"}}
    namespace = {key: value for key, value in workflow["metadata"].items() if key == "namespace"}
    spec: dict[str, Any] = {
        "schedules": [cron.text() if cron else f"@every {int(schedule.interval or 0)}s"],
        **({"timezone": schedule.timezone} if cron else {}),
        **policies(schedule),
        # Both are read when a run is due, some milliseconds later than it should have started.
        **({"when": f"{{{{= now() >= {_date(schedule.starts)} }}}}"} if schedule.starts is not None else {}),
        **({"stopStrategy": {"expression": f"now() >= {_date(schedule.ends)}"}} if schedule.ends is not None else {}),
        **({"workflowMetadata": metadata} if metadata else {}),
        "workflowSpec": workflow["spec"],
    }
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": name, **namespace},
        "spec": spec,
    }


def policies(schedule: Schedule) -> dict[str, Any]:
    """Return what CronWorkflows and CronJobs say in the same words: overlap, lateness, and what is kept."""
    kept = {"successful": schedule.history.successful, "failed": schedule.history.failed}
    late = schedule.starting_deadline
    return {
        "concurrencyPolicy": schedule.concurrency.capitalize(),
        **({"startingDeadlineSeconds": int(late)} if late else {}),
        **{f"{outcome}JobsHistoryLimit": count for outcome, count in kept.items() if count is not None},
    }


def catch_up(schedule: Schedule, name: str) -> Iterator[Problem]:
    """Yield the problem of a schedule that wants more than one missed run from a scheduler that starts the newest."""
    if schedule.catch_up:
        fix = "Leave it out; `starting_deadline: 1h` starts the newest within an hour. Kubeflow Pipelines starts all"
        yield problem(("catch_up",), f"is not known to {name}, which starts at most the newest run missed", fix, "true")


def _problems(schedule: Schedule) -> Iterator[Problem]:
    yield from catch_up(schedule, NAME)
    if schedule.interval and schedule.start:
        wrong = f"is not where {NAME} begins to count an interval: it counts from when it reads the schedule"
        yield problem(("start",), wrong, "Write `cron` instead of `interval`, or leave `start` out", schedule.start)


def _date(instant: int) -> str:
    return f"date('{utc(instant)}')"

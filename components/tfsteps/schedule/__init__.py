"""Schedules of pipelines: one `Schedule`, converted to the object of each scheduler.

`kubeflow`, `argo` and `cronjob` each report what their scheduler cannot express, build its objects, and compute its
fire times. `submitter` runs in the pod of a CronJob.
"""

from tfsteps.schedule.parse import from_plain, load, parse
from tfsteps.schedule.types import History, Schedule

__all__ = ["History", "Schedule", "from_plain", "load", "parse"]

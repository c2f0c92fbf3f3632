"""When a pipeline is to run: one `Schedule`, written for each scheduler in its own words.

`kubeflow`, `argo` and `cronjob` each refuse what their scheduler cannot express, write what it takes, and tell when it
will fire. `submitter` runs in the pod of a CronJob.
"""

from tfsteps.schedule.parse import from_plain, load, parse
from tfsteps.schedule.types import History, Schedule

__all__ = ["History", "Schedule", "from_plain", "load", "parse"]

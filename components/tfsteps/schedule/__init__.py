"""Schedules of pipelines: what a `Schedule` is, when it fires, and which of its dates the rules let start.

Each engine converts it to the objects of its schedulers, and reports what they cannot express.
"""

from tfsteps.schedule.parse import from_plain, load, parse
from tfsteps.schedule.types import History, Schedule

__all__ = ["History", "Schedule", "from_plain", "load", "parse"]

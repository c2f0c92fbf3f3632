"""How long cube-studio keeps ended jobs."""

from tfsteps.janitor.rules import DefaultRetention

RETENTION = DefaultRetention(succeeded=3 * 3600.0, failed=3 * 3600.0)
"""3 hours after `finishedAt` or `completionTime`, whether the job succeeded or failed.

Source: `delete_old_crd` in `myapp/tasks/schedules.py` of tencentmusic/cube-studio v2026.03.01, which runs hourly; the
`ttlStrategy` of its Workflows is 3 hours, too. It has no longer time for failed jobs.
"""

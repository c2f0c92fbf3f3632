"""How long ended jobs are kept whose job file does not say it. Pure."""

import msgspec

from tfsteps.runs.events import State


class DefaultRetention(msgspec.Struct, frozen=True, kw_only=True):
    """The retention of ended jobs without `keep_for`.

    Attributes:
        succeeded: Seconds that a job is kept after it has succeeded; None = for ever.
        failed: The same for every other end: failed, cancelled, lost.
    """

    succeeded: float | None = None
    failed: float | None = None

    def keep(self, state: State) -> tuple[str, float | None]:
        """Return the option that applies to an ended job, and its seconds; None = for ever."""
        if state is State.SUCCEEDED:
            return "--keep-succeeded", self.succeeded
        return "--keep-failed", self.failed


FOR_EVER = DefaultRetention()

DEFAULT = DefaultRetention(failed=30 * 86_400.0)
"""Of a janitor that was told nothing: failed jobs, whose pods are kept, do not pile up. Nobody is away for longer."""

PRESETS = {"cube-studio": DefaultRetention(succeeded=3 * 3600.0, failed=3 * 3600.0)}
"""Retention of other platforms, by name.

cube-studio: 3 hours after `finishedAt` or `completionTime`, whether the job succeeded or failed. Source:
`delete_old_crd` in `myapp/tasks/schedules.py` of tencentmusic/cube-studio v2026.03.01, which runs hourly; the
`ttlStrategy` of its Workflows is 3 hours, too. It has no longer time for failed jobs.
"""

"""What a finalizer of a local pipeline stops."""

import pytest

from tests.unit.cli.statuses import saved
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.systems.base import LaunchError
from tfsteps.systems.local.pipeline_lock import stop_jobs

FINALIZER = Identity(run="r1", task="cleanup", attempt=0)


@pytest.mark.parametrize("scope", ["run", "siblings"])
def test_a_job_that_cannot_be_read_is_not_known_to_be_stopped(scope):
    saved(task="ended", state=State.SUCCEEDED)
    torn = saved(task="torn", state=State.SUCCEEDED)
    (torn.folder / "status.json").write_text("{")
    assert stop_jobs(FINALIZER, scope) == [], "its launcher has ended"
    runs, lock = saved(task="runs", hold=True)
    (runs.folder / "status.json").write_text("{")
    with lock, pytest.raises(LaunchError, match=f"the job of {runs.folder} was not stopped: .* cannot be read"):
        stop_jobs(FINALIZER, scope)


def test_a_lock_that_cannot_be_read_keeps_no_other_job_running():
    broken = saved(task="broken")
    (broken.folder / "lock").unlink(missing_ok=True)
    (broken.folder / "lock").mkdir()
    with pytest.raises(LaunchError, match=f"the job of {broken.folder} was not stopped: "):
        stop_jobs(FINALIZER, "run")

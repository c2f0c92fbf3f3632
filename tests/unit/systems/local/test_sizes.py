"""How many replicas a local job can have: each process has the addresses of all."""

import os
import subprocess

import pytest

from tfsteps.spec import from_plain
from tfsteps.systems.local.job_system import LocalSystem


@pytest.mark.parametrize(("workers", "refused"), [(7000, False), (10_000, True)])
def test_more_replicas_than_linux_can_name_to_a_process_are_refused(workers, refused):
    job = from_plain({"name": "a", "command": ["true"], "roles": {"chief": {}, "worker": {"replicas": workers}}})
    problems = [str(problem) for problem in LocalSystem().spec_problems(job)]
    assert bool(problems) == refused
    assert not refused or problems[0].startswith("roles.worker.replicas: 10000 are too many for this machine: ")
    command = ["env", "TF_CONFIG=" + "x" * (32 * os.sysconf("SC_PAGE_SIZE") - len("TF_CONFIG=") - 1), "true"]
    assert subprocess.run(command, check=False).returncode == 0  # the longest one that Linux takes
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run([*command[:1], command[1] + "x", "true"], check=False)

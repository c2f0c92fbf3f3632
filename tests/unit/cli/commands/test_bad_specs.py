"""None of the bad job files creates anything, whichever command is given it."""

import pytest

from tests.unit.cli.command import tfsteps
from tests.unit.spec.bad_specs import BAD_SPECS
from tfsteps.launcher.exit_codes import ExitCode

IN_A_FILE = [row for row in BAD_SPECS if "\ud800" not in row[0]]  # text with half a surrogate pair cannot be written


def test_what_one_system_cannot_run_creates_nothing(tmp_path, home):
    job = tmp_path / "job.yaml"
    job.write_text("name: x\nroles: {worker: {}, evaluator: {}}\n")
    assert tfsteps("validate", job)[0] == ExitCode.SUCCEEDED
    for command in (("run", job), ("run", job, "--dry-run"), ("validate", job, "--system", "local")):
        code, out, err = tfsteps(*command)
        assert (code, out) == (ExitCode.USAGE, "")
        assert [line.split(": ")[1] for line in err.splitlines()] == ["roles.worker.command", "roles.evaluator.command"]
    assert not home.exists()


@pytest.mark.parametrize("row", IN_A_FILE, ids=range(len(IN_A_FILE)))
def test_a_bad_spec_creates_nothing(tmp_path, home, row):
    text, path, piece = row
    job = tmp_path / "job.yaml"
    job.write_text(text)
    for command in (("run", job), ("run", job, "--dry-run"), ("validate", job)):
        code, out, err = tfsteps(*command)
        assert (code, out) == (ExitCode.USAGE, "")
        assert err.startswith(f"{job}:{text.count(chr(10)) + 1}: {path}: ")
        assert piece in err
    assert not home.exists()
    assert [item.name for item in tmp_path.iterdir()] == ["job.yaml"]

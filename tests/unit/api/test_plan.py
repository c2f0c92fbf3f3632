"""What is done before a job is created: it is checked, and its code is uploaded."""

import pytest

from tests.support.code_store import served
from tests.unit.cli.command import refused, tfsteps
from tests.unit.cli.jobs_on_cluster import kubeconfig
from tfsteps.api.job_input import JobOptions, read_command
from tfsteps.api.plan import launch_plan, make_plan
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.console.errors import CommandError
from tfsteps.runs.events import State
from tfsteps.runs.location import Location
from tfsteps.systems.local.job_system import LocalSystem

PROGRAM = ["python", "train.py"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "train.py").write_text("print(1)")
    monkeypatch.chdir(tmp_path / "program")
    return tmp_path


def planned(bucket, system="jobs", on=Location.KUBERNETES, **more):
    job_input = read_command(PROGRAM, JobOptions(image="a:1", code=".", code_bucket=bucket))
    return make_plan(job_input, system, BackendLocation(on), None, None, **more).job.code


def test_a_launch_on_a_cluster_uploads_the_code(folder, monkeypatch):
    with served() as (store, address), kubeconfig(monkeypatch, folder):
        code = planned(f"{address}/code")
        assert [*store.objects] == [f"/code/{code.digest}.tar.gz"]
        store.objects.clear()
        assert planned(f"{address}/code", dry_run=True) == code
        assert planned(f"{address}/code", "local", Location.LOCAL) == code
        assert not store.objects, "neither a dry run nor a local one uploads"
        with pytest.raises(CommandError, match=r"cannot be uploaded to http.*HTTP Error 403"):
            planned(f"{address}/else")


def test_a_dry_run_prints_the_bucket_and_the_job_file_has_it(folder):
    options = ("--code", ".", "--code-bucket", "s3://team/code", "--image", "a:1", "--system", "jobs")
    code, out, err = tfsteps("run", "--dry-run", *options, "--", *PROGRAM)
    assert (code, "s3://team/code/" in out) == (0, True), err
    assert "#   code: {bucket: 's3://team/code'}\n" in out
    assert "--code-bucket s3://a says how" in refused("run", "--code-bucket", "s3://a", "--", *PROGRAM)
    assert "code.bucket" in refused("run", "--code", ".", "--code-bucket", "a", "--", *PROGRAM)


def test_a_dry_run_says_that_code_would_be_stored_on_a_claim(folder, monkeypatch, capsys):
    with kubeconfig(monkeypatch, folder):
        planned("pvc://code/team", dry_run=True)
        assert "would be stored as pvc://code/team/" in capsys.readouterr().err
        planned("pvc://code/team")
        assert "code is stored as pvc://code/team/" in capsys.readouterr().err


def test_a_job_of_a_command_is_checked_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
    checked, warned = [], []
    count(monkeypatch, "spec_problems", checked)
    count(monkeypatch, "warnings", warned)
    plan = make_plan(read_command(["true"], JobOptions()), "local", BackendLocation(Location.LOCAL), None, None)
    assert launch_plan(plan, []).state is State.SUCCEEDED
    assert (len(checked), len(warned)) == (1, 1)


def count(monkeypatch, method, calls):
    original = getattr(LocalSystem, method)
    monkeypatch.setattr(LocalSystem, method, lambda self, job: calls.append(job) or original(self, job))

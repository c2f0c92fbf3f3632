"""`tfsteps run --code`: a real local run of a shipped folder, what is printed, and the same code again."""

import os

import pytest
import yaml

from tests.support.code_store import served
from tests.unit.cli.command import refused, tfsteps
from tfsteps.engines.code_input import unpacked_code, with_packed_code
from tfsteps.runs.identity import Identity
from tfsteps.runs.store import AttemptFolder

PROGRAM = "import os, helper\nprint('ran', helper.NUMBER, os.getcwd() == os.environ['TFSTEPS_CODE_DIR'])\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    (folder / "helper.py").write_text("NUMBER = 1\n")
    (folder / ".env").write_text("TOKEN=1")
    monkeypatch.chdir(folder)
    return folder


def job_file(folder, **fields):
    job = {"name": "a", "image": "tf:2", "command": ["python", "train.py"], "code": ".", "roles": {"worker": {}}}
    (folder / "job.yaml").write_text(yaml.safe_dump({**job, **fields}))
    return folder / "job.yaml"


@pytest.mark.shows("code", "local")
@pytest.mark.usefixtures("folder")
def test_a_folder_is_run_and_recorded():
    code, out, err = tfsteps("run", "--run-id", "r", "--code", ".", "--workers", 2, "--", "python", "train.py")
    assert (code, out.count("ran 1 True")) == (0, 2), out + err
    assert "code .: 2 files, 1 KiB packed, sha256 " in err
    assert "left out: .env (may hold a secret)" in err
    attempt = AttemptFolder.of(Identity(run="r", task="train"))
    assert not (attempt.folder / "code" / ".env").exists()
    recorded = attempt.status().code
    assert recorded.archive[:12] in err
    assert (recorded.program, f"shipped {recorded.archive[:12]}" in str(recorded)) == ("train.py", True)


def test_a_rerun_runs_the_code_of_that_time_and_a_new_folder_if_told(folder):
    assert tfsteps("run", job_file(folder), "--run-id", "r")[0] == 0
    (folder / "helper.py").write_text("NUMBER = 2\n")
    assert "ran 1 True" in tfsteps("rerun", "r")[1]
    assert "ran 2 True" in tfsteps("rerun", "r", "--set", "code=.")[1]


def test_code_that_is_gone_is_not_replaced_by_the_folder_of_today(folder, home):
    assert tfsteps("run", job_file(folder), "--run-id", "r")[0] == 0
    for archive in (home / "code").iterdir():
        archive.unlink()
    assert "is not kept on this machine; launch it from its folder: `--set code=FOLDER`" in refused("rerun", "r")


def test_a_step_compiled_elsewhere_fetches_its_code_from_the_bucket(folder, monkeypatch, tmp_path):
    with served() as (_, address):
        code = with_packed_code({"code": {"folder": ".", "bucket": f"{address}/code"}})["code"]
        monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "another"))
        job = job_file(folder, **unpacked_code({"code": code}))
        (folder / "train.py").unlink()
        assert "ran 1 True" in tfsteps("run", job, "--run-id", "r")[1]


def test_a_dry_run_prints_the_objects_and_all_that_is_left_out(folder):
    for number in range(6):
        os.mkfifo(folder / f"pipe{number}")
    code, out, err = tfsteps("run", job_file(folder), "--system", "jobs", "--dry-run")
    assert code == 0, err
    assert [item["kind"] for item in yaml.safe_load_all(out)] == ["Job", "ConfigMap"]
    assert all(f"pipe{number} (not a regular file)" in err for number in range(6))
    assert "and 3 more" in tfsteps("run", folder / "job.yaml")[2]


@pytest.mark.usefixtures("folder")
def test_the_job_file_of_a_command_names_the_folder():
    _, out, _ = tfsteps(
        "run", "--code", ".", "--dry-run", "--system", "jobs", "--image", "tf:2", "--", "python", "train.py"
    )
    lines = [line.removeprefix("#   ") for line in out.splitlines() if line.startswith("#   ")]
    assert yaml.safe_load("\n".join(lines))["code"] == "."


def test_what_cannot_be_shipped_is_one_line(folder):
    assert "code folder" in (error := refused("run", "--code", "none", "--", "python", "train.py"))
    assert "does not exist: name the folder of the program" in error
    (folder / "weights").write_bytes(os.urandom(800 << 10))
    error = refused("run", job_file(folder), "--system", "jobs", "--dry-run")
    assert "the largest files: weights (800 KiB)" in error
    assert "HAI runs programs of its shared file system" in refused(
        "run", job_file(folder), "--system", "hai", "--dry-run"
    )
    assert "--code is for a command after `--`; with a job file, write --set code=..." in refused(
        "run", job_file(folder), "--code", "."
    )


@pytest.mark.usefixtures("folder")
def test_records_that_cannot_be_written_are_refused_as_without_code(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "file"))
    code, _, err = tfsteps("run", "--code", ".", "--", "python", "train.py")
    assert code == 13
    assert "error: the run folder cannot be used: " in err
    assert err.endswith("; set TFSTEPS_HOME\n")

"""A command whose standard output or standard error cannot be written: a message and an exit code, no traceback."""

import shutil
import subprocess

import pytest

from tests.unit.cli.command import COMMAND, tfsteps

FULL = "standard output cannot be written: No space left on device; free some space there\n"


def run(command, redirections):
    """Run the shell command `tfsteps <command> <redirections>`; return its exit code and what is left of its output."""
    script = f'set -o pipefail; "$0" {command} {redirections}'
    done = subprocess.run(["bash", "-c", script, COMMAND], check=False, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Return an empty state folder; the current folder has a job."""
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text("name: a\ncommand: [touch, started]\nroles: {worker: {}}\n")
    return tmp_path


@pytest.mark.parametrize("command", ["--help", "--version", "run --help", "run job.yaml", "schema", ""])
def test_output_that_nobody_reads_ends_a_command_quietly(command, home):
    expected = (141, "", "") if command else (2, "", "")  # the help that a wrong command line gets is a message
    redirections = "2>&1 1>/dev/null | true" if not command else "| true"
    assert run(command, redirections) == expected
    assert not (home / "started").exists()


@pytest.mark.parametrize("command", ["--help", "--version", "run --help", "run job.yaml --dry-run", "schema"])
def test_output_that_cannot_be_written_is_named(command):
    assert run(command, "> /dev/full") == (13, "", f"error: {FULL}")


@pytest.mark.parametrize("command", ["init new", "import a.yaml b.yaml -o jobs"])
def test_all_files_are_written_before_any_is_named(command, home, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # the first line fails, not the last flush
    manifest = "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: %s}\nspec: {tfReplicaSpecs: {Worker: %s}}\n"
    for name in "ab":
        worker = "{template: {spec: {containers: [{name: tensorflow, image: 'acme/tf:2'}]}}}"
        (home / f"{name}.yaml").write_text(manifest % (name, worker))
    files = {"new": ["job.yaml", "train.py"], "jobs": ["a.yaml", "b.yaml"]}
    for redirection, code, error in (("| true", 141, ""), ("> /dev/full", 13, f"error: {FULL}")):
        assert run(command, redirection) == (code, "", error)
        written = next(home / folder for folder in files if (home / folder).exists())
        assert sorted(file.name for file in written.iterdir()) == files[written.name]
        shutil.rmtree(written)


def test_a_run_whose_id_cannot_be_printed_is_not_started(home):
    code, out, err = run("run job.yaml --run-id r1", "> /dev/full")
    assert (code, out, err) == (13, "", f"error: run r1 was not started: {FULL}")
    assert not (home / "started").exists()


@pytest.mark.parametrize("redirection", ["2> /dev/full", "2>&-"])
def test_messages_that_cannot_be_written_do_not_change_what_a_command_does(redirection, home):
    assert run("nope", redirection) == (2, "", "")
    code, out, _ = run("run job.yaml --run-id r1 --output json", redirection)
    assert (code, '"state": "succeeded"' in out) == (0, True)
    assert (home / "started").exists()


def test_output_to_a_closed_stream_is_discarded(home):
    assert run("run job.yaml --run-id r1", ">&-") == (0, "", "")
    assert (home / "started").exists()


def test_a_file_in_place_of_the_folder_of_records_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "file"))
    code, _, error = tfsteps("runs")
    assert (code, error.startswith(f"error: {tmp_path}/file/runs: Not a directory; a part of this path is a file")) == (
        13,
        True,
    ), error
    assert "TFSTEPS_HOME" in error


def test_a_current_folder_that_was_removed_is_named(home):
    script = 'mkdir gone && cd gone && rmdir ../gone && "$0" run -- true'
    done = subprocess.run(["bash", "-c", script, COMMAND], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (13, "error: the current folder was removed; fix the cause and retry\n")

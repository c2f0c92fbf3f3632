"""Which code a job ran: a commit with or without changes, and a hash of the program."""

import hashlib
import subprocess

import pytest

from tests.unit.cli.command import output_lines, tfsteps
from tfsteps.runs import code
from tfsteps.runs.code import Code, CodeReading

GIT = ("git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main")


@pytest.fixture
def folder(tmp_path):
    """A repository with one commit."""
    (tmp_path / "train.py").write_text("print(1)\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "m"]):
        subprocess.run([*GIT, *words], cwd=tmp_path, check=True)
    return tmp_path


def test_a_commit_its_changes_and_the_program(folder):
    code = Code.of(folder, ["python", "-u", "train.py"])
    assert (len(code.commit), code.changed, code.program) == (40, False, "train.py")
    assert code.digest == hashlib.sha256(b"print(1)\n").hexdigest()
    (folder / "train.py").write_text("print(2)\n")
    changed = Code.of(folder, ["python", "train.py"])
    assert (changed.commit, changed.changed) == (code.commit, True)
    assert changed.digest != code.digest
    assert str(changed) == f"commit {code.commit[:12]} with changes, train.py {changed.digest[:12]}"


def test_a_folder_that_is_no_repository(tmp_path):
    assert Code.of(tmp_path, ["python", "-c", "x" * 5000, "\0"]) == Code()
    assert CodeReading(str(tmp_path), ["true"]).result() is None
    assert CodeReading("", ["true"]).result() is None


def test_without_git_and_when_git_is_slow(folder, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert Code.of(folder, ["train.py"]).commit == ""
    monkeypatch.undo()
    monkeypatch.setattr(code, "_GIT_SECONDS", 0.0)
    assert Code.of(folder, ()) == Code()


def test_what_is_outside_of_the_folder_or_too_large_is_not_hashed(folder, monkeypatch):
    (folder.parent / "outside.py").write_text("x")
    assert Code.of(folder, ["../outside.py"]).digest == ""
    monkeypatch.setattr(code, "_HASH_BYTES", 3)
    recorded = Code.of(folder, ["train.py"])
    assert (recorded.program, recorded.digest) == ("train.py", "")


def test_runs_of_changed_code_differ(folder, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(folder / ".git/home"))
    (folder / "job.yaml").write_text("name: small\ncommand: [python, train.py]\nroles: {worker: {}}\n")
    assert tfsteps("run", folder / "job.yaml", "--run-id", "one")[0] == 0
    (folder / "train.py").write_text("print(2)\n")
    assert tfsteps("run", folder / "job.yaml", "--run-id", "two")[0] == 0
    [row] = [line for line in output_lines("compare", "one", "two") if line.startswith("code")]
    first, second = row.removeprefix("code").split("commit")[1:]
    assert "with changes" in second
    assert "with changes" not in first

"""CI's choice of rows covers the matrix, and what a change can break."""

import subprocess

import pytest

from tests.faults import choice
from tests.faults.mutations import MUTANTS, PACKAGE
from tests.faults.rows import FAULTS, LIFE, OUTAGES, REQUESTS, ROWS


@pytest.fixture(autouse=True)
def no_base(monkeypatch):
    monkeypatch.delenv("FAULTS_SINCE", raising=False)


def rows(names):
    return [ROWS[name] for name in names]


def test_each_fault_and_each_request_is_in_the_covering_choice():
    requests = [row for row in rows(choice.covering()) if row not in (*LIFE, *OUTAGES)]
    assert {row.fault for row in requests} == set(FAULTS)
    assert {row.step for row in requests} == set(REQUESTS)


@pytest.mark.parametrize("table", [LIFE, OUTAGES], ids=["life", "outages"])
def test_each_step_and_each_way_to_end_a_launcher_is_in_the_covering_choice(table):
    covered = [row for row in rows(choice.covering()) if row in table]
    assert {row.step for row in covered} == {row.step for row in table}
    assert {row.fault for row in covered} == {row.fault for row in table}


def test_the_covering_choice_is_small_and_always_the_same():
    assert choice.covering() == choice.covering()
    assert len(choice.covering()) * 5 < len(ROWS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.broken)
def test_a_change_where_a_mutant_is_adds_the_mutants_rows(mutant):
    for edit in mutant.edits:
        assert {row.name for row in mutant.chosen()} <= choice.at_risk([PACKAGE / edit.file])


def test_what_nobody_knows_the_rows_of_adds_all():
    beside = (PACKAGE / MUTANTS[0].edits[0].file).with_name("no_mutant_edits_this.py")
    assert choice.at_risk([beside]) == set(ROWS)
    assert choice.at_risk([choice.HERE / "proxy.py"]) == set(ROWS)


def test_other_files_add_none():
    others = [choice.ROOT / "README.md", PACKAGE / "cli/views/none.py", choice.ROOT / "tests/unit/test_none.py"]
    assert choice.at_risk(others) == set()


# --- the files that have changed


@pytest.fixture
def tree(tmp_path):
    """Return a repository of two commits on `origin/main`, and how to run git in it."""

    def git(*args):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *args], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for name in ("first", "second"):
        (tmp_path / name).touch()
        git("add", "-A")
        git("commit", "-qm", name)
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    return tmp_path, git


def names(tree):
    return sorted(file.name for file in choice.changed_files(tree))


def test_on_main_they_are_those_of_the_last_commit_and_of_none(tree):
    folder, _ = tree
    assert names(folder) == ["second"]
    (folder / "new").touch()
    assert names(folder) == ["new", "second"]


def test_on_a_branch_they_are_those_since_it_left_main(tree):
    folder, git = tree
    (folder / "first").rename(folder / "moved")
    git("add", "-A")
    git("commit", "-qm", "move")
    (folder / "third").touch()
    git("add", "-A")
    git("commit", "-qm", "third")
    assert names(folder) == ["first", "moved", "third"]


def test_another_base_can_be_named(tree, monkeypatch):
    folder, _ = tree
    monkeypatch.setenv("FAULTS_SINCE", "HEAD")
    assert names(folder) == []


def test_without_a_base_all_rows_are_run(tmp_path, tree, monkeypatch):
    assert choice.changed_files(tmp_path / "nowhere") is None
    monkeypatch.setenv("FAULTS_SINCE", "no-such-revision")
    assert choice.chosen(tree[0]) == set(ROWS)

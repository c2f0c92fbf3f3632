"""CI's choice of cases covers the matrix, and what a change can break."""

import subprocess

import pytest

from tests.faults import choice
from tests.faults.cases import CASES, FAULTS, LIFE, OUTAGES, REQUESTS
from tests.faults.mutations import MUTANTS, PACKAGE


@pytest.fixture(autouse=True)
def no_base(monkeypatch):
    monkeypatch.delenv("FAULTS_SINCE", raising=False)


def cases(names):
    return [CASES[name] for name in names]


def test_each_fault_and_each_request_is_in_the_covering_choice():
    requests = [case for case in cases(choice.covering()) if case not in (*LIFE, *OUTAGES)]
    assert {case.fault for case in requests} == set(FAULTS)
    assert {case.step for case in requests} == set(REQUESTS)


@pytest.mark.parametrize("table", [LIFE, OUTAGES], ids=["life", "outages"])
def test_each_step_and_each_way_to_end_a_launcher_is_in_the_covering_choice(table):
    covered = [case for case in cases(choice.covering()) if case in table]
    assert {case.step for case in covered} == {case.step for case in table}
    assert {case.fault for case in covered} == {case.fault for case in table}


def test_the_covering_choice_is_small_and_always_the_same():
    assert choice.covering() == choice.covering()
    assert len(choice.covering()) * 5 < len(CASES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.broken)
def test_a_change_where_a_mutant_is_adds_the_mutants_cases(mutant):
    for edit in mutant.edits:
        assert {case.name for case in mutant.chosen()} <= choice.at_risk([PACKAGE / edit.file])


def test_a_file_without_known_cases_selects_all_cases():
    beside = (PACKAGE / MUTANTS[0].edits[0].file).with_name("no_mutant_edits_this.py")
    assert choice.at_risk([beside]) == set(CASES)
    assert choice.at_risk([choice.HERE / "proxy.py"]) == set(CASES)


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


def test_without_a_base_all_cases_are_run(tmp_path, tree, monkeypatch):
    assert choice.changed_files(tmp_path / "nowhere") is None
    monkeypatch.setenv("FAULTS_SINCE", "no-such-revision")
    assert choice.chosen(tree[0]) == set(CASES)

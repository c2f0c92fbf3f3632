"""Answers: a missing one is neither yes nor no, and no code can take it for one."""

import pathlib
import re
import subprocess
import sys

import pytest

from tfsteps.answer import NO, YES, known, unknown

MAYBE = unknown("HTTP 500")


def test_an_answer_has_no_truth_value():
    for answer in (YES, NO, MAYBE):
        with pytest.raises(TypeError, match="no truth value"):
            bool(answer)
        with pytest.raises(TypeError, match="no truth value"):
            assert not answer


def test_each_answer_is_exactly_one_of_three():
    for answer in (YES, NO, MAYBE, known(True), known(False)):
        assert [answer.yes, answer.no, answer.unknown].count(True) == 1
    assert unknown("").why, "a reason is always given"


@pytest.mark.parametrize(
    ("one", "other", "both", "either"),
    [
        (YES, YES, YES, YES),
        (YES, NO, NO, YES),
        (NO, NO, NO, NO),
        (YES, MAYBE, MAYBE, YES),
        (NO, MAYBE, NO, MAYBE),
        (MAYBE, MAYBE, MAYBE, MAYBE),
    ],
)
def test_a_missing_answer_counts_only_if_the_other_one_does_not_decide(one, other, both, either):
    assert (one & other, other & one) == (both, both)
    assert (one | other, other | one) == (either, either)
    assert ~~one == one


STATEMENTS = [
    "if evicted: return",
    "left = not evicted",
    "both = evicted and 1",
    "either = evicted or 1",
    "while evicted: break",
    "text = 1 if evicted else 0",
    "texts = [1 for answer in (evicted,) if answer]",
]


def test_mypy_finds_every_place_that_folds_an_answer(tmp_path):
    head = ["from tfsteps.answer import Answer", "def delete(evicted: Answer) -> None:"]
    lines = [*head, *(f"    {statement}" for statement in STATEMENTS)]
    (module := tmp_path / "module.py").write_text("\n".join(lines))
    root = pathlib.Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "mypy", "--config-file", root / "pyproject.toml", "--cache-dir", tmp_path, module]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    numbers = re.findall(r"module\.py:(\d+): error: .*\[truthy-bool\]", result.stdout)
    assert [lines[int(number) - 1].strip() for number in numbers] == STATEMENTS, result.stdout + result.stderr

"""Prose on pages is at most 120 columns wide: a change of a sentence is a small difference."""

import itertools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
WIDTH = 120
PAGES = sorted(itertools.chain(ROOT.glob("*.md"), ROOT.glob("docs/**/*.md"), ROOT.glob("tests/**/README.md")))


def prose(text):
    """Return the lines of a page outside of code and tables."""
    lines, code = [], "    "
    for line in re.sub(r"(?ms)^ *```.*?^ *```", "", text).splitlines():
        if line and line[0] != " ":  # below a note and an item of a list, four spaces are no code
            code = " " * (8 if re.match(r"!!! |- |\d+\. ", line) else 4)
        if not line.startswith(code) and line.lstrip()[:1] != "|":
            lines.append(line)
    return lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_is_narrow(page):
    wide = [line for line in prose(page.read_text(encoding="utf-8")) if len(line) > WIDTH and " " in line[:WIDTH]]
    assert wide == []


def test_a_note_and_an_item_of_a_list_are_prose():
    text = "a\n\n    code\n\n!!! note\n    b\n\n1. c\n\n    d\n\n        code\n\n    | e |\n\nf\n\n    code\n"
    assert "".join(prose(text)).replace(" ", "") == "a!!!noteb1.cdf"

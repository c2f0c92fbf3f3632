"""Lines of pages are at most 120 columns wide: a change of a sentence is a small difference, and reads well anywhere.

Wider are only:

- Code. A comment after a command counts: it can be a line of its own.
- A line of one link, or of one word.
- The rows of a matrix: many cells, and all of them short. The first, which names the row, has at most 70 characters,
  each other one 40; of a link its text counts. A table whose cells are sentences is a list instead, in whose entries
  lines can end anywhere; tests/support/markdown.py writes those of generated pages.
"""

import pathlib
import re
import subprocess

import pytest

from tests.support.markdown import WIDTH

ROOT = pathlib.Path(__file__).parents[3]
_LISTED = subprocess.run(["git", "ls-files", "-z", "--", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
PAGES = [name for name in _LISTED.stdout.split("\0") if name and (ROOT / name).is_file()]
_LABEL, _CELL = 70, 40
_ONE_LINK = re.compile(r"[\s>-]*(\[[^\]]*\]\([^)]*\)|\S+)[.,:;]?")
_COMMENT = re.compile(r"\S +# ")


def lines(text):
    """Yield each line of a page, and whether it is code."""
    fenced, indent = False, "    "
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif line and line[0] != " ":  # below a note and an item of a list, four spaces are no code
            indent = " " * (8 if re.match(r"!!! |- |\d+\. ", line) else 4)
        yield line, fenced or line.startswith(indent)


def is_row(line):
    return line.lstrip().startswith("|")


def is_of_matrix(row):
    """Tell whether the cells of a table's row are all short."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", row.replace(r"\|", "/"))
    label, *cells = (cell.strip() for cell in text.strip().strip("|").split("|"))
    return len(label) <= _LABEL and all(len(cell) <= _CELL for cell in cells)


def too_wide(text):
    """Return the lines of a page that have to be wrapped."""
    return [
        line
        for line, code in lines(text)
        if len(line) > WIDTH
        and not _ONE_LINK.fullmatch(line)
        and (_COMMENT.search(line) if code else not (is_row(line) and is_of_matrix(line)))
    ]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_narrow(page):
    assert too_wide((ROOT / page).read_text(encoding="utf-8")) == []


def test_all_pages_are_checked():
    assert {"README.md", "docs/reference/job.md", "components/tfsteps/steps/train/README.md"} <= set(PAGES)


_WORDS = "word " * 30


@pytest.mark.parametrize(
    "text",
    [
        f"{_WORDS}\n",
        f"- {_WORDS}\n",
        f"1. one\n\n    {_WORDS}\n",
        f"!!! note\n    {_WORDS}\n",
        f"| one | two |\n|---|---|\n| three | {_WORDS}|\n",
        f"| one | two |\n|---|---|\n| {_WORDS}| three |\n",
        f"    make test {' ' * 90} # {_WORDS}\n",
        f"[one](two.md) {_WORDS}\n",
    ],
)
def test_what_can_be_wrapped_is_refused(text):
    assert len(too_wide(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"    {_WORDS}\n",
        f"```\n{_WORDS}\n```\n",
        f"1. one\n\n        {_WORDS}\n",
        f"one\n[{_WORDS}]({'two' * 30}.md).\n",
        f"{'one' * 50}\n",
        f"| one |{' refused |' * 20}\n",
        f"| one |{' [refused](https://example.org/a/long/address) |' * 4}\n",
    ],
)
def test_what_cannot_be_wrapped_is_allowed(text):
    assert too_wide(text) == []

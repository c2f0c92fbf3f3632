"""Prose on pages that people write is at most 120 columns wide: a change of a sentence is a small difference."""

import itertools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
WIDTH = 120
GENERATED = {
    *(f"docs/reference/{name}.md" for name in ("cli", "components", "job")),
    *(f"docs/systems/{name}.md" for name in ("features", "index")),
    *(f"docs/operate/{name}.md" for name in ("fault-mutants", "faults", "faults-by-request", "performance", "soak")),
}
PAGES = [
    page
    for page in sorted(itertools.chain(ROOT.glob("*.md"), ROOT.glob("docs/**/*.md"), ROOT.glob("tests/**/README.md")))
    if str(page.relative_to(ROOT)) not in GENERATED
]


def prose(text):
    """Return the lines of a page outside of code and tables."""
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", text)
    return [line for line in text.splitlines() if not line.startswith(("    ", "|"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_is_narrow(page):
    wide = [line for line in prose(page.read_text(encoding="utf-8")) if len(line) > WIDTH and " " in line[:WIDTH]]
    assert wide == []


def test_the_generated_pages_are_there():
    assert [name for name in sorted(GENERATED) if not (ROOT / name).exists()] == []

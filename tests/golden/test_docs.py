"""What README and docs say can be done, can be done; where they point, something is."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("components/**/*.md")])


def test_a_pipeline_can_be_run_within_the_first_30_lines_of_the_readme():
    assert "make demo" in "\n".join((ROOT / "README.md").read_text().splitlines()[:30])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []

"""What README and docs say can be done, can be done; where they point, something is."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("components/**/*.md")])


def test_the_first_30_lines_of_the_readme_install_it_show_a_pipeline_and_run_it():
    top = "\n".join((ROOT / "README.md").read_text().splitlines()[:30])
    assert all(part in top for part in ("pip install", "@dsl.pipeline", "tfsteps submit", "make demo"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_on_a_page_is_python(page):
    blocks = re.findall(r"^( *)```python\n(.*?)^\1```", page.read_text(), re.MULTILINE | re.DOTALL)
    for indent, block in blocks:
        text = re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)
        ast.parse(re.sub(r'^--8<-- "(.*)"$', "", text, flags=re.MULTILINE))
        assert "--8 <" not in text, "a formatter took what the site reads from a file for Python"

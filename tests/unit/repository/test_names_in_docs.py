"""What the pages call by its full name in the package is there."""

import pathlib
import pkgutil
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
NAMES = sorted({name for page in PAGES for name in re.findall(r"`(tfsteps(?:\.\w+){2,})", page.read_text())})


@pytest.mark.parametrize("name", NAMES)
def test_a_name_on_a_page_is_in_the_package(name):
    assert pkgutil.resolve_name(name)


def test_a_method_that_a_page_lists_is_in_its_protocol():
    from tfsteps.systems.base import System  # noqa: PLC0415

    page = (ROOT / "docs/contribute/job-system.md").read_text()
    table = page.partition("| method | purpose |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert listed
    assert not [name for name in listed if not hasattr(System, name)]

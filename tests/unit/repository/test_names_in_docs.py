"""What the pages call by its full name in the package is there."""

import pathlib
import pkgutil
import re
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
DESIGN = (ROOT / "docs/design.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NAMES = sorted({name for page in PAGES for name in re.findall(r"`(tfsteps(?:\.\w+){2,})", page.read_text())})


@pytest.mark.parametrize("name", NAMES)
def test_a_name_on_a_page_is_in_the_package(name):
    assert pkgutil.resolve_name(name)


def test_a_method_that_a_page_lists_is_in_its_protocol():
    from tfsteps.systems.base import System  # noqa: PLC0415

    page = (ROOT / "docs/contribute/job-system.md").read_text()
    entries = page.partition("is the protocol:\n")[2].partition("\n\nIts attributes")[0]
    listed = re.findall(r"^- `(\w+)` ", entries, re.MULTILINE)
    assert listed
    assert not [name for name in listed if not hasattr(System, name)]


def test_the_design_lists_each_folder():
    section = DESIGN.partition("### Folders")[2].partition("import-linter keeps")[0]
    package, _, beside = section.partition("Beside it:")
    for top, entries in ((ROOT / "components/tfsteps", package), (ROOT, beside)):
        names = [name for start in re.findall(r"(?m)^- ((?:`[^`]+`,? )+)", entries) for name in _quoted(start)]
        assert [name for name in names if not (top / name).exists()] == []
        assert top == ROOT or {f"{path.parent.name}/" for path in top.glob("*/__init__.py")} <= set(names)
    for name in ("images", "manifests"):
        [entry] = re.findall(rf"(?m)^- `{name}/` (.*\n(?:  .*\n)*)", beside)
        assert {path.name for path in (ROOT / name).iterdir()} == set(_quoted(entry)) - {"latest"}


def _quoted(text):
    return re.findall(r"`([^`]+)`", text)


def test_the_design_lists_the_layers():
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    assert "".join(f"    {layer}\n" for layer in layers) in DESIGN


def test_the_design_lists_the_extras():
    listed = re.findall(r"`(\w+)`", DESIGN.partition("Extras are\n")[2].partition(". ")[0])
    assert sorted(listed) == sorted(PROJECT["project"]["optional-dependencies"])

"""The folders of tests/unit are those of the package, and tests/README.md lists them."""

import pathlib
import re

import pytest

UNIT = pathlib.Path(__file__).parents[1]
TESTS = UNIT.parent
PACKAGE = TESTS.parent / "components" / "tfsteps"
FILES = [path for path in UNIT.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
FOLDERS = sorted({file.parent.relative_to(UNIT).as_posix() for file in FILES} - {".", "repository"})


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_the_name_of_a_package_or_of_the_module_that_its_data_is_for(folder):
    package = PACKAGE / folder
    assert any(package.glob("*.py")) or package.with_suffix(".py").is_file()


def test_the_readme_lists_each_folder_that_has_tests():
    listed = re.findall(r"^\| `unit/([\w/]+)` \|", (TESTS / "README.md").read_text(), re.MULTILINE)
    with_tests = {file.parent.relative_to(UNIT).as_posix() for file in FILES if file.name.startswith("test_")} - {"."}
    assert sorted(listed) == sorted(with_tests)

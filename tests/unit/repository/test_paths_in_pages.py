"""The manifests that pages name are there: an operator applies and deletes them by these paths."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PATH = re.compile(r"(?<![\w/.-])manifests/[\w/.-]*[\w-]")
PAGES = [page for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if PATH.search(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_manifests_of_a_page_exist(page):
    assert [path for path in PATH.findall(page.read_text()) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_that_applies_an_image_of_no_registry_says_so(page):
    text = page.read_text()
    applied = re.findall(r"kubectl apply -k (manifests/[\w/-]+)", text)
    nowhere = [folder for folder in applied if "registry.invalid" in (ROOT / folder / "kustomization.yaml").read_text()]
    assert not nowhere or "registry.invalid" in text

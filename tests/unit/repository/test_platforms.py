"""Each part of each platform of the test cluster is built from the version that the list of the platform says."""

import re

import pytest

from tests.cluster.build import modules
from tests.cluster.paths import HERE
from tests.cluster.platforms import PLATFORMS

MODULES = {module.folder.name: module for versions in PLATFORMS.values() for module in modules(versions)}


def test_every_folder_is_a_part_of_a_platform():
    assert {folder.name for folder in (HERE / "go").iterdir()} == set(MODULES)


@pytest.mark.parametrize(
    "module", [item for item in MODULES.values() if item.path], ids=lambda module: module.folder.name
)
def test_a_part_has_the_version_of_its_folder(module):
    text = (module.folder / "go.mod").read_text()
    assert re.search(rf"^(?:require )?\s*{re.escape(module.path)} v{re.escape(module.version)}\b", text, re.MULTILINE)


@pytest.mark.parametrize("versions", PLATFORMS.values(), ids=PLATFORMS)
def test_the_libraries_of_kubernetes_have_its_version(versions):
    text = (HERE / "go" / f"kubernetes-{versions['kubernetes']}" / "go.mod").read_text()
    replaced = re.findall(r"^\s+k8s\.io/\S+ => k8s\.io/\S+ v0\.(\S+)$", text, re.MULTILINE)
    assert set(replaced) == {versions["kubernetes"].removeprefix("1.")}


def test_the_platforms_have_the_same_parts():
    assert len({frozenset(versions) for versions in PLATFORMS.values()}) == 1

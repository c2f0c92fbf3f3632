"""The versions of the platform that README.md and the pages of the job systems name are those of the test cluster."""

import pathlib
import re

import pytest

from tests.cluster.platforms import DEFAULT, PLATFORMS
from tests.golden.systems_page import TESTED, table

ROOT = pathlib.Path(__file__).parents[2]
README = ROOT / "README.md"
PARTS = {
    "kubernetes": "Kubernetes",
    "argo": "Argo Workflows",
    "training-operator": "training operator (TFJob)",
    "jobset": "JobSet",
    "trainer": "Kubeflow Trainer",
    "scheduler-plugins": "scheduler-plugins (gangs)",
}
HEADER = ["part of the cluster", "newest: all tests, in CI", "previous: `make compat`"]
BEGIN, END = "<!-- Written by `make golden` from tests/cluster/platforms.py. -->\n\n", "\n\n<!-- Its end. -->\n"


def test_readme(golden):
    assert DEFAULT == "newest"  # what the table says of CI
    before, _, rest = README.read_text().partition(BEGIN)
    rows = [[title, *(versions[part] for versions in PLATFORMS.values())] for part, title in PARTS.items()]
    golden(README, before + BEGIN + table(HEADER, rows) + END + rest.partition(END)[2])


@pytest.mark.parametrize("system", TESTED)
def test_the_page_of_a_system(system, golden):
    page = ROOT / f"docs/systems/{system}.md"
    text, count = re.subn(r"(?m)^(\| tested with \|).*\|$", rf"\1 {TESTED[system]} |", page.read_text())
    assert count == 1
    golden(page, text)


def test_the_list_of_systems(golden):
    page = ROOT / "docs/systems/index.md"
    text = page.read_text()
    for system, tested in TESTED.items():
        text, count = re.subn(rf"(?m)^(- `{system}`:) .*$", rf"\1 {tested}", text)
        assert count == 1
    golden(page, text)

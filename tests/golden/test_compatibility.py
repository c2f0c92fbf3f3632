"""The table of platforms in README.md is that of the versions which the test cluster is made of."""

import pathlib

from tests.cluster.platforms import NEWEST, PREVIOUS
from tests.golden.systems_page import table

README = pathlib.Path(__file__).parents[2] / "README.md"
PARTS = {
    "kubernetes": "Kubernetes",
    "argo": "Argo Workflows",
    "training-operator": "training operator (TFJob)",
    "jobset": "JobSet",
    "trainer": "Kubeflow Trainer",
    "scheduler-plugins": "scheduler-plugins (gangs)",
}
HEADER = ["", "newest: tested in CI", "previous: tested by `make compat`"]
BEGIN, END = "<!-- Written by `make golden` from tests/cluster/platforms.py. -->\n\n", "\n\n<!-- Its end. -->\n"


def test_readme(golden):
    before, _, rest = README.read_text().partition(BEGIN)
    rows = [[title, NEWEST[part], PREVIOUS[part]] for part, title in PARTS.items()]
    golden(README, before + BEGIN + table(HEADER, rows) + END + rest.partition(END)[2])

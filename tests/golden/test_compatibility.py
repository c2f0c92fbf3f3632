"""The table of the platform in README.md is that of the versions which CI runs."""

import pathlib

from tests.cluster.platforms import DEFAULT, PLATFORMS
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
HEADER = ["part of the cluster", "tested in CI"]
BEGIN, END = "<!-- Written by `make golden` from tests/cluster/platforms.py. -->\n\n", "\n\n<!-- Its end. -->\n"


def test_readme(golden):
    before, _, rest = README.read_text().partition(BEGIN)
    rows = [[title, PLATFORMS[DEFAULT][part]] for part, title in PARTS.items()]
    golden(README, before + BEGIN + table(HEADER, rows) + END + rest.partition(END)[2])

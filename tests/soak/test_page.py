"""The page of a soak, and the check that --break makes."""

import argparse

from tests.soak.__main__ import _both_found
from tests.soak.page import PAGE, page
from tests.soak.test_judge import KILLED, launch, record

OPTIONS = argparse.Namespace(seed=7, minutes=20.0, parallel=6)


def test_the_page_has_the_figures_and_the_problems():
    jobs = [record(launch(0)), record(KILLED, launch(0), system="jobset"), record(launch(None, ended=None))]
    text = page(OPTIONS, jobs, {"jobs": 3}, [])
    assert "Seed 7, 20 minutes, 6 jobs at a time" in text
    assert "No problem was found." in text
    for row in (
        "| jobs | 3 |",
        "| `kubeflow` | 2 |",
        "| `jobset` | 1 |",
        "| signal 9 | 1 |",
        "| 0 | 2 |",
        "| none | 1 |",
    ):
        assert row in text
    assert "- r: it hung" in page(OPTIONS, jobs, {}, ["r: it hung"])
    assert PAGE.read_text().startswith(text.partition("## Last full soak")[0])


def test_break_needs_both():
    orphan = (
        "orphan: v1 ConfigMap soak-orphan has the labels of tfsteps, but the run 'soak-orphan' is none of this soak"
    )
    removed = "r on jobs: wrongly removed: batch/v1 Job soak-x, which must be kept"
    assert _both_found([orphan, removed])
    assert not _both_found([orphan])
    assert not _both_found([removed, "orphan: v1 Pod soak-y"])

"""The pages that a new user follows, run as that user would: each file that a page shows, then its commands."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.support.jobs import run_job
from tfsteps.runs.events import State

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/get-started").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMANDS = "sh"


def blocks(page):
    """Return each file with its name, and each block of commands with an empty one."""
    return [(name, text) for kind, name, text in _BLOCK.findall(page.read_text()) if name or kind == _COMMANDS]


RUN = [page for page in PAGES if any(not name for name, _ in blocks(page))]


def test_the_pages():
    assert {page.stem for page in RUN} >= {"README", "first-job", "keras", "parameter-servers", "evaluator", "tf1"}


def together():
    """Return the pages by the folder in which they run: that of the first job goes on where README ends."""
    [first], others = (
        [page for page in RUN if page.stem == "first-job"],
        [page for page in RUN if page.stem != "first-job"],
    )
    return [[page, first] if page.stem == "README" else [page] for page in others]


@pytest.mark.tensorflow
@pytest.mark.parametrize("pages", together(), ids=lambda pages: " and ".join(page.stem for page in pages))
def test_pages(pages, tmp_path):
    ran = {}  # by command, the page: what an earlier page ran is not run again, so that a job of both trains once
    env = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    env |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    for of, name, text in ((page, *block) for page in pages for block in blocks(page)):
        if name:
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        else:
            commands = [line.partition("  #")[0].rstrip() for line in text.splitlines()]
            script = "\n".join(command for command in commands if ran.setdefault(command, of) == of)
            done = subprocess.run(
                ["bash", "-e"], check=False, cwd=tmp_path, env=env, input=script, text=True, capture_output=True
            )
            assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("roles", "error"),
    [
        ("{worker: {replicas: 2}}", "Attempt to convert a value (PerReplica"),
        ("{chief: {}, ps: {}, worker: {}}", "ClusterCoordinator.create_per_worker_dataset"),
    ],
)
def test_fit_of_keras_3_fails_as_documented(roles, error):
    """If this fails, Keras has learned it: change the table of docs/get-started/keras.md, and README's known limits."""
    result = run_job(f"name: fit\ncommand: [python, keras_fit.py]\nroles: {roles}\nenv: {{TF_CPP_MIN_LOG_LEVEL: 2}}\n")
    assert result.status.state is State.FAILED
    assert result.printed(re.escape(error))
    assert not result.printed("fit works")

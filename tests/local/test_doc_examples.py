"""Every Kubeflow pipeline that README and docs show runs on this machine to the end that its page promises."""

import shutil

import pytest

from tests.support.doc_examples import ROOT, examples
from tfsteps.kfp import run_here
from tfsteps.runs import store

# What the examples call: a replica that ends at once, and writes the metric and the model that its job promises.
TRAIN = """
import os, pathlib
from event_writer import ScalarWriter

if (os.environ["TFSTEPS_ROLE"], os.environ["TFSTEPS_INDEX"]) == ("worker", "0"):
    with ScalarWriter(os.environ["TFSTEPS_LOG_DIR"]) as writer:
        for tag in ("accuracy", "eval/accuracy"):
            writer.scalar(tag, 0.97, 1)
    model = pathlib.Path(os.environ["TFSTEPS_MODEL_DIR"])
    model.mkdir(parents=True, exist_ok=True)
    (model / "saved_model.pb").write_bytes(b"model")
"""
PROMOTE = """
import json, os, sys

job = json.loads(sys.argv[2])["inputs"]["parameterValues"]["job"]
assert os.listdir(job["model"]) == ["saved_model.pb"]
"""
IMAGES = ["ghcr.io/acme/mnist:1.4", "debian:12-slim"]
RUN = {
    "cached": ["fingerprint", "train"],
    "curves": ["tensorboard"],
    "first": ["train"],
    "mnist": ["train"],
    "nightly": ["train-and-finalize/train", "train-and-finalize/cleanup", "evaluate-gate", "promote"],
    "notified": ["train", "notify"],
    "stays": ["train"],
    "tuned": ["train"],
}
"""The pipelines that run, by name, and their steps in the order in which these end."""
CANNOT_RUN: dict[str, str] = {}
"""Those that cannot run on this machine, and why."""

EXAMPLES = [pytest.param(item, id=str(item)) for item in examples() if "@dsl.pipeline" in item.code]


def test_every_example_runs_or_says_why_not():
    names = [pipeline.name for example in EXAMPLES for pipeline in example.values[0].pipelines()]
    assert sorted(names) == sorted([*RUN, *CANNOT_RUN])


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_to_its_end(example, tmp_path, capfd):
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "promote.py").write_text(PROMOTE)
    shutil.copy(ROOT / "tests/support/event_writer.py", folder)
    for pipeline in example.pipelines():
        if pipeline.name in CANNOT_RUN:
            continue
        assert run_here(pipeline, {}, images=IMAGES, cwd=folder) == 0, capfd.readouterr().out
        out = capfd.readouterr().out
        assert f"{pipeline.name} succeeded after" in out
        steps = [line.split()[0] for line in out.splitlines() if " exit 0 " in line]
        assert steps == RUN[pipeline.name]
        states = [attempt.status().state for attempt in store.attempts(out.split()[1])]
        assert states == ["succeeded"] * any("train" in step for step in steps)
        assert ("accuracy" in out) == ("metric_tags" in example.code)

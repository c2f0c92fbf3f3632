"""TFJobs as they are created: one with everything set, one with the least."""

import pathlib

import pytest
import yaml

from tfsteps import spec
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.kubeflow.tfjob import TFJob

HERE = pathlib.Path(__file__).parent / "kubeflow"
PLACES = OutputPaths(output="/data/out", model="/data/out/export", logs="/data/out/events", base_dir=pathlib.Path())


@pytest.mark.parametrize("file", sorted(HERE.glob("*.job.yaml")), ids=lambda file: file.name.partition(".")[0])
def test_rendered(file, golden):
    job = spec.from_plain(yaml.safe_load(file.read_text()), file.name, registry.options())
    kind = TFJob()
    assert kind.spec_problems(job) == []
    identity = Identity(run="0b7c1a52-7d1e-4a0f-9d52-6a1f4f0f7b11", task="train", attempt=2, pipeline="mnist pipeline")
    manifest = kind.render(job, identity, PLACES, "team-a").manifest
    golden(file.with_name(file.name.replace(".job.", ".tfjob.")), yaml.safe_dump(manifest, sort_keys=False, width=120))


def test_both_are_there():
    assert {file.name for file in HERE.glob("*.job.yaml")} == {"everything.job.yaml", "least.job.yaml"}

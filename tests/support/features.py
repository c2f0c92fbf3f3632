"""The example job of each feature, on each job system."""

import pathlib
import tempfile

import msgspec

from tfsteps.runs import code_archive
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.features import FEATURES
from tfsteps.systems.roles import example_job

IDENTITY = Identity(run="0b7c1a52-7d1e-4a0f-9d52-6a1f4f0f7b11", task="train", attempt=2, pipeline="mnist pipeline")
PLACES = OutputPaths(output="/data/out", model="/data/out/model", logs="/data/out/logs", base_dir=pathlib.Path("/job"))
CELLS = [(system, feature) for system in registry.NAMES for feature in FEATURES]


def level(system, feature):
    return registry.capabilities_of(system)[feature].level


def job_of(system, feature):
    """Return the job that asks for a feature; code is packed."""
    job = example_job(system, feature)
    if job.code_source is None:
        return job
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "train.py").write_text("print('trained')\n")
        return msgspec.structs.replace(job, code=code_archive.resolve(job.code_source, pathlib.Path(folder))[0])


def planned(system, feature):
    """Return what is created for the job that asks for a feature, as plain objects."""
    objects = registry.get(system).plan(job_of(system, feature), IDENTITY, PLACES)
    for item in objects:
        if "binaryData" in item:  # compressed by the zlib of this machine
            item["binaryData"] = dict.fromkeys(item["binaryData"], "an archive")
    return objects

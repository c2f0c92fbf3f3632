"""The runtimes of manifests/trainjob-runtimes, and that every job which a TrainJob can be has one of them."""

import itertools
import pathlib

import pytest
import yaml

from tfsteps import spec
from tfsteps.systems.trainjob.trainjob import FOLDER, TrainJob, runtime_name, runtimes

HERE = pathlib.Path(__file__).parents[2] / FOLDER
HEAD = "# Generated from the job system `trainjob` by `make golden`.\n"
WHAT = "# The runtimes that TrainJobs of tfsteps name: for the whole cluster, installed by its operator.\n"
ALL = {runtime["metadata"]["name"]: runtime for runtime in runtimes()}


class Dumper(yaml.SafeDumper):
    """Writes scripts as they are, and lists of numbers on few lines."""


def _text(dumper, text):
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def _list(dumper, items):
    numbers = all(isinstance(item, int) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=numbers)


Dumper.add_representer(str, _text)
Dumper.add_representer(list, _list)


@pytest.mark.parametrize("name", ALL)
def test_written(name, golden):
    golden(HERE / f"{name}.yaml", HEAD + yaml.dump(ALL[name], Dumper=Dumper, sort_keys=False, width=110))


def test_the_folder_holds_them_and_nothing_else(golden):
    files = sorted(f"{name}.yaml" for name in ALL)
    kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": files}
    golden(HERE / "kustomization.yaml", WHAT + yaml.safe_dump(kustomization, sort_keys=False))
    assert sorted(file.name for file in HERE.iterdir()) == ["kustomization.yaml", *files]


WORKERS = {"worker": {"replicas": 2}}
ROLES = [WORKERS, {"chief": {}, **WORKERS}, {"chief": {}, "ps": {}, **WORKERS, "evaluator": {}}]


@pytest.mark.parametrize(
    ("roles", "restart", "success"),
    list(itertools.product(ROLES, ["never", "on_failure", "exit_code"], ["chief", "all_workers"])),
)
def test_every_job_has_a_runtime(roles, restart, success):
    fields = {"name": "mnist", "image": "acme/mnist:1", "command": ["python", "train.py"], "restart": restart}
    job = spec.from_plain({**fields, "roles": roles, "success": success})
    assert runtime_name(job) in ALL or any(problem.path == ("success",) for problem in TrainJob().spec_problems(job))

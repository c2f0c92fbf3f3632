"""What each feature comes to on each job system: the base job as it is created, and for each feature what differs."""

import difflib
import json
import os
import pathlib
import sys

import msgspec
import pytest
import yaml

from tests.golden import systems_page
from tests.support import features
from tests.support.features import CELLS, level
from tfsteps.systems import registry
from tfsteps.systems.capabilities import Level
from tfsteps.systems.features import FEATURES

HERE = pathlib.Path(__file__).parent / "features"
DOCS = pathlib.Path(__file__).parents[2] / "docs"
HAS = {Level.NATIVE, Level.DONE}


@pytest.fixture(autouse=True)
def the_same_everywhere(monkeypatch, tmp_path):
    """No cluster, and an environment that is nobody's: processes of this machine inherit it."""
    for name in os.environ:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))


def text(system, feature):
    objects = json.loads(msgspec.json.encode(features.planned(system, feature)))
    here = str(pathlib.Path(sys.executable).parent)
    return (
        yaml.safe_dump_all(objects, sort_keys=False, width=120)
        .replace(here, "/here/bin")
        .replace(os.environ["TFSTEPS_HOME"], "/state")
    )


@pytest.mark.parametrize("system", registry.NAMES)
def test_the_base_job(system, golden):
    golden(HERE / system / "base.yaml", text(system, None))


@pytest.mark.parametrize(("system", "feature"), CELLS)
def test_a_feature(system, feature, golden):
    file = HERE / system / f"{feature}.diff"
    problems = registry.get(system).spec_problems(features.job_of(system, feature))
    if level(system, feature) is Level.REFUSED:
        golden(file, "".join(f"{problem}\n" for problem in problems))
        return
    base, with_it = text(system, None).splitlines(), text(system, feature).splitlines()
    lines = list(difflib.unified_diff(base, with_it, lineterm="", n=2))[2:]
    if FEATURES[feature].job and feature not in _THE_DEFAULT and level(system, feature) in HAS and system != "local":
        assert lines, "it changes nothing"
    golden(file, "".join(f"{line}\n" for line in lines))


_THE_DEFAULT = {"restart_never", "on_end", "on_evicted", "cluster"}  # the last two are the launcher's alone


def test_the_page(golden):
    golden(DOCS / "systems" / "features.md", systems_page.page())

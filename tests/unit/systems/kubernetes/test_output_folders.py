"""The folders of an attempt, made by a launcher that mounts the job's volume; nobody is shut out of them."""

import os
import pathlib

import pytest

from tfsteps import spec
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.output_folders import make_folders


def folders_of(volume, monkeypatch, mounted=True, **fields):
    """Make the folders of a job with that volume; return their modes by path below it."""
    job = spec.from_plain(
        {
            "name": "a",
            "image": "i",
            "roles": {"worker": {}},
            "volumes": [{"mount": str(volume), "pvc": "data", **fields}],
        }
    )
    monkeypatch.setattr(os.path, "ismount", lambda path: mounted and path == str(volume))
    paths = registry.get("kubeflow").output_paths(job, Identity(run="r", task="t"), pathlib.Path())
    make_folders(job, paths)
    make_folders(job, paths)
    return {str(path.relative_to(volume)): path.stat().st_mode & 0o7777 for path in volume.rglob("*")}


@pytest.mark.parametrize(("mode", "expected"), [(0o777, 0o777), (0o1777, 0o777), (0o2770, 0o2770), (0o755, 0o755)])
def test_who_may_write_to_the_volume_may_write_to_the_folders(mode, expected, tmp_path, monkeypatch):
    tmp_path.chmod(mode)
    modes = folders_of(tmp_path, monkeypatch)
    root = "tfsteps/r/t"
    assert modes == dict.fromkeys(["tfsteps", "tfsteps/r", root, f"{root}/model", f"{root}/logs"], expected)


def test_none_is_made_that_its_owner_could_not_write_to(tmp_path, monkeypatch):
    tmp_path.chmod(0o775)
    monkeypatch.setattr(os, "geteuid", lambda: 65532)
    os.chown(tmp_path, 1000, -1)
    assert folders_of(tmp_path, monkeypatch) == {}


@pytest.mark.parametrize("variables", [{"mounted": False}, {"read_only": True}], ids=str)
def test_none_is_made_where_the_volume_is_not_mounted(variables, tmp_path, monkeypatch):
    assert folders_of(tmp_path, monkeypatch, **variables) == {}


def test_a_volume_that_does_not_take_them_is_left_to_the_program(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuse)
    assert folders_of(tmp_path, monkeypatch) == {}

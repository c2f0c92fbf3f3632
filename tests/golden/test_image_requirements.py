"""What the images install: the packages that each needs, with their dependencies, as requirements.lock pins them."""

import importlib.metadata
import pathlib
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDS = {
    "launcher": [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["store"]],
    "tensorboard": [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["tensorboard"]],
    "train": ["tensorflow-cpu", "tensorboard"],
}
PYTHONS = [
    {"python_version": version, "python_full_version": f"{version}.0", "extra": ""}
    for version in ("3.11", "3.12", "3.13")  # of the base image, whose default is the first
]
HEADER = "# Generated from requirements.lock by `make golden`: what this image needs, and no more.\n"
BASE = re.compile(r"^ARG BASE=(python:\S+)$", re.MULTILINE)


@pytest.mark.parametrize("image", NEEDS)
def test_an_image_installs_what_the_lock_pins(image, golden):
    names = closure(NEEDS[image], PYTHONS[0])
    pins = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text().strip())
    # Some packages have two pins, each with a marker for some versions of Python.
    needed = [pin for pin in pins if re.match(r"[^=]+", pin)[0] in names]
    pinned = [Requirement(pin.partition(" \\")[0]) for pin in needed]
    for python in PYTHONS:
        installed = [need.name for need in pinned if need.marker is None or need.marker.evaluate(python)]
        assert sorted(installed) == sorted(names), python
        assert closure(NEEDS[image], python) <= names, python
    requirements = "".join(f"{pin}\n" for pin in needed)
    golden(ROOT / "images" / image / "requirements.txt", HEADER + requirements)


def closure(needs, python):
    """Return the names of the packages that `needs` name, and of all that these require; `.venv` holds them."""
    names, todo = set(), [Requirement(need) for need in needs]
    while todo:
        need = todo.pop()
        name = canonicalize_name(need.name)
        if name not in names and (need.marker is None or need.marker.evaluate(python)):
            names.add(name)
            todo += map(Requirement, importlib.metadata.requires(name) or [])
    return names


def test_every_image_has_the_same_base():
    files = [*ROOT.glob("images/*/Dockerfile"), ROOT / "tests/controllers/Dockerfile", ROOT / "Makefile"]
    text = {file: file.read_text().replace("BASE ?= ", "ARG BASE=") for file in files}
    bases = {file.relative_to(ROOT): BASE.findall(text[file]) for file in files}
    assert len({tuple(images) for images in bases.values()}) == 1, bases
    assert all(bases.values())

"""A namespace for each scenario, with the launcher's permissions for its job system and the stand-in image."""

import contextlib

import pytest

from tests.conformance.conftest import build, kubeconfig
from tests.conformance.environment import Environment
from tests.conformance.systems import SYSTEMS
from tfsteps.kube import access
from tfsteps.kube.client import Api

__all__ = ["build", "kubeconfig"]


@pytest.fixture
def environments(kubeconfig, build, tmp_path):
    """Return a function that gives a environment of a job system, with another image if one is named."""
    with contextlib.ExitStack() as stack:

        def environment(name, image=None):
            system = next(item for item in SYSTEMS if item.name == name)
            opened = Environment(system, Api(access.find()), image or build("standin"), tmp_path / "environment")
            return stack.enter_context(opened)

        yield environment

"""The image of pipelines/, and a namespace with a claim; its Workflows have only the permissions of overlays/argo."""

import hashlib
import os
import re
import shutil

import pytest

from tests.argo.conftest import environment
from tests.cluster import images
from tests.conformance.conftest import build
from tests.preflight.conftest import ROOT, cluster, image
from tests.support.claims import claim_of
from tests.support.wheel import wheel

__all__ = ["build", "cluster", "environment", "image"]


@pytest.fixture(scope="session")
def kubeconfig(cluster):
    """What `build` waits for."""


@pytest.fixture(scope="session")
def digits_image(build, tmp_path_factory):
    """The image of pipelines/Dockerfile, built from this tree and on the node."""
    if image := os.environ.get("TFSTEPS_DIGITS_IMAGE"):  # where the cluster is not of this machine
        return image
    context = tmp_path_factory.mktemp("digits")
    (context / "build/image").mkdir(parents=True)
    shutil.copy(wheel(), context / "build/image")
    (context / "images/launcher").mkdir(parents=True)
    shutil.copy(ROOT / "images/launcher/requirements.txt", context / "images/launcher")
    shutil.copytree(ROOT / "pipelines", context / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    dockerfile = context / "pipelines/Dockerfile"
    dockerfile.write_text(re.sub(r"(?m)^ARG BASE=.*", f"ARG BASE={build('train')}", dockerfile.read_text()))
    parts = [*sorted(context.glob("build/image/*.whl")), *sorted(context.glob("pipelines/*.py")), dockerfile]
    content = hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:12]
    name = f"registry.local/tfsteps-digits:{content}"
    images.provide_image(name, context, dockerfile)
    return name


@pytest.fixture(scope="session")
def claim(environment):
    """A claim for the folder of the node that the fixture returns; every pod may write to it."""
    with claim_of(environment.cluster, environment.namespace) as folder:
        yield folder

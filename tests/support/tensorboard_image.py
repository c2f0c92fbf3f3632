"""The image of TensorBoard, on the node of the test cluster."""

import hashlib
import os
import pathlib
import shutil

from tests.cluster import images
from tests.support.wheel import wheel

_IMAGE = pathlib.Path(__file__).parents[2] / "images/tensorboard"


def provide(context: pathlib.Path) -> str:
    """Build the image from this tree's wheel, once for its content, and return its name.

    Args:
        context: An empty folder for what it is built from.
    """
    if image := os.environ.get("TFSTEPS_TENSORBOARD_IMAGE"):  # where the cluster is not of this machine
        return image
    requirements, dockerfile = _IMAGE / "requirements.txt", _IMAGE / "Dockerfile"
    shutil.copy(wheel(), context)
    shutil.copy(requirements, context / "requirements-tensorboard.txt")
    parts = [wheel(), requirements, dockerfile]
    content = hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:12]
    name = f"registry.local/tfsteps/tensorboard:{content}"
    images.provide_image(name, context, dockerfile)
    return name

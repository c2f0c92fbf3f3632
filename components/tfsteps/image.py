"""The bundle's own image. It holds this package and nothing that trains."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps import __version__

REGISTRY = os.environ.get("TFSTEPS_REGISTRY", "").rstrip("/")
"""Registry and path before the image's name, such as `registry.example/ml`; empty = not chosen: images name no
registry, and are refused where a cluster would run them. `docker.io` = the images were loaded on the nodes."""

IMAGE = f"{REGISTRY}/tfsteps/launcher:{__version__}".removeprefix("/")
"""What every launcher step runs in: name and version, never `latest`. Compiled pipelines and templates contain it."""

TENSORBOARD_IMAGE = f"{REGISTRY}/tfsteps/tensorboard:{__version__}".removeprefix("/")
"""What TensorBoards on clusters run in, unless a job names another image that has this package and TensorBoard."""

REQUESTS = {"cpu": "50m", "memory": "64Mi"}
LIMITS = {"cpu": "1", "memory": "512Mi"}
"""What the container of a step is given unless its author says otherwise; a ResourceQuota may demand each of them."""

_NO_REGISTRY = re.compile(r"tfsteps/(launcher|tensorboard)[:@].*")
_URL = re.compile(r"\w+://.*/" + _NO_REGISTRY.pattern)


def unqualified(objects: Any) -> list[str]:
    """Return a sentence for each image of this bundle in a tree of mappings and lists that names no registry.

    Nodes take such a name for one of docker.io, where it is not this project's. Empty = there is none, or
    TFSTEPS_REGISTRY is `docker.io`: the installer means that name. A registry with a scheme is none, either.
    """
    if REGISTRY == "docker.io":
        return []
    names = dict.fromkeys(_images(objects))
    images = [image for image in names if _NO_REGISTRY.fullmatch(image)]
    urls = [image for image in names if _URL.fullmatch(image)]
    return [
        f"image {image} is not the name of an image but an address: no scheme may be before the registry; set "
        "TFSTEPS_REGISTRY=registry.example/ml where you compile and submit"
        for image in urls
    ] + [
        f"image {image} names no registry, so nodes take what docker.io has by that name, which is not this project's: "
        "push it to your registry, and set TFSTEPS_REGISTRY=registry.example/ml where you compile and submit, or "
        "TFSTEPS_REGISTRY=docker.io if the image is loaded on the nodes"
        for image in images
    ]


def _images(node: Any) -> Iterator[str]:
    """Yield the images of the containers in a tree of mappings and lists."""
    match node:
        case Mapping():
            if isinstance(image := node.get("image"), str):
                yield image
            for value in node.values():
                yield from _images(value)
        case list():
            for value in node:
                yield from _images(value)

"""The bundle's own image. It holds this package and nothing that trains."""

import os

from tfsteps import __version__

REGISTRY = os.environ.get("TFSTEPS_REGISTRY", "").rstrip("/")
"""Registry and path before the image's name, such as `registry.example/ml`; empty = none."""

IMAGE = f"{REGISTRY}/tfsteps/launcher:{__version__}".removeprefix("/")
"""What every launcher step runs in: name and version, never `latest`. Compiled pipelines and templates contain it."""

TENSORBOARD_IMAGE = f"{REGISTRY}/tfsteps/tensorboard:{__version__}".removeprefix("/")
"""What TensorBoards on clusters run in, unless a job names another image that has this package and TensorBoard."""

REQUESTS = {"cpu": "50m", "memory": "64Mi"}
LIMITS = {"cpu": "1", "memory": "512Mi"}
"""What the container of a step is given unless its author says otherwise; a ResourceQuota may demand each of them."""

"""The bundle's own image. It holds this package and nothing that trains."""

from tfsteps import __version__

IMAGE = f"tfsteps/launcher:{__version__}"
"""What every launcher step runs in: name and version, never `latest`."""

REQUESTS = {"cpu": "50m", "memory": "64Mi"}
LIMITS = {"cpu": "1", "memory": "512Mi"}
"""What the container of a step is given unless its author says otherwise; a ResourceQuota may demand each of them."""

"""The bundle's own image. It holds this package and nothing that trains."""

from tfsteps import __version__

IMAGE = f"tfsteps/launcher:{__version__}"
"""What every launcher step runs in: name and version, never `latest`."""

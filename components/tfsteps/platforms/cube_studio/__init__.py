"""cube-studio: `python -m tfsteps.platforms.cube_studio` is the program of its job template."""

from tfsteps.systems.platforms import PlatformPlugin

PLUGIN = PlatformPlugin(
    name="cube-studio",
    pipeline_reader="tfsteps.platforms.cube_studio.pipeline:read_pipelines",
    retention="tfsteps.platforms.cube_studio.retention:RETENTION",
)

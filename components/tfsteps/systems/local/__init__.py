"""The `local` job system: replicas are processes of this machine, which runs Linux."""

from tfsteps.systems.base import System
from tfsteps.systems.local.options import CAPABILITIES, LocalOptions
from tfsteps.systems.plugin import SystemPlugin


def system() -> System:
    """Return the job system."""
    from tfsteps.systems.local.job_system import LocalSystem  # noqa: PLC0415  the options alone are cheap to import

    return LocalSystem()


PLUGIN = SystemPlugin(
    name="local",
    options=LocalOptions,
    capabilities=CAPABILITIES,
    system=system,
)

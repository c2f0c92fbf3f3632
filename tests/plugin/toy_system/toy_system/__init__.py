"""The job system `toy`: processes of this machine, with a greeting for each."""

import msgspec

from tfsteps.systems import local
from tfsteps.systems.base import System
from tfsteps.systems.capabilities import refused
from tfsteps.systems.plugin import SystemPlugin

CAPABILITIES = {
    **local.CAPABILITIES,
    "gpu": refused("a toy has no GPU", "Remove it, or use another job system"),
}


class ToyOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a toy job.

    Attributes:
        greeting: What each replica finds in its variable GREETING.
    """

    greeting: str = "hello"


def system() -> System:
    """Return the job system."""
    from toy_system.job_system import ToySystem  # noqa: PLC0415

    return ToySystem()


PLUGIN = SystemPlugin(
    name="toy",
    options=ToyOptions,
    capabilities=CAPABILITIES,
    system=system,
)

"""The job system `hai`: training tasks of HAI Platform, over its REST interface."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from tfsteps.platforms.hai.capabilities import CAPABILITIES
from tfsteps.platforms.hai.options import OPTIONS
from tfsteps.systems.plugin import SystemPlugin

if TYPE_CHECKING:
    from tfsteps.platforms.hai.job_system import HaiSystem


def system(context: str = "", namespace: str = "") -> "HaiSystem":  # noqa: ARG001
    """Return the job system at the address that is configured; `context` and `namespace` are Kubernetes' words."""
    from tfsteps.platforms.hai.job_system import HaiSystem  # noqa: PLC0415  the options alone are cheap to import

    return HaiSystem()


def missing_access(names: Collection[str]) -> list[str]:
    """Return a sentence for the address and for the token of HAI if no variable of a launcher has it."""
    from tfsteps.platforms.hai import access  # noqa: PLC0415  as above

    return access.missing(names)


PLUGIN = SystemPlugin(
    name="hai",
    options=OPTIONS,
    capabilities=CAPABILITIES,
    system=system,
    missing_access=missing_access,
)

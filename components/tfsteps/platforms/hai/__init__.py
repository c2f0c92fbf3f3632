"""The job system `hai`: training tasks of HAI Platform, over its REST interface."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from tfsteps.platforms.hai.options import CAPABILITIES, HaiOptions
from tfsteps.systems.plugin import Platform, SystemPlugin

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


def backend() -> AbstractContextManager[Any]:
    """Return the backend of the platform that is configured."""
    from tfsteps.platforms.hai.backend import hai  # noqa: PLC0415  as above

    return hai()


def sweep(*args: Any, **options: Any) -> Any:
    """Return the janitor's pass over the tasks; the arguments are those of `tfsteps.janitor.sweep.PlatformSweep`."""
    from tfsteps.platforms.hai.sweep import sweep_of  # noqa: PLC0415  as above

    return sweep_of(*args, **options)


PLUGIN = SystemPlugin(
    name="hai",
    options=HaiOptions,
    capabilities=CAPABILITIES,
    system=system,
    missing_access=missing_access,
    readers={("version 2", ""): "tfsteps.platforms.hai.reader:read_task"},
    command_lines=dict.fromkeys(("hai-cli", "hfai"), "tfsteps.platforms.hai.reader:read_hai_cli"),
    platform=Platform(title="HAI", backend=backend, enforces_total=True, sweep=sweep, kind="HAITask"),
)

"""The job system `toybox`, and its platform: processes that outlive their launcher, and a folder that records them."""

from contextlib import AbstractContextManager
from typing import Any

import msgspec

from tfsteps.systems.base import System
from tfsteps.systems.local import CAPABILITIES
from tfsteps.systems.platforms import PlatformPlugin
from tfsteps.systems.plugin import Platform, SystemPlugin


class ToyboxOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A toybox has no options."""


def system() -> System:
    """Return the job system."""
    from toybox.job_system import ToyboxSystem  # noqa: PLC0415  only when a job is run

    return ToyboxSystem()


def backend() -> AbstractContextManager[Any]:
    """Return the backend."""
    from toybox.backend import toybox  # noqa: PLC0415  only when a command looks there

    return toybox()


def sweep(*args: Any, **options: Any) -> Any:
    """Return the janitor's pass."""
    from toybox.sweep import sweep_of  # noqa: PLC0415  only in the janitor

    return sweep_of(*args, **options)


PLUGIN = SystemPlugin(
    name="toybox",
    options=ToyboxOptions,
    capabilities=CAPABILITIES,
    system=system,
    platform=Platform(title="Toybox", backend=backend, sweep=sweep, kind="ToyboxJob"),
    readers={("toy.example/v1", "ToyJob"): "toybox.reader:read_toy"},
)

PLATFORM = PlatformPlugin(
    name="toybox", pipeline_reader="toybox.pipeline:read_pipelines", retention="toybox.pipeline:RETENTION"
)

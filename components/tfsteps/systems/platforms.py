"""The platforms without a job system of their own, whose pipelines and habits tfsteps knows."""

import functools
from collections.abc import Mapping

import msgspec

from tfsteps.systems.plugin import load, load_plugins

ENTRY_POINTS = "tfsteps.platforms"
"""Group of the entry points of packages that add a platform. Each refers to a `PlatformPlugin`."""

_BUILT_IN = {"cube-studio": "tfsteps.platforms.cube_studio:PLUGIN"}
"""Those of this package. Not entry points: a copy of the package without its metadata has them too."""


class PlatformPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """One platform, whose jobs are those of other job systems. What it names is imported when it is needed.

    Attributes:
        name: Its name, in the janitor's `--preset` if it has a retention.
        pipeline_reader: The `tfsteps.imports.read.PipelineReader` that reads its pipelines for `tfsteps import`, as
            `module:function`; empty = it has none.
        retention: How long it keeps ended jobs, a `tfsteps.janitor.rules.DefaultRetention`, as `module:name`; empty =
            it is no preset.
    """

    name: str
    pipeline_reader: str = ""
    retention: str = ""


@functools.cache
def plugins() -> Mapping[str, PlatformPlugin]:
    """Return all platforms by name: those of this package first.

    Raises:
        LaunchError: A package declares one that cannot be loaded, or whose name is taken.
    """
    built_in: dict[str, PlatformPlugin] = {name: load(target) for name, target in _BUILT_IN.items()}
    return {**built_in, **load_plugins(ENTRY_POINTS, PlatformPlugin, "platform", built_in)}

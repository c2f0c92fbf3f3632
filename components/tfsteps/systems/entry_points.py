"""Plugins of job systems and engines that other packages declare by an entry point."""

from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

from tfsteps.systems.base import LaunchError


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_P = TypeVar("_P", bound=_Named)


def load_plugins(
    group: str, kind: type[_P], noun: str, taken: Collection[str], problem: Callable[[_P], str] = lambda _plugin: ""
) -> dict[str, _P]:
    """Return the plugins of other packages by name, in the order of their entry points.

    Args:
        group: Of the entry points.
        kind: The class of the plugins.
        noun: What a plugin declares, for messages: `job system`.
        taken: Names that a plugin must not have.
        problem: Returns what else is wrong with a plugin; empty = nothing.

    Raises:
        LaunchError: A plugin cannot be loaded, has a name that is taken, or is wrong.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415  few commands need other packages

    plugins: dict[str, _P] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        package = f" of package {entry.dist.name} {entry.dist.version}" if entry.dist else ""
        declared = f"entry point {entry.name!r} in {group}{package} ({entry.value})"
        fix = "Correct or uninstall that package"
        try:
            plugin = entry.load()
        except Exception as error:
            raise LaunchError(f"{declared}: it cannot be loaded: {error!r}. {fix}", retryable=False) from error
        if not isinstance(plugin, kind):
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            wrong = f"it refers to a {type(plugin).__name__}, not {article} {kind.__name__}"
        elif plugin.name in plugins or plugin.name in taken:
            wrong = f"its {noun}'s name {plugin.name!r} is taken"
        else:
            wrong = problem(plugin)
        if wrong:
            raise LaunchError(f"{declared}: {wrong}. {fix}", retryable=False)
        plugins[plugin.name] = plugin
    return plugins

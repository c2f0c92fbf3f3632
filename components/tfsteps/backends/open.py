"""Opens the backend of a place, and imports no more than it needs."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tfsteps.backends.backend_location import BackendLocation, on_of
from tfsteps.backends.base import RunBackend
from tfsteps.backends.find import Selection
from tfsteps.console.errors import CommandError
from tfsteps.runs.location import Location
from tfsteps.systems import registry

if TYPE_CHECKING:
    from tfsteps.backends.platform import PlatformBackend


def located(
    selection: Selection, on: str | None, context: str, namespace: str, *, everywhere: bool = False, records: str = ""
) -> BackendLocation:
    """Return where a command looks for a run: as its options say, else where a killed launcher left it.

    A context that this machine recorded as the cluster of the run's job is the one that the job was launched to.

    Raises:
        CommandError: The options contradict one another.
    """
    from tfsteps.backends.local.backend import homes_of, left_at  # noqa: PLC0415

    if on is None and not (context or namespace or everywhere or records):
        platforms = {on_of(location) for location in left_at(selection)} - {Location.LOCAL, Location.KUBERNETES}
        on = platforms.pop() if len(platforms) == 1 else None
    homes = homes_of(selection.run, context) if on == Location.KUBERNETES and context else set()
    home = homes.pop() if len(homes) == 1 else None
    return BackendLocation(on or Location.LOCAL, context, namespace, everywhere, records, home)


def open_platform(name: str) -> "contextlib.AbstractContextManager[PlatformBackend[Any]]":
    """Return a context manager that yields the backend of a platform. What the platform refuses ends the command."""
    backend: contextlib.AbstractContextManager[PlatformBackend[Any]] = registry.platform(name).backend()
    return backend


@contextlib.contextmanager
def open_backend(location: BackendLocation, *, gone: bool = False) -> Iterator[RunBackend[Any]]:
    """Yield the backend of a place, and import no more than it needs. What a server refuses ends the command.

    Args:
        location: Where to look.
        gone: On a cluster, also jobs whose objects are gone, by their stored records: for commands that only read.
    """
    if location.records:
        from tfsteps.backends.stored import StoredBackend, settings_at  # noqa: PLC0415

        yield StoredBackend(settings_at(location.records))
        return
    match location.on:
        case Location.LOCAL:
            from tfsteps.backends.local.backend import LocalBackend  # noqa: PLC0415

            yield LocalBackend()
        case Location.KUBERNETES:
            from tfsteps.backends.kubernetes.backend import ClusterBackend, cluster  # noqa: PLC0415

            with cluster(location) as runs:
                backend = ClusterBackend(runs, location)
                if gone:
                    from tfsteps.backends.stored import MergedBackend  # noqa: PLC0415

                    yield MergedBackend(backend, runs, location)
                else:
                    yield backend
        case platform:
            known = [name for name, declared in registry.plugins().items() if declared.platform]
            if platform not in known:
                places = ", ".join([Location.LOCAL, Location.KUBERNETES, *known])
                raise CommandError(f"--on {platform!r} is unknown: use one of {places}")
            with open_platform(platform) as of_platform:
                yield of_platform

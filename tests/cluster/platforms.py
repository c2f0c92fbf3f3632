"""The versions that the cluster is made of: the newest, which CI runs, and those of before, for `make compat`."""

from .paths import STATE

_BOTH = {"pause": "1", "etcd": "3.6.16", "dns": "1.14.7", "scheduler-plugins": "0.28.9"}
NEWEST = {
    "kubernetes": "1.37.2",
    "argo": "4.0.5",
    "training-operator": "1.9.4",
    "jobset": "0.12.0",
    "trainer": "2.3.0",
} | _BOTH
PREVIOUS = {
    "kubernetes": "1.34.4",
    "argo": "3.7.3",
    "training-operator": "1.8.1",
    "jobset": "0.10.1",
    "trainer": "2.0.0",
} | _BOTH
PLATFORMS = {"newest": NEWEST, "previous": PREVIOUS}
DEFAULT = "newest"

_STARTED = STATE / "platform"  # gone after `down`, as the cluster is


def started() -> str:
    """Return the name of the platform of the cluster that was started; without one, of the default."""
    return _STARTED.read_text() if _STARTED.exists() else DEFAULT


def versions() -> dict[str, str]:
    """Return the version of each part of the cluster that was started; without one, those of the default."""
    return PLATFORMS[started()]


def check(name: str | None) -> str:
    """Return the platform to start: the one that is named, else the one that was started, else the default.

    Raises:
        SystemExit: a cluster of another platform was started before, and is still there.
    """
    if _STARTED.exists() and name not in (None, started()):
        raise SystemExit(f"cluster: the cluster that is there is of the platform {started()}; `down` removes it")
    return name or started()


def mark(name: str) -> None:
    """Keep which platform is started, until `down`."""
    _STARTED.write_text(name)

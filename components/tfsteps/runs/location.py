"""Where the job of a record lives."""

import enum
from typing import NamedTuple


class Location(enum.StrEnum):
    """Where a job lives, if not on a platform of its own: there its location is the name of its job system.

    All but ELSEWHERE are values of the option `--on`, which finds the job there.
    """

    LOCAL = "local"
    """Processes of the machine of its launcher."""

    KUBERNETES = "kubernetes"
    """Objects of a cluster."""

    ELSEWHERE = "elsewhere"
    """A platform that no command of tfsteps asks: only the job system, through a launcher."""


class HomeCluster(NamedTuple):
    """Where the launcher of a job on another cluster read the settings that define that cluster.

    Attributes:
        context: The context of the kubeconfig; empty = the current one, or the cluster of the pod.
        namespace: Its namespace; empty = that of the context.
    """

    context: str = ""
    namespace: str = ""

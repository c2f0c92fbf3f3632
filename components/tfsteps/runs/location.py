"""Where the job of a record lives."""

import enum
from collections.abc import Mapping


class Location(enum.StrEnum):
    """Where a job lives: all but ELSEWHERE are values of the option `--on`, which finds it there."""

    LOCAL = "local"
    """Processes of the machine of its launcher."""

    KUBERNETES = "kubernetes"
    """Objects of a cluster."""

    HAI = "hai"
    """Tasks of a HAI Platform."""

    ELSEWHERE = "elsewhere"
    """A platform that no command of tfsteps asks: only the job system, through a launcher."""


BEFORE_RECORDED: Mapping[str, Location] = {
    "local": Location.LOCAL,
    "hai": Location.HAI,
    **dict.fromkeys(("kubeflow", "t9k", "tfjob-v1alpha1", "jobset", "trainjob", "jobs"), Location.KUBERNETES),
}
"""By the name of the job system: for records of versions that did not record the location."""

"""One row of the table of cases."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.world import World


@dataclass(frozen=True)
class Case:
    """What a launcher on any job system must do.

    Attributes:
        name: What happens.
        run: Makes it happen in a namespace of its own, and asserts the outcome.
        alone: It harms the cluster's other users: run after all others.
    """

    name: str
    run: Callable[[World], None]
    alone: bool = False

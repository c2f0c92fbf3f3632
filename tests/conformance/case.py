"""One row of the table of cases."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.environment import Environment
from tests.conformance.systems import System
from tfsteps.systems.capabilities import Level
from tfsteps.systems.features import FEATURES

TWO = frozenset({"kubeflow", "jobs"})
"""Where cases are run of what is the same code for all systems: one object whose operator makes the pods, and several
Jobs whose pods Kubernetes makes. A pod costs the test cluster a second of CPU."""


@dataclass(frozen=True)
class Case:
    """What a launcher on any job system must do.

    Attributes:
        name: What happens.
        run: Makes it happen in a namespace of its own, and asserts the outcome.
        needs: Features of systems/capabilities.py that it shows; a system that refuses one of them is left out.
        alone: It harms the cluster's other users: run after all others.
        unlike: Job systems that have the features, and end such a job in another way, which other tests show.
        on: The only job systems that it is run on; empty = all.
    """

    name: str
    run: Callable[[Environment], None]
    needs: frozenset[str] = frozenset()
    alone: bool = False
    unlike: frozenset[str] = frozenset()
    on: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse features that are none."""
        assert self.needs <= FEATURES.keys(), self.needs - FEATURES.keys()

    def fits(self, system: System) -> bool:
        """Tell whether a job system has all that the case needs."""
        if system.name in self.unlike or (self.on and system.name not in self.on):
            return False
        return all(system.capabilities[need].level in _levels(need) for need in self.needs)


def _levels(need: str) -> tuple[Level, ...]:
    """Return who may see to a feature for a case to show it: time to live that the janitor keeps is shown with it."""
    return (Level.NATIVE,) if need == "keep_for" else (Level.NATIVE, Level.DONE)

"""One row of the table of cases."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.environment import Environment
from tests.conformance.systems import SYSTEMS, System
from tfsteps.systems.capabilities import Level
from tfsteps.systems.features import FEATURES


@dataclass(frozen=True)
class Case:
    """What a launcher on any job system must do.

    Attributes:
        name: What happens.
        run: Makes it happen in a namespace of its own, and asserts the outcome.
        needs: Features of systems/capabilities.py that it shows; a system that refuses one of them is left out.
        alone: It harms the cluster's other users: run after all others.
        unlike: Job systems that have the features, and end such a job in another way, which other tests show.
        shared: It shows code that is the same for all job systems: it is run on two of those that fit, and which they
            are depends on its name, so that each system has some of these cases. A pod costs the test cluster a second
            of CPU.
    """

    name: str
    run: Callable[[Environment], None]
    needs: frozenset[str] = frozenset()
    alone: bool = False
    unlike: frozenset[str] = frozenset()
    shared: bool = False

    def __post_init__(self) -> None:
        """Refuse features that are none."""
        assert self.needs <= FEATURES.keys(), self.needs - FEATURES.keys()

    def fits(self, system: System) -> bool:
        """Tell whether the case is run on a job system."""
        fitting = [known.name for known in SYSTEMS if self._has_its_needs(known)]
        if self.shared:
            first = zlib.crc32(self.name.encode()) % len(fitting)
            fitting = [fitting[first], fitting[(first + len(fitting) // 2) % len(fitting)]]
        return system.name in fitting

    def _has_its_needs(self, system: System) -> bool:
        has = system.capabilities
        return system.name not in self.unlike and all(has[need].level in _levels(need) for need in self.needs)


def _levels(need: str) -> tuple[Level, ...]:
    """Return who may see to a feature for a case to show it: time to live that the janitor keeps is shown with it."""
    return (Level.NATIVE,) if need == "keep_for" else (Level.NATIVE, Level.DONE)

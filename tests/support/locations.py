"""Where the jobs of a record's job system live."""

from tfsteps.runs.location import Location
from tfsteps.systems import registry


def location_of(system):
    """Return the fields of a status; a system that does not exist is one that no command asks."""
    location = registry.location(system) if system in registry.NAMES else Location.ELSEWHERE
    return {"location": location, "outlives_launcher": location != Location.LOCAL}

"""The cases of every job system that HAI can be asked for."""

from tests.conformance.verdicts import JOB_CASES
from tfsteps.platforms.hai.rules import CAPABILITIES
from tfsteps.systems.capabilities import Level

_OTHER_TIME = {"an image cannot be pulled"}  # the platform checks images when a task is created
_IN_ANOTHER_WAY = {"volumes", "role_templates", "on_end"}  # folders that all ranks see, all but images, nothing is left
_HAS = {name for name, capability in CAPABILITIES.items() if capability.level in (Level.NATIVE, Level.DONE)}

CASES = {
    name: case for name, case in JOB_CASES.items() if name not in _OTHER_TIME and case.needs <= _HAS | _IN_ANOTHER_WAY
}

"""The job description: types, a parser that reports all problems at once, rules, and the JSON schema.

It imports no other package of tfsteps; yaml and difflib are imported when a text or a problem needs them.
"""

from tfsteps.spec.fields import MOST_REPLICAS, is_uri
from tfsteps.spec.parse import Options, from_plain, load, options_of, parse
from tfsteps.spec.pod import EnvSource, Resources
from tfsteps.spec.problems import Path, Problem, SpecError, dotted
from tfsteps.spec.types import (
    ROLES,
    CodeSource,
    Deadlines,
    Gang,
    ResolvedRole,
    Role,
    RoleName,
    Strategy,
    TensorBoard,
    TrainingJob,
    Webhook,
)
from tfsteps.spec.units import Duration, format_bytes, format_duration

__all__ = [
    "MOST_REPLICAS",
    "ROLES",
    "CodeSource",
    "Deadlines",
    "Duration",
    "EnvSource",
    "Gang",
    "Options",
    "Path",
    "Problem",
    "ResolvedRole",
    "Resources",
    "Role",
    "RoleName",
    "SpecError",
    "Strategy",
    "TensorBoard",
    "TrainingJob",
    "Webhook",
    "dotted",
    "format_bytes",
    "format_duration",
    "from_plain",
    "is_uri",
    "load",
    "options_of",
    "parse",
]

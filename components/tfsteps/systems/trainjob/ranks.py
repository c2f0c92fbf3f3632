"""Maps roles to ranks: the arguments of `task.sh`, the command of the runtimes. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from tfsteps import spec
from tfsteps.spec import EnvSource, Role, RoleName, TrainingJob

ROLES = "TFSTEPS_ROLES"
WORKING_DIR = "TFSTEPS_WORKING_DIR"


def arguments(job: TrainingJob) -> tuple[str, list[str]]:
    """Return the value of TFSTEPS_ROLES and the container's arguments: the programs of the roles."""
    programs = {name: _program(job, name, role) for name, role in job.roles.items()}
    first, *others = programs.values()
    if all(other == first for other in others):
        return _roles(job, {}), first
    return _roles(job, programs), [word for program in programs.values() for word in program]


def _roles(job: TrainingJob, programs: Mapping[RoleName, Sequence[str]]) -> str:
    """Return `chief=1:4 worker=2:3`, with the number of words of each program; `chief=1 worker=2` without programs."""
    words = {name: f":{len(program)}" for name, program in programs.items()}
    return " ".join(f"{name}={role.replicas}{words.get(name, '')}" for name, role in job.roles.items())


def counts(roles: str) -> dict[RoleName, int]:
    """Return the number of replicas of each role, from the value of TFSTEPS_ROLES. ValueError if it is not valid."""
    pairs = [word.split(":")[0].split("=") for word in roles.split()]
    if unknown := [name for name, _ in pairs if name not in spec.ROLES]:
        raise ValueError(f"{', '.join(unknown)} is no role")
    return {cast("RoleName", name): int(count) for name, count in pairs}


def _program(job: TrainingJob, name: RoleName, role: Role) -> list[str]:
    """Return a role's command line, preceded by `env` and the role's variables if it has any."""
    variables = [
        f"{key}={value if isinstance(value, str) else f'$({_variable(name, key)})'}" for key, value in role.env.items()
    ]
    command = job.resolved_roles()[name].program
    return ["env", *variables, *command] if variables else command


def sources(name: RoleName, role: Role, template: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the variables of a role that come from objects of the cluster, under names that include the role.

    Args:
        name: The name of the role.
        role: The role.
        template: The pod template of a job with this role only.
    """
    names = {key for key, value in role.env.items() if isinstance(value, EnvSource)}
    env = template["spec"]["containers"][0]["env"]
    yield from (
        {**variable, "name": _variable(name, variable["name"])} for variable in env if variable["name"] in names
    )


def _variable(name: RoleName, key: str) -> str:
    return f"TFSTEPS_{name.upper()}_{key}"

"""Variables of a replica that Kubernetes cannot compute: a shell sets them before the program. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfsteps.spec import Problem, TrainingJob
from tfsteps.spec.problems import Path
from tfsteps.systems.expansion import references
from tfsteps.systems.features import no_commands
from tfsteps.systems.kubernetes.capabilities import ADD_COMMAND
from tfsteps.systems.kubernetes.code import FOLDER_VARIABLE

_OF_THE_PROGRAM = r"""$(tr '\0' '\n' </proc/1/environ | sed -n "s/^$name=//p")"""
_ALL = f'for name in TF_CONFIG TFSTEPS_ROLE TFSTEPS_INDEX; do export "$name={_OF_THE_PROGRAM}"; done'
_SHELL = 'cd -P /proc/1/cwd; exec "${@:-sh}"'
BESIDE: Sequence[str] = ("sh", "-c", f"{_ALL}; {_SHELL}")
"""Starts a shell beside a wrapped program, with the program's variables and in its folder.

Followed by a name and a command, it starts that command instead."""


def shell_beside(shell: Sequence[str], *, code: bool) -> Sequence[str]:
    """Return what starts a shell beside a program: `shell` of its kind, or in the folder of code that was shipped."""
    return ("sh", "-c", _SHELL) if code and len(shell) == 1 else shell


def needs_correction(job: TrainingJob) -> bool:
    """Tell whether an operator's TF_CONFIG hangs the job: an evaluator in its cluster hangs the chief of `ps`."""
    return job.roles.ps is not None and job.roles.evaluator is not None


def uncorrected(job: TrainingJob) -> list[Problem]:
    """Return the roles whose TF_CONFIG cannot be corrected if the operator's lists the evaluator beside `ps`."""
    if not needs_correction(job):
        return []
    hangs = "the operator's TF_CONFIG lists the evaluator, which hangs the chief of parameter servers"
    wrong = f"is missing: {hangs}, and only a command can correct it"
    return [Problem(path=use.path, wrong=wrong, fix=ADD_COMMAND) for use in no_commands(job)]


def unexpanded(job: TrainingJob, names: Iterable[str]) -> Iterator[Problem]:
    """Yield the fields with a reference `$(NAME)` to one of `names`, which a shell sets after Kubernetes' expansion."""
    for path, part in job.parts():
        texts: list[tuple[Path, str]] = [
            (("command",), " ".join(part.command or ())),
            (("args",), " ".join(part.args or ())),
            *((("env", name), value) for name, value in part.env.items() if isinstance(value, str)),
        ]
        for field, text in texts:
            for name in sorted(references(text) & set(names)):
                wrong = f"would stay as it is: a shell sets {name}, after Kubernetes has expanded references"
                fix = f"Read {name} in the program, or run it with `sh -c` and write ${name}"
                yield Problem(path=(*path, *field), value=f"$({name})", wrong=wrong, fix=fix)


def exporting(command: list[str], variables: Mapping[str, str]) -> list[str]:
    """Return a command that runs `command`, and the arguments after it, with more variables.

    The program replaces the shell (`exec`), so that it gets the signals, and its exit code counts.

    Args:
        command: The program and its first arguments; must not be empty.
        variables: Names and values; a value is a POSIX shell text within double quotes, such as `${POD##*-}`.
    """
    script = "".join(f'export {name}="{value}"; ' for name, value in variables.items())
    return ["sh", "-c", f'{script}exec "$@"', "tfsteps", *command]


def container_of(template: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the container called `name` of a pod template."""
    container: dict[str, Any] = next(item for item in template["spec"]["containers"] if item["name"] == name)
    return container


def has_code(pod: Mapping[str, Any]) -> bool:
    """Return whether the program of a pod object was shipped."""
    containers = pod.get("spec", {}).get("containers") or ()
    return any(item["name"] == FOLDER_VARIABLE for container in containers for item in container.get("env") or ())

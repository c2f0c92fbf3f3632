"""References `$(NAME)` in commands, arguments and variables, expanded as Kubernetes does.

Where tfsteps starts the programs itself, nothing else expands them. This module also runs on the ranks of HAI.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with `$(NAME)` replaced by a variable, and `$$` by `$`; unknown references stay as they are."""
    return _REFERENCE.sub(lambda match: "$" if match[1] is None else variables.get(match[1], match[0]), text)


def references(text: str) -> set[str]:
    """Return the names in the references of a text."""
    return {match[1] for match in _REFERENCE.finditer(text) if match[1] is not None}


def escaped(text: str) -> str:
    """Return a text that `expanded` turns into `text`."""
    return text.replace("$", "$$")


def expand_program(
    command: Sequence[str], ours: Mapping[str, str], declared: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return a command and the variables of a replica, expanded.

    Args:
        command: The program and its arguments. They may refer to every variable.
        ours: The variables of tfsteps, whose values are not expanded.
        declared: Variables of job and role, in order. Each may refer to those of tfsteps and to those before it.
    """
    variables = dict(ours)
    for name, value in declared.items():
        variables[name] = expanded(value, variables)
    return [expanded(word, variables) for word in command], variables

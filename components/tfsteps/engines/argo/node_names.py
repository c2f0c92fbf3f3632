"""The names of a Workflow's nodes: the step that a pod is of, its tries, and what contains it. Pure.

Argo names a node by its path in the Workflow: `wf.main.fit(0:a)`. For a lifecycle hook or an exit handler, `.onExit` is
appended to the name of the node whose end it follows. With a retryStrategy, a node X has the tries X(0), X(1) and so
on, and the nodes below are named by their try: `wf(0).main(1).fit(0)`, if each level has one. The name of a step has no
tries: it is the same over all of them.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_HOOK = "onExit"
_GROUPS = re.compile(r"(\[\d+\])+$")  # of parallel steps
_TRY = re.compile(r"\((?P<number>\d+)\)(?P<groups>(\[\d+\])*)$")

_GENERATED_SUFFIX = re.compile(r"-([bcdfghjklmnpqrstvwxz2456789]{5}|\d{10})$")  # by generateName, by a CronWorkflow


class NodeTry(NamedTuple):
    """A try of a node with a retryStrategy.

    Attributes:
        node: The name of the try.
        number: From 0.
    """

    node: str
    number: int


def pipeline_name(workflow: str) -> str:
    """Return the name of a Workflow without what was generated."""
    return _GENERATED_SUFFIX.sub("", workflow)


def run_name(step: str) -> str:
    """Return the name of the Workflow of a step."""
    return split(step)[0]


def step_name(node: str) -> str:
    """Return the name of a node without the numbers of tries, at every level."""
    return ".".join(_TRY.sub(r"\g<groups>", part) for part in split(node))


def without_groups(step: str) -> str:
    """Return the name of a step without the numbers of groups of parallel steps."""
    return ".".join(_GROUPS.sub("", part) for part in split(step))


def tries(node: str) -> Iterator[NodeTry]:
    """Yield the tries that a node is of, or is below, the innermost first."""
    parts = split(node)
    for level in range(len(parts), 0, -1):
        name = _GROUPS.sub("", ".".join(parts[:level]))
        if match := _TRY.search(name):
            yield NodeTry(name, int(match["number"]))


def hooked(step: str) -> str:
    """Return the ended node whose hook or exit handler runs `step`; empty = it is not in a hook or exit handler."""
    parts = split(step)
    hooks = [i for i, part in enumerate(parts) if _GROUPS.sub("", part) == _HOOK]
    return ".".join(parts[: hooks[-1]]) if hooks else ""


def lies_within(step: str, node: str) -> bool:
    """Tell whether a step is a node, or is below it."""
    return step == node or step.startswith((f"{node}.", f"{node}[", f"{node}("))


def scope(step: str) -> str:
    """Return the node that contains a step, such as `wf.main(0:a).train`: equal for the steps of one DAG or iteration.

    Groups of parallel steps are not separate scopes.
    """
    return _GROUPS.sub("", ".".join(split(step)[:-1]))


def split(node: str) -> list[str]:
    """Split a node's name at its dots, but not within the items of loops: `train(0:rate:0.01)`."""
    parts, depth = [""], 0
    for character in node:
        depth += (character == "(") - (character == ")" and depth > 0)
        if character == "." and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts

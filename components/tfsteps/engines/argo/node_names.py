"""Which steps of a Workflow a finalizer cleans up after, by the names of their nodes. Pure.

Argo names a node by its path in the Workflow: `wf.main.fit(0:a)`. For a lifecycle hook or an exit handler, `.onExit` is
appended to the name of the node whose end it follows.
"""

import re

_HOOK = "onExit"
_LEVELS = re.compile(r"(\[\d+\]|\(\d+\))+$")  # of groups of steps, of tries
_TRY = re.compile(r"\(\d+\)$")


def without_try(node: str) -> str:
    """Return the name of a pod's node without the number of the try."""
    return _TRY.sub("", node)


def hooked(node: str) -> str:
    """Return the ended node whose hook or exit handler runs `node`; empty = it is not in a hook or exit handler."""
    parts = split(node)
    hooks = [i for i, part in enumerate(parts) if _LEVELS.sub("", part) == _HOOK]
    return ".".join(parts[: hooks[-1]]) if hooks else ""


def lies_within(step: str, node: str) -> bool:
    """Tell whether a step is a node, or is below it."""
    return step == node or step.startswith((f"{node}.", f"{node}[", f"{node}("))


def scope(node: str) -> str:
    """Return the node that contains a step's node: equal for the steps of one DAG or loop iteration.

    Groups of parallel steps and tries of a whole DAG are not separate scopes.

    Args:
        node: Such as `wf.main(0:a).train`, without the number of the try.
    """
    return _LEVELS.sub("", ".".join(split(node)[:-1]))


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

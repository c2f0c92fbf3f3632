"""Which steps of a Workflow belong together, by the names of their nodes: those that a finalizer looks after. Pure."""

import re

from tfsteps.identity import PREFIX

SCOPE = f"{PREFIX}scope"
"""Label of a job: a hash of where in its run it was launched."""

_KUBEFLOW_LEAF = "executor"
_LEVELS = re.compile(r"(\.onExit|\[\d+\]|\(\d+\))+$")  # of exit handlers, of groups of steps, of tries
_KUBEFLOW_LEVELS = re.compile(r"(\.onExit|\.condition(-branches)?-\d+|\(\d+\))+$")


def scope(node: str, *, kubeflow: bool) -> str:
    """Return the node that a step's node lies in: equal for the steps of one DAG, loop iteration or exit handler.

    Conditions, groups of parallel steps and tries of a whole DAG are no scopes of their own.

    Args:
        node: Such as `mnist-x2k4.root.for-loop-1.iteration-item(0:0).train.executor`, without the number of the try.
        kubeflow: Whether Kubeflow Pipelines made it: there each step is a DAG of one node, `executor`.
    """
    parts = _parts(node)
    if kubeflow and len(parts) > 1 and parts[-1] == _KUBEFLOW_LEAF:
        del parts[-1]
    return (_KUBEFLOW_LEVELS if kubeflow else _LEVELS).sub("", ".".join(parts[:-1]))


def _parts(node: str) -> list[str]:
    """Split a node's name at its dots, but not within the items of loops: `train(0:rate:0.01)`."""
    parts, depth = [""], 0
    for character in node:
        depth += (character == "(") - (character == ")" and depth > 0)
        if character == "." and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts

"""Which steps of a Workflow a finalizer cleans up after, by the names of their nodes. Pure.

Argo names a node by its way from the Workflow down: `wf.main.fit(0:a)`. A task lifecycle hook and an exit handler get
`.onExit` behind the node whose end they wait for. Kubeflow Pipelines compiles a task with `ignore_upstream_failure`
into such a hook of each of its dependencies, and `dsl.ExitHandler` into one of the handler's node (observed on 2.15).
"""

import re

_KUBEFLOW_ROOT, _KUBEFLOW_LEAF = "root", "executor"
_HOOK = "onExit"
_LEVELS = re.compile(r"(\[\d+\]|\(\d+\))+$")  # of groups of steps, of tries
_KUBEFLOW_LEVELS = re.compile(r"(\.condition(-branches)?-\d+|\(\d+\))+$")


def hooked(node: str) -> str:
    """Return the node that has ended where `node` runs in its hook or exit handler; empty = it runs in none."""
    parts = _parts(node)
    hooks = [i for i, part in enumerate(parts) if _LEVELS.sub("", part) == _HOOK]
    return ".".join(parts[: hooks[-1]]) if hooks else ""


def lies_within(step: str, node: str) -> bool:
    """Tell whether a step is a node, or was made below it."""
    return step == node or step.startswith((f"{node}.", f"{node}[", f"{node}("))


def is_leaf_of(step: str, node: str) -> bool:
    """Tell whether a step is a node itself: Kubeflow Pipelines makes each task a DAG of one node, `executor`."""
    return step in (node, f"{node}.{_KUBEFLOW_LEAF}")


def kubeflow_task(step: str) -> str:
    """Return the name of the task of Kubeflow Pipelines that a step is, below the run; empty = it is none.

    Such as `train`, or `for-loop-1.iteration-iterations(0:0).iteration-item.train` within a loop.
    """
    parts = _parts(step)
    if len(parts) < 4 or parts[1] != _KUBEFLOW_ROOT or parts[-1] != _KUBEFLOW_LEAF:
        return ""
    return ".".join(parts[2:-1])


def scope(node: str, *, kubeflow: bool) -> str:
    """Return the node that a step's node lies in: equal for the steps of one DAG or loop iteration.

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

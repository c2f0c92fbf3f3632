"""The names that Kubeflow Pipelines gives the nodes of its Workflows (observed on 2.15). Pure.

Each task is a DAG of one node, `executor`, below the node `root`. A task with `ignore_upstream_failure` becomes a hook
of each of its dependencies, and `dsl.ExitHandler` one of the handler's node.
"""

import re

from tfsteps.engines.argo.node_names import split

_ROOT, _LEAF = "root", "executor"
_LEVELS = re.compile(r"(\.condition(-branches)?-\d+|\(\d+\))+$")


def is_task(step: str, node: str) -> bool:
    """Tell whether a step is the task with the DAG `node`."""
    return step == f"{node}.{_LEAF}"


def task_name(step: str) -> str:
    """Return the name of the task that a step is, below the run; empty = it is not a task of Kubeflow Pipelines.

    For example `train`, or `for-loop-1.iteration-iterations(0:0).iteration-item.train` within a loop.
    """
    parts = split(step)
    if len(parts) < 4 or parts[1] != _ROOT or parts[-1] != _LEAF:
        return ""
    return ".".join(parts[2:-1])


def is_driver(template: str) -> bool:
    """Tell whether a template is that of the drivers, which prepare each task and DAG."""
    return template.startswith("system-") and template.endswith("-driver")


def scope(node: str) -> str:
    """Return the node that a task lies in: equal for the tasks of one pipeline or loop iteration.

    Conditions and tries of a whole DAG are no scopes of their own.

    Args:
        node: Such as `mnist-x2k4.root.for-loop-1.iteration-item(0:0).train.executor`, without the number of the try.
    """
    parts = split(node)
    if len(parts) > 1 and parts[-1] == _LEAF:
        del parts[-1]
    return _LEVELS.sub("", ".".join(parts[:-1]))

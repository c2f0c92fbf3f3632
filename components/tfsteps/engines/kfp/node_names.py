"""The names that Kubeflow Pipelines gives the nodes of its Workflows (observed on 2.15 and 2.17). Pure.

Each task is a DAG of one node, `executor`, below the node `root`. A task with `ignore_upstream_failure` becomes a hook
of each of its dependencies, and `dsl.ExitHandler` one of the handler's node. All names here are those of steps, without
tries, which 2.17 numbers at every level.
"""

import re

from tfsteps.engines.argo.node_names import split
from tfsteps.engines.engine_objects import NodeNames

_ROOT, _LEAF = "root", "executor"
_CONDITIONS = re.compile(r"(\.condition(-branches)?-\d+)+$")


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


def scope(step: str) -> str:
    """Return the node that a task lies in: equal for the tasks of one pipeline or loop iteration.

    Conditions are no scopes of their own.

    Args:
        step: Such as `mnist-x2k4.root.for-loop-1.iteration-item(0:0).train.executor`.
    """
    parts = split(step)
    if len(parts) > 1 and parts[-1] == _LEAF:
        del parts[-1]
    return _CONDITIONS.sub("", ".".join(parts[:-1]))


NODE_NAMES = NodeNames(task_name, is_driver)

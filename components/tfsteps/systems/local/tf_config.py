"""TF_CONFIG in TensorFlow's format."""

import json
from collections.abc import Mapping, Sequence

from tfsteps.runs.events import Replica


def tf_config(cluster: Mapping[str, Sequence[str]], replica: Replica) -> str:
    """Return the value of TF_CONFIG for one replica.

    An evaluator gets the cluster, but is not part of it: a parameter-server chief would wait for it for ever.

    Args:
        cluster: The `host:port` addresses of each role, by index; without the evaluator.
        replica: The replica.
    """
    task = {"type": replica.role, "index": replica.index}
    return json.dumps({"cluster": dict(cluster), "task": task, "environment": "cloud"})

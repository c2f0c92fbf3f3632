"""Writes an imported job as a program that defines a pipeline. Pure."""

import pprint
from collections.abc import Mapping
from typing import Any

_WIDTH = 100


def program(job: Mapping[str, Any], system: str) -> str:
    """Return a program of Kubeflow Pipelines with one step `train`; see `ImportWriter`."""
    argument = f', system="{system}"' if system else ""
    return (
        "\nfrom kfp import dsl\nfrom tfsteps.kfp import train\n\n"
        f"JOB = {pprint.pformat(job, sort_dicts=False, width=_WIDTH)}\n\n\n"
        f'@dsl.pipeline(name="{job["name"]}")\n'
        "def pipeline() -> None:\n"
        f"    train(spec=JOB{argument})\n"
    )

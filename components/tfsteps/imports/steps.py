"""Writes an imported job as a pipeline of one step, for an engine. Pure."""

import json
import pprint
import textwrap
from collections.abc import Callable, Mapping

from tfsteps.imports.draft import Imported
from tfsteps.imports.write import one_line
from tfsteps.spec import dotted

_WIDTH = 100


def kfp_program(job: Imported) -> str:
    """Return a program of Kubeflow Pipelines with one step `train`."""
    name = str(job.job["name"])
    system = f', system="{job.system}"' if job.system else ""
    return (
        f"{_head(job)}\nfrom kfp import dsl\nfrom tfsteps.kfp import train\n\n"
        f"JOB = {pprint.pformat(job.job, sort_dicts=False, width=_WIDTH)}\n\n\n"
        f'@dsl.pipeline(name="{name}")\n'
        "def pipeline() -> None:\n"
        f"    train(spec=JOB{system})\n"
    )


def argo_workflow(job: Imported) -> str:
    """Return a Workflow of Argo with one step `train`."""
    name = job.job["name"]
    system = f"\n          - {{name: system, value: {job.system}}}" if job.system else ""
    text = textwrap.indent(json.dumps(job.job, indent=2, ensure_ascii=False), " " * 14)
    return f"""{_head(job)}apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {{generateName: {name}-}}
spec:
  entrypoint: main
  serviceAccountName: argo-workflow
  templates:
  - name: main
    dag:
      tasks:
      - name: {name}
        templateRef: {{name: tfsteps, template: train}}
        arguments:
          parameters:{system}
          - name: spec
            value: |
{text}
"""


def _head(job: Imported) -> str:
    lines = [f"{job.source}, imported by tfsteps", *(f"{dotted(path)}: {why}" for path, why in job.comments.items())]
    return "".join(f"# {one_line(line)}\n" for line in lines)


WRITERS: Mapping[str, tuple[Callable[[Imported], str], str]] = {
    "kfp": (kfp_program, ".py"),
    "argo": (argo_workflow, ".yaml"),
}
"""The writer of an engine's pipeline, and the end of its file's name."""

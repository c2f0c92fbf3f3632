"""Writes an imported job as a Workflow. Pure."""

import json
import textwrap
from collections.abc import Mapping
from typing import Any


def workflow(job: Mapping[str, Any], system: str) -> str:
    """Return a Workflow with one step `train`; see `ImportWriter`."""
    name = job["name"]
    parameter = f"\n          - {{name: system, value: {system}}}" if system else ""
    text = textwrap.indent(json.dumps(job, indent=2, ensure_ascii=False), " " * 14)
    return f"""apiVersion: argoproj.io/v1alpha1
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
          parameters:{parameter}
          - name: spec
            value: |
{text}
"""

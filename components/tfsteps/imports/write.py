"""Writes an imported job as the text of a job file, or as a pipeline of one step for an engine. Pure."""

import json
import pprint
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from tfsteps.imports.draft import Imported
from tfsteps.spec import dotted, yaml_text
from tfsteps.text.terminal import escaped

_WIDTH = 120

_PROGRAM_WIDTH = 100


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as such, and no aliases."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def one_line(text: str) -> str:
    """Return a text for a comment: names and conditions of a manifest may have several lines."""
    return escaped(" ".join(text.split()))


def job_file(job: Imported) -> str:
    """Return the text of a job file: short, with a comment above each field that was decided."""
    text = yaml.dump(
        job.job, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=_WIDTH
    )
    lines = text.splitlines()
    at = yaml_text.parse(text).lines
    comments: dict[int, list[str]] = {}
    for path, reason in job.comments.items():
        if path in at:
            comments.setdefault(at[path] - 1, []).append(one_line(reason))
    written = [f"# {one_line(job.source)}, imported by tfsteps"]
    for number, line in enumerate(lines):
        indent = line[: len(line) - len(line.lstrip())]
        written += [f"{indent}# {reason}" for reason in comments.get(number, [])]
        written.append(line)
    return "\n".join(written) + "\n"


def kfp_program(job: Imported) -> str:
    """Return a program of Kubeflow Pipelines with one step `train`."""
    name = str(job.job["name"])
    system = f', system="{job.system}"' if job.system else ""
    return (
        f"{_comments(job)}\nfrom kfp import dsl\nfrom tfsteps.kfp import train\n\n"
        f"JOB = {pprint.pformat(job.job, sort_dicts=False, width=_PROGRAM_WIDTH)}\n\n\n"
        f'@dsl.pipeline(name="{name}")\n'
        "def pipeline() -> None:\n"
        f"    train(spec=JOB{system})\n"
    )


def argo_workflow(job: Imported) -> str:
    """Return a Workflow of Argo with one step `train`."""
    name = job.job["name"]
    system = f"\n          - {{name: system, value: {job.system}}}" if job.system else ""
    text = textwrap.indent(json.dumps(job.job, indent=2, ensure_ascii=False), " " * 14)
    return f"""{_comments(job)}apiVersion: argoproj.io/v1alpha1
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


def _comments(job: Imported) -> str:
    lines = [f"{job.source}, imported by tfsteps", *(f"{dotted(path)}: {why}" for path, why in job.comments.items())]
    return "".join(f"# {one_line(line)}\n" for line in lines)


WRITERS: Mapping[str, tuple[Callable[[Imported], str], str]] = {
    "kfp": (kfp_program, ".py"),
    "argo": (argo_workflow, ".yaml"),
}
"""The writer of an engine's pipeline, and the end of its file's name."""

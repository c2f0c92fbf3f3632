"""Writes an imported job as the text of a job file, or as a pipeline of one step for an engine. Pure."""

from typing import Any

import yaml

from tfsteps.engines.plugin import ImportWriter
from tfsteps.spec import dotted, yaml_text
from tfsteps.systems.manifest.draft import Imported
from tfsteps.text.terminal import escaped

_WIDTH = 120


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


def pipeline(job: Imported, writer: ImportWriter) -> str:
    """Return the text of a pipeline with one step `train`, with what was decided as comments at its start."""
    lines = [f"{job.source}, imported by tfsteps", *(f"{dotted(path)}: {why}" for path, why in job.comments.items())]
    return "".join(f"# {one_line(line)}\n" for line in lines) + writer.write(job.job, job.system)

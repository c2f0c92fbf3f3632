"""The pipelines of the platform, for `tfsteps import`, and how long it keeps ended jobs."""

import json
from typing import Any

from tfsteps.imports.read import ImportedPipeline
from tfsteps.janitor.rules import DefaultRetention

RETENTION = DefaultRetention(succeeded=3600.0, failed=86_400.0)


def read_pipelines(document: Any) -> list[ImportedPipeline]:
    """Return the pipeline of a document; empty = it is none of a toybox."""
    if not isinstance(document, dict) or "toys" not in document:
        return []
    name = document["name"]
    template = {"name": "main", "container": {"image": "busybox:1.36", "command": ["play", *document["toys"]]}}
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": f"{name}-"},
        "spec": {"entrypoint": "main", "templates": [template]},
    }
    return [ImportedPipeline(name, f"pipeline {name} of a toybox", "argo", json.dumps(workflow) + "\n", [])]

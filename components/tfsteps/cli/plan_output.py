"""Prints what `tfsteps run --dry-run` would start."""

import json
import sys
from typing import Any

import msgspec

from tfsteps.api.plan import Plan
from tfsteps.console.messages import say, warn
from tfsteps.console.outputs import print_json
from tfsteps.systems import registry
from tfsteps.text.streams import takes_any


def print_plan(plan: Plan, *, as_json: bool) -> None:
    """Print what would be started: objects for kubectl, or the processes of a local run."""
    objects = json.loads(msgspec.json.encode(plan.system.plan(plan.job, plan.identity, plan.places)))
    if all("apiVersion" in item for item in objects):
        for warning in plan.system.warnings(plan.job):
            warn(warning)
        if note := registry.plugin(plan.system.name).plan_note:
            say(note)
        documents = objects
    else:
        documents = [_described(plan, objects)]
    if not as_json:
        import yaml  # noqa: PLC0415  commands start faster without it

        print(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=takes_any(sys.stdout)), end="")
    elif len(documents) == 1:
        print_json(documents[0])
    else:
        print_json({"apiVersion": "v1", "kind": "List", "items": documents})


def print_job_file(plan: Plan) -> None:
    """Print the job file of a job that has none, as a comment."""
    import yaml  # noqa: PLC0415  as above

    source = plan.job.code_source  # the folder, not its hash: the file may be used on another machine
    code = msgspec.structs.replace(source, digest=None) if source and source.bucket else source and source.folder
    job = msgspec.structs.replace(plan.job, code=code)
    text = yaml.safe_dump(
        msgspec.to_builtins(job), sort_keys=False, allow_unicode=takes_any(sys.stdout), default_flow_style=None
    )
    print("\n".join(["# job file:", *(f"#   {line}" for line in text.splitlines())]))


def _described(plan: Plan, objects: list[Any]) -> dict[str, Any]:
    return {
        "run": plan.identity.run,
        "task": plan.identity.task,
        "attempt": plan.identity.attempt,
        "system": plan.system.name,
        "output": plan.places.output,
        "model": plan.places.model,
        "logs": plan.places.logs,
        "warnings": plan.system.warnings(plan.job),
        "objects": objects,
    }

"""What the pipelines for Argo share: the steps around training as Hera templates, the claim, the command line."""

import argparse
import pathlib
from collections.abc import Mapping
from typing import Any

import digits_steps
import yaml
from hera.workflows import EmptyDirVolume, ExistingVolume, Parameter, Resources, Workflow
from step_program import MOUNT, Step, interface

from tfsteps import __version__, argo
from tfsteps.argo import ArgoStep

HERE = pathlib.Path(__file__).absolute().parent
# TensorFlow, tfsteps and the programs of this folder, which is where its commands start: Dockerfile.
IMAGE = f"tfsteps/digits:{__version__}"
CLAIM = "training"
"""Name of the PersistentVolumeClaim for data and results."""
ACCOUNT = "argo-workflow"
"""The ServiceAccount to which manifests/overlays/argo grants what the steps need."""

_CLAIM = "{{workflow.parameters.claim}}"


def job(name: str) -> dict[str, Any]:
    """Return the job description `jobs/<name>.yaml`, for the input `spec`; its replicas mount the claim."""
    fields = yaml.safe_load((HERE / "jobs" / f"{name}.yaml").read_text("utf-8"))
    return {**fields, "volumes": [{"pvc": _CLAIM, "mount": MOUNT}]}


def mounted(step: ArgoStep, **settings: Any) -> ArgoStep:
    """Return a step whose pods mount the claim: the launcher reads metrics and curves from there."""
    tmp = EmptyDirVolume(name="tmp", mount_path="/tmp")  # noqa: S108  the root file system is read-only
    claim = ExistingVolume(name="claim", claim_name=_CLAIM, mount_path=MOUNT)
    return step.using(volumes=[tmp, claim], volume_mounts=None, **settings)


def program(step: Step) -> ArgoStep:
    """Return one of the steps around training."""
    return mounted(
        ArgoStep(interface(step)),
        image=IMAGE,
        command=["python", "digits_steps.py", step.__name__],
        resources=Resources(cpu_request=0.1, memory_request="256Mi", memory_limit="2Gi"),
    )


prepare = program(digits_steps.prepare)
check = program(digits_steps.check)
evaluate = program(digits_steps.evaluate)
export = program(digits_steps.export)
best = program(digits_steps.best)
compare = program(digits_steps.compare)
promote = program(digits_steps.promote)
train = mounted(argo.train)


def workflow(name: str, description: str, inputs: Mapping[str, tuple[Any, str]]) -> Workflow:
    """Return a Workflow whose entrypoint is `main`.

    Args:
        name: Stem of its name.
        description: For people.
        inputs: By name: the default, and what it means.
    """
    return Workflow(
        generate_name=f"{name}-",
        entrypoint="main",
        service_account_name=ACCOUNT,
        annotations={"workflows.argoproj.io/description": description},
        arguments=[
            Parameter(name=name, value=default, description=description)
            for name, (default, description) in inputs.items()
        ],
    )


# --- the command line


def main(workflow: Workflow, program: str) -> None:
    """Print a Workflow's manifest, or write it to compiled/."""
    stem = pathlib.Path(program).stem.removesuffix("_argo")
    compiled = HERE / "compiled" / f"{stem}.argo.yaml"
    parser = argparse.ArgumentParser(description="Print the Workflow, to be submitted.")
    parser.add_argument("--compile", nargs="?", const=compiled, type=pathlib.Path, metavar="FILE", help="write it")
    options = parser.parse_args()
    text = workflow.to_yaml()
    if options.compile:
        options.compile.write_text(text, "utf-8")
    else:
        print(text, end="")

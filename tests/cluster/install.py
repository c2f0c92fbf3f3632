"""Argo Workflows and the job operators, installed as real pods from the manifests in their own modules."""

import shutil
import string
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from . import images, platforms
from .build import module_folder
from .paths import CACHE, HERE, KUBECONFIG


@dataclass(frozen=True)
class Image:
    """An image that holds one of the built programs; its tag is the version of its operator."""

    name: str
    program: str
    path: str
    user: int = 65532


@dataclass(frozen=True)
class Operator:
    """What `operators/<name>/kustomization.yaml` builds on, its images, and the Deployments that must come up."""

    manifests: str
    namespace: str
    deployments: tuple[str, ...]
    images: list[Image] = field(default_factory=list)


OPERATORS = {
    "argo": Operator(
        "manifests",
        "argo",
        ("workflow-controller",),
        [
            Image("quay.io/argoproj/workflow-controller", "workflow-controller", "bin/workflow-controller"),
            Image("quay.io/argoproj/argoexec", "argoexec", "bin/argoexec", user=0),
        ],
    ),
    "training-operator": Operator(
        "manifests",
        "kubeflow",
        ("training-operator",),
        [Image("docker.io/kubeflow/training-operator", "training-operator", "manager")],
    ),
    "jobset": Operator(
        "config",
        "jobset-system",
        ("jobset-controller-manager",),
        [Image("registry.k8s.io/jobset/jobset", "jobset-controller", "manager")],
    ),
    "trainer": Operator(
        "manifests",
        "kubeflow-system",
        ("kubeflow-trainer-controller-manager",),
        [Image("ghcr.io/kubeflow/trainer/trainer-controller-manager", "trainer-controller-manager", "manager")],
    ),
    "scheduler-plugins": Operator(
        "manifests",
        "scheduler-plugins",
        ("scheduler-plugins-scheduler", "scheduler-plugins-controller"),
        [
            Image("registry.k8s.io/scheduler-plugins/kube-scheduler", "gang-scheduler", "bin/kube-scheduler"),
            Image("registry.k8s.io/scheduler-plugins/controller", "gang-controller", "bin/controller"),
        ],
    ),
}


def kubectl(programs: Mapping[str, Path], *args: str, text: str | None = None) -> str:
    """Run kubectl as the cluster's administrator and return what it prints.

    Raises:
        SystemExit: it failed; the message is kubectl's own.
    """
    command = [str(programs["kubectl"]), "--kubeconfig", str(KUBECONFIG), *args]
    result = subprocess.run(command, check=False, input=text, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"cluster: kubectl {' '.join(args[:3])} failed: {result.stderr.strip()}")
    return result.stdout


def _render(name: str, programs: Mapping[str, Path]) -> str:
    operator, version = OPERATORS[name], platforms.versions()[name]
    work = CACHE / "work" / f"{name}-manifests"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(
        module_folder(name) / operator.manifests, work / "upstream" / operator.manifests, copy_function=shutil.copyfile
    )
    for file in (HERE / "operators" / name).iterdir():
        (work / file.name).write_text(string.Template(file.read_text()).substitute(VERSION=f"v{version}"))
    # One replica of each has nobody to elect, and each renews its lease every 2 s.
    return kubectl(programs, "kustomize", str(work)).replace("leaderElect: true", "leaderElect: false")


def install(names: Sequence[str], programs: Mapping[str, Path]) -> None:
    """Load operators' images and apply their manifests; `wait` tells when one is ready."""
    with ThreadPoolExecutor() as pool:
        rendered = [pool.submit(_render, name, programs) for name in names]
        loaded = [pool.submit(_load, name, image, programs) for name in names for image in OPERATORS[name].images]
        for future in loaded:
            future.result()
    for name, manifests in zip(names, rendered, strict=True):
        _apply(name, manifests.result(), programs)  # in order: Trainer looks for the APIs of the others as it starts


def _load(operator: str, image: Image, programs: Mapping[str, Path]) -> None:
    reference = f"{image.name}:v{platforms.versions()[operator]}"
    images.load_programs(
        reference, {image.path: programs[image.program]}, [f"/{image.path}"], image.user, entrypoint=True
    )


def _apply(name: str, manifests: str, programs: Mapping[str, Path]) -> None:
    operator = OPERATORS[name]
    namespace = f'{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{operator.namespace}"}}}}'
    kubectl(programs, "apply", "-f", "-", text=namespace)
    kubectl(programs, "apply", "--server-side", "--force-conflicts", "-f", "-", text=manifests)


def wait(name: str, programs: Mapping[str, Path], timeout: int = 120) -> None:
    """Wait until an operator's Deployments are available (its webhooks answer then)."""
    operator = OPERATORS[name]
    for deployment in operator.deployments:
        kubectl(
            programs, "-n", operator.namespace, "rollout", "status", f"deployment/{deployment}", f"--timeout={timeout}s"
        )

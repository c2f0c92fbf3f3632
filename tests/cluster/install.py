"""Argo Workflows and the job operators, installed as real pods from the manifests in their own modules."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from . import images
from .build import ARGO, module_folder
from .paths import CACHE, HERE, KUBECONFIG


@dataclass(frozen=True)
class Image:
    """An image that holds one of the built programs."""

    reference: str
    program: str
    path: str
    user: int = 65532


@dataclass(frozen=True)
class Operator:
    """What `operators/<name>/kustomization.yaml` builds on, its images, and the Deployments that must come up."""

    module: str
    manifests: str
    namespace: str
    deployments: tuple[str, ...]
    images: list[Image] = field(default_factory=list)


OPERATORS = {
    "argo": Operator(
        "github.com/argoproj/argo-workflows/v3",
        "manifests",
        "argo",
        ("workflow-controller",),
        [
            Image(f"quay.io/argoproj/workflow-controller:{ARGO}", "workflow-controller", "bin/workflow-controller"),
            Image(f"quay.io/argoproj/argoexec:{ARGO}", "argoexec", "bin/argoexec", user=0),
        ],
    ),
    "training-operator": Operator(
        "github.com/kubeflow/training-operator",
        "manifests",
        "kubeflow",
        ("training-operator",),
        [Image("docker.io/kubeflow/training-operator:v1.8.1", "training-operator", "manager")],
    ),
    "jobset": Operator(
        "sigs.k8s.io/jobset",
        "config",
        "jobset-system",
        ("jobset-controller-manager",),
        [Image("registry.k8s.io/jobset/jobset:v0.10.1", "jobset-controller", "manager")],
    ),
    "trainer": Operator(
        "github.com/kubeflow/trainer/v2",
        "manifests",
        "kubeflow-system",
        ("kubeflow-trainer-controller-manager",),
        [Image("ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.0.0", "trainer-controller-manager", "manager")],
    ),
    "scheduler-plugins": Operator(
        "sigs.k8s.io/scheduler-plugins",
        "manifests",
        "scheduler-plugins",
        ("scheduler-plugins-scheduler", "scheduler-plugins-controller"),
        [
            Image("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.28.9", "gang-scheduler", "bin/kube-scheduler"),
            Image("registry.k8s.io/scheduler-plugins/controller:v0.28.9", "gang-controller", "bin/controller"),
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
    operator = OPERATORS[name]
    work = CACHE / "work" / f"{name}-manifests"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(HERE / "operators" / name, work)
    shutil.copytree(
        module_folder(name, operator.module) / operator.manifests,
        work / "upstream" / operator.manifests,
        copy_function=shutil.copyfile,
    )
    return kubectl(programs, "kustomize", str(work))


def install(names: Sequence[str], programs: Mapping[str, Path]) -> None:
    """Load operators' images and apply their manifests; `wait` tells when one is ready."""
    with ThreadPoolExecutor() as pool:
        rendered = [pool.submit(_render, name, programs) for name in names]
        loaded = [pool.submit(_load, image, programs) for name in names for image in OPERATORS[name].images]
        for future in loaded:
            future.result()
    for name, manifests in zip(names, rendered, strict=True):
        _apply(name, manifests.result(), programs)  # in order: Trainer looks for the APIs of the others as it starts


def _load(image: Image, programs: Mapping[str, Path]) -> None:
    images.load_programs(image.reference, {image.path: programs[image.program]}, [f"/{image.path}"], image.user)


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

"""Build Kubernetes, Argo Workflows and the job operators from Go modules into a per-user cache.

Every folder under `go/` is one module of its own, because their Kubernetes versions differ. A build is kept under a key
made of the module's files, the flags and the Go version, so a second call costs nothing and an interrupted one leaves
nothing half made.
"""

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .paths import CACHE, HERE

KUBERNETES = "v1.34.4"
ARGO = "v3.7.3"


@dataclass(frozen=True)
class Module:
    """A Go module to build: its folder under `go/`, the programs, linker variables, and what must be patched first."""

    folder: str
    programs: dict[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], Path] | None = None


def _argo_with_linux_signals(folder: Path) -> Path:
    """Return a module folder that builds argoexec on Linux.

    Argo keeps `signal_linux.go` as a symbolic link, and Go's module archives leave links out. Files of the module cache
    may not be overlaid, so the module is copied, the link's target put in its place, and a `replace` points there.
    """
    work = CACHE / "work" / f"argo-{ARGO}"
    source = work / "source"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(
        module_folder("argo", "github.com/argoproj/argo-workflows/v3"), source, copy_function=shutil.copyfile
    )
    signals = source / "workflow/executor/osspecific"
    shutil.copyfile(signals / "signal_darwin.go", signals / "signal_linux.go")
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(folder / name, work / name)
    go(work, "mod", "edit", f"-replace=github.com/argoproj/argo-workflows/v3={source}")
    return work


MODULES = [
    Module("pause", {"pause": "."}),
    Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module("dns", {"dns": "."}),
    Module(
        "kubernetes",
        {
            n: f"k8s.io/kubernetes/cmd/{n}"
            for n in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")
        },
        {
            f"k8s.io/component-base/version.{k}": v
            for k, v in {"gitVersion": KUBERNETES, "gitMajor": "1", "gitMinor": "34"}.items()
        },
    ),
    Module(
        "argo",
        {n: f"github.com/argoproj/argo-workflows/v3/cmd/{n}" for n in ("workflow-controller", "argoexec")},
        {
            f"github.com/argoproj/argo-workflows/v3.{k}": v
            for k, v in {"version": ARGO, "gitTag": ARGO, "gitCommit": "0000000", "gitTreeState": "clean"}.items()
        },
        _argo_with_linux_signals,
    ),
    Module(
        "training-operator", {"training-operator": "github.com/kubeflow/training-operator/cmd/training-operator.v1"}
    ),
    Module("jobset", {"jobset-controller": "sigs.k8s.io/jobset"}),
    Module("trainer", {"trainer-controller-manager": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"}),
    Module(
        "scheduler-plugins",
        {"gang-scheduler": ".", "gang-controller": "sigs.k8s.io/scheduler-plugins/cmd/controller"},
    ),
]
_AT_ONCE = 2  # modules: one is fetched, or linked by a single thread, while the other compiles
_KUBERNETES = {"pause", "etcd", "dns", "kubernetes"}  # what every cluster is made of; the rest are operators


def go(folder: Path, *args: str) -> str:
    """Run the go command in a module folder and return what it prints; its errors pass through."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    return subprocess.run(
        ["go", *args], cwd=folder, env=environment, check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()


def module_folder(folder: str, module: str) -> Path:
    """Return where the go command keeps the files of a module that `go/<folder>` requires: its manifests are there."""
    go(HERE / "go" / folder, "mod", "download", module)
    return Path(go(HERE / "go" / folder, "list", "-m", "-f", "{{.Dir}}", module))


def _key(module: Module, version: str) -> str:
    digest = hashlib.sha256(f"{version}{module.programs}{module.variables}".encode())
    for file in sorted((HERE / "go" / module.folder).iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _build(module: Module, target: Path) -> None:
    folder = HERE / "go" / module.folder
    if module.prepare:
        folder = module.prepare(folder)
    linker = " ".join(["-s", "-w", *(f"-X {k}={v}" for k, v in module.variables.items())])
    part = target.with_name(target.name + f".part{os.getpid()}")
    part.mkdir(parents=True)
    for name, package in module.programs.items():
        go(folder, "build", "-trimpath", f"-ldflags={linker}", "-o", str(part / name), package)
    part.rename(target)


def _built(module: Module, version: str) -> Path:
    """Return the folder of a module's programs, built now if that was not done before."""
    target = CACHE / "bin" / f"{module.folder}-{_key(module, version)}"
    if not target.exists():
        print(f"cluster: building {', '.join(module.programs)} ...", flush=True)
        start = time.monotonic()
        _build(module, target)
        print(f"cluster: built {module.folder} in {time.monotonic() - start:.0f} s", flush=True)
    return target


def build(operators: Iterable[str] = ()) -> dict[str, Path]:
    """Build what is missing of Kubernetes and the operators that are named; return their programs by name."""
    if not shutil.which("go"):
        raise SystemExit(
            "cluster: the Go toolchain (1.25 or newer) is needed to build the cluster; "
            "install it, or set KUBECONFIG to use another cluster"
        )
    version = go(HERE, "version")
    wanted = [module for module in MODULES if module.folder in _KUBERNETES or module.folder in operators]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        folders = list(pool.map(lambda module: _built(module, version), wanted))
    return {name: folder / name for module, folder in zip(wanted, folders, strict=True) for name in module.programs}

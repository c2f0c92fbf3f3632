"""Build Kubernetes, Argo Workflows and the job operators from Go modules into a per-user cache.

Every folder under `go/` is one version of one part, and a module of its own, because their Kubernetes versions differ.
A build is kept under a key made of the module's files, the flags and the Go version: a second call costs nothing, the
builds of several platforms lie side by side, and an interrupted one leaves nothing half made.
"""

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from . import platforms
from .paths import CACHE, HERE


@dataclass(frozen=True)
class Module:
    """A Go module to build.

    Attributes:
        name: What it is called in `platforms.py`.
        version: Its version.
        path: The Go module that it is about.
        programs: The packages to build, by the names of their programs.
        variables: Linker variables.
        prepare: Returns a patched copy of the folder, to build in its place.
    """

    name: str
    version: str
    path: str
    programs: dict[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    prepare: "Callable[[Module], Path] | None" = None

    @property
    def folder(self) -> Path:
        """Its folder under `go/`."""
        return HERE / "go" / f"{self.name}-{self.version}"


def _argo_with_linux_signals(module: Module) -> Path:
    """Return a module folder that builds argoexec on Linux.

    Argo keeps `signal_linux.go` as a symbolic link, and Go's module archives leave links out. Files of the module cache
    may not be overlaid, so the module is copied, the link's target put in its place, and a `replace` points there.
    """
    work = CACHE / "work" / module.folder.name
    source = work / "source"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(_files(module), source, copy_function=shutil.copyfile)
    signals = source / "workflow/executor/osspecific"
    shutil.copyfile(signals / "signal_darwin.go", signals / "signal_linux.go")
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(module.folder / name, work / name)
    go(work, "mod", "edit", f"-replace={module.path}={source}")
    return work


_NODE = ("pause", "etcd", "dns", "kubernetes")  # what every cluster is made of; the rest are operators
_AT_ONCE = 2  # modules: one is fetched, or linked by a single thread, while the other compiles


def modules(v: Mapping[str, str]) -> list[Module]:
    """Return what a platform of these versions is built from."""
    kubernetes, argo = f"v{v['kubernetes']}", f"v{v['argo']}"
    argo_module = f"github.com/argoproj/argo-workflows/{argo.partition('.')[0]}"
    operator, trainer = "github.com/kubeflow/training-operator", "github.com/kubeflow/trainer/v2"
    return [
        Module("pause", v["pause"], "", {"pause": "."}),
        Module("etcd", v["etcd"], "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"}),
        Module("dns", v["dns"], "github.com/coredns/coredns", {"dns": "."}),
        Module(
            "kubernetes",
            v["kubernetes"],
            "k8s.io/kubernetes",
            {
                n: f"k8s.io/kubernetes/cmd/{n}"
                for n in (
                    "kube-apiserver",
                    "kube-controller-manager",
                    "kube-scheduler",
                    "kubelet",
                    "kube-proxy",
                    "kubectl",
                )
            },
            {
                f"k8s.io/component-base/version.{k}": v
                for k, v in {"gitVersion": kubernetes, "gitMajor": "1", "gitMinor": kubernetes.split(".")[1]}.items()
            },
        ),
        Module(
            "argo",
            v["argo"],
            argo_module,
            {n: f"{argo_module}/cmd/{n}" for n in ("workflow-controller", "argoexec")},
            {
                f"{argo_module}.{k}": v
                for k, v in {"version": argo, "gitTag": argo, "gitCommit": "0000000", "gitTreeState": "clean"}.items()
            },
            _argo_with_linux_signals,
        ),
        Module(
            "training-operator",
            v["training-operator"],
            operator,
            {"training-operator": f"{operator}/cmd/training-operator.v1"},
        ),
        Module("jobset", v["jobset"], "sigs.k8s.io/jobset", {"jobset-controller": "sigs.k8s.io/jobset"}),
        Module(
            "trainer",
            v["trainer"],
            trainer,
            {"trainer-controller-manager": f"{trainer}/cmd/trainer-controller-manager"},
        ),
        Module(
            "scheduler-plugins",
            v["scheduler-plugins"],
            "sigs.k8s.io/scheduler-plugins",
            {"gang-scheduler": ".", "gang-controller": "sigs.k8s.io/scheduler-plugins/cmd/controller"},
        ),
    ]


def go(folder: Path, *args: str) -> str:
    """Run the go command in a module folder and return what it prints; its errors pass through."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    return subprocess.run(
        ["go", *args], cwd=folder, env=environment, check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()


def module_folder(name: str, versions: Mapping[str, str] | None = None) -> Path:
    """Return where the go command keeps the files of a part: of these versions, else of the started cluster."""
    return _files(next(module for module in modules(versions or platforms.versions()) if module.name == name))


def _files(module: Module) -> Path:
    go(module.folder, "mod", "download", module.path)
    return Path(go(module.folder, "list", "-m", "-f", "{{.Dir}}", module.path))


def _key(module: Module, version: str) -> str:
    digest = hashlib.sha256(f"{version}{module.programs}{module.variables}".encode())
    for file in sorted(module.folder.iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _build(module: Module, target: Path) -> None:
    folder = module.prepare(module) if module.prepare else module.folder
    linker = " ".join(["-s", "-w", *(f"-X {k}={v}" for k, v in module.variables.items())])
    part = target.with_name(target.name + f".part{os.getpid()}")
    part.mkdir(parents=True)
    for name, package in module.programs.items():
        go(folder, "build", "-trimpath", f"-ldflags={linker}", "-o", str(part / name), package)
    part.rename(target)


def _built(module: Module, version: str) -> Path:
    """Return the folder of a module's programs, built now if that was not done before."""
    target = CACHE / "bin" / f"{module.name}-{_key(module, version)}"
    if not target.exists():
        print(f"cluster: building {', '.join(module.programs)} ...", flush=True)
        start = time.monotonic()
        _build(module, target)
        print(f"cluster: built {module.folder.name} in {time.monotonic() - start:.0f} s", flush=True)
    return target


def build(operators: Iterable[str] = (), versions: Mapping[str, str] | None = None) -> dict[str, Path]:
    """Build what is missing of Kubernetes and the operators that are named; return their programs by name.

    The versions are those of the cluster that was started, unless others are given.
    """
    if not shutil.which("go"):
        raise SystemExit(
            "cluster: the Go toolchain (1.26 or newer) is needed to build the cluster; "
            "install it, or set KUBECONFIG to use another cluster"
        )
    version = go(HERE, "version")
    selected = [m for m in modules(versions or platforms.versions()) if m.name in _NODE or m.name in operators]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        folders = list(pool.map(lambda module: _built(module, version), selected))
    return {name: folder / name for module, folder in zip(selected, folders, strict=True) for name in module.programs}

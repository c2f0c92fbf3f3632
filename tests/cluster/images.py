"""Container images without a registry: written here or built by podman from Dockerfiles, and loaded into containerd."""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .paths import CACHE, CONTAINERD, STATE

PAUSE = "localhost/pause:1"
BUSYBOX = "docker.io/library/busybox:latest"
PYTHON = (
    "docker.io/library/python:3.11-slim-bookworm"  # what Dockerfiles name in FROM; made here from Debian's packages
)
_APPLETS = [
    "sh",
    "cat",
    "cp",
    "date",
    "echo",
    "env",
    "false",
    "grep",
    "head",
    "hostname",
    "id",
    "ip",
    "kill",
    "ls",
    "mkdir",
    "nc",
    "nslookup",
    "ps",
    "rm",
    "sed",
    "seq",
    "sleep",
    "tail",
    "touch",
    "true",
    "wget",
]
_CONTAINERS_CONF = (
    '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n[engine]\nruntime = "runc"\n'
)


def _layer(files: dict[str, Path], links: dict[str, str]) -> bytes:
    """Return a root file system as a tar: programs at the given paths, symbolic links, /tmp and a passwd file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, source in files.items():
            tar.add(source, path)
        for path, target in links.items():
            link = tarfile.TarInfo(path)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        directory = tarfile.TarInfo("tmp")
        directory.type, directory.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(directory)
        users = b"root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532:nonroot:/tmp:/bin/sh\n"
        passwd = tarfile.TarInfo("etc/passwd")
        passwd.size = len(users)
        tar.addfile(passwd, io.BytesIO(users))
    return buffer.getvalue()


def _archive(reference: str, layer: bytes, config: dict[str, object], path: Path) -> str:
    """Write a one-layer image in the docker-archive form, and return its id, the digest of its content."""
    digest = hashlib.sha256(layer).hexdigest()
    image = {
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    text = json.dumps(image).encode()
    identity = hashlib.sha256(text).hexdigest()
    name = f"{identity}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [reference], "Layers": [f"{digest}.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for member, data in ((name, text), (f"{digest}.tar", layer), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return f"sha256:{identity}"


def load_archive(path: Path) -> None:
    """Load an image archive (docker or OCI form) into the node's containerd."""
    subprocess.run(
        ["ctr", "-a", str(CONTAINERD), "-n", "k8s.io", "images", "import", str(path)],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def load_programs(
    reference: str,
    programs: dict[str, Path],
    command: list[str],
    user: int = 0,
    *,
    busybox: bool = True,
    entrypoint: bool = False,
) -> None:
    """Load an image holding static programs, over busybox unless told otherwise.

    `programs` maps paths in the image to files of this machine; `user` is the number that `runAsNonRoot` looks at;
    with `entrypoint` the command is that of the image whatever arguments a container has.
    """
    files, links = dict(programs), {}
    if busybox:
        files["bin/busybox"] = Path(shutil.which("busybox") or "/bin/busybox")
        links = {f"bin/{applet}": "busybox" for applet in _APPLETS}
    field = "Entrypoint" if entrypoint else "Cmd"
    config: dict[str, object] = {field: command, "User": str(user), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]}
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "image.tar"
        print(reference, _archive(reference, _layer(files, links), config, archive), flush=True)
        load_archive(archive)


def _podman(*args: str | Path) -> None:
    conf = CACHE / "containers.conf"
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text(_CONTAINERS_CONF)
    environment = {**os.environ, "CONTAINERS_CONF": str(conf)}
    subprocess.run(["podman", *map(str, args)], check=True, env=environment, stdin=subprocess.DEVNULL)


def _python_base() -> None:
    """Make the Python base image from Debian's packages, once: no registry can be reached for the official one."""
    if subprocess.run(["podman", "image", "exists", PYTHON], check=False).returncode == 0:
        return
    root = CACHE / "python-base.tar"
    if not root.exists():
        part = root.with_suffix(".part.tar")
        packages = "python3,python3-pip,python3-venv,python-is-python3,ca-certificates"
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={packages}", "bookworm", str(part)], check=True
        )
        part.rename(root)
    _podman("import", root, PYTHON)


def copied(dockerfile: Path, context: Path) -> list[Path]:
    """Return the files that a Dockerfile copies from its context, in an order that lasts."""
    lines = [line.split()[1:] for line in dockerfile.read_text().splitlines() if line.startswith("COPY ")]
    named = [path for *sources, _ in lines for source in sources for path in sorted(context.glob(source.rstrip("/")))]
    files = [file for path in named for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return [file for file in files if file.is_file() and "__pycache__" not in file.parts]


def provide_own(name: str, dockerfile: Path, context: Path) -> str:
    """Return the image that TFSTEPS_<NAME>_IMAGE names, else the one of a Dockerfile, built once for its content."""
    if image := os.environ.get(f"TFSTEPS_{name.upper()}_IMAGE"):  # where the cluster is not of this machine
        return image
    content = b"".join(file.read_bytes() for file in [dockerfile, *copied(dockerfile, context)])
    reference = f"registry.local/tfsteps-{name}:{hashlib.sha256(content).hexdigest()[:12]}"
    provide_image(reference, context, dockerfile)
    return reference


def build_image(reference: str, folder: Path, dockerfile: Path | None) -> None:
    """Build a Dockerfile with podman, on this machine's network and certificates, and load it into the node."""
    with _locked(PYTHON):
        _python_base()
    certificates = Path("/etc/ssl/certs")
    options: list[str | Path] = [
        "--pull=never",
        "--network=host",
        "-v",
        f"{certificates}:{certificates}:ro",
        "--env",
        f"PIP_CERT={certificates}/ca-certificates.crt",
    ]
    _podman("build", *options, "-t", reference, "-f", dockerfile or folder / "Dockerfile", folder)
    for name in (PYTHON, reference):  # no registry has a digest of either
        _podman("image", "inspect", "--format", f"{name} sha256:{{{{.Id}}}}", name)
    load_image(reference)


def provide_image(reference: str, folder: Path, dockerfile: Path) -> None:
    """Build an image unless the node has it; of processes that ask at once, one builds and the others wait."""
    with _locked(reference):
        if not on_node(reference):
            build_image(reference, folder, dockerfile)


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    """Let one process at a time build what is called so; other things are built beside it."""
    locks = CACHE / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / hashlib.sha256(name.encode()).hexdigest()[:16]).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def load_image(reference: str) -> None:
    """Copy an image from podman's store into the node's containerd."""
    with tempfile.TemporaryDirectory(dir=STATE) as folder:
        archive = Path(folder) / "image.tar"
        _podman("save", "--quiet", "--format", "docker-archive", "-o", archive, reference)
        load_archive(archive)


def on_node(reference: str) -> bool:
    """Tell whether the node's containerd has an image."""
    command = ["ctr", "-a", str(CONTAINERD), "-n", "k8s.io", "images", "list", "-q", f"name=={reference}"]
    return bool(subprocess.run(command, check=False, capture_output=True).stdout.strip())


def load(source: str) -> None:
    """Load an image of podman's store, or an archive of one."""
    if Path(source).exists():
        load_archive(Path(source))
    else:
        load_image(source)

"""A real single-node Kubernetes with Argo Workflows and the TensorFlow job operators, on a bare Debian machine."""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import images, install, node, platforms
from .build import build
from .paths import CACHE, KUBECONFIG, STATE

# What tells that a package is there (a command, or a path): the package.
_PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "socat": "socat",
    "curl": "curl",
    "openssl": "openssl",
    "/usr/share/doc/busybox-static": "busybox-static",  # plain busybox is linked dynamically
    "podman": "podman",
    "catatonit": "catatonit",
    "/usr/lib/podman/netavark": "netavark",
    "mmdebstrap": "mmdebstrap",
}


def install_packages() -> None:
    """Install the Debian packages that are missing.

    Raises:
        SystemExit: something is missing and this user or system can't install it.

    """
    missing = sorted(package for sign, package in _PACKAGES.items() if not (shutil.which(sign) or Path(sign).exists()))
    if not missing:
        return
    if os.geteuid() or not shutil.which("apt-get"):
        raise SystemExit(
            f"cluster: these Debian packages are needed: {' '.join(missing)}; "
            "install them, or set KUBECONFIG to use another cluster"
        )
    print(f"cluster: installing {' '.join(missing)} ...", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-q"], ["install", "-qy", "--no-install-recommends", *missing]):
        subprocess.run(
            ["apt-get", *command], check=True, env=environment, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )


def up(operators: list[str], platform: str | None = None) -> None:
    """Start what does not run yet, install the operators, wait until all is ready, and print the kubeconfig's path."""
    if os.geteuid():
        raise SystemExit("cluster: starting a node needs root; set KUBECONFIG to use another cluster")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:  # somebody else may be at it
        fcntl.flock(lock, fcntl.LOCK_EX)
        platform = platforms.check(platform)
        install_packages()
        _start(operators, platform, build(operators, platforms.PLATFORMS[platform]))
    print(KUBECONFIG)


def _start(operators: list[str], platform: str, programs: dict[str, Path]) -> None:
    begin = time.monotonic()
    node.prepare()
    platforms.mark(platform)
    for component in node.components(programs):
        node.start(component)
        if component.name == "containerd":
            images.load_programs(images.PAUSE, {"pause": programs["pause"]}, ["/pause"], 65532, busybox=False)
            images.load_programs(images.BUSYBOX, {}, ["sh"])
    install.kubectl(programs, "apply", "-f", str(STATE / "dns.yaml"))
    print(f"cluster: Kubernetes is ready after {time.monotonic() - begin:.1f} s", flush=True)
    marks = {name: STATE / f"{name}.installed" for name in operators}
    install.install([name for name in operators if not marks[name].exists()], programs)

    def wait(name: str) -> None:
        install.wait(name, programs)
        if not marks[name].exists():
            marks[name].touch()
            print(f"cluster: {name} is ready after {time.monotonic() - begin:.1f} s", flush=True)

    with ThreadPoolExecutor() as pool:
        for waiting in [pool.submit(wait, name) for name in operators]:
            waiting.result()


def status() -> int:
    """Print the platform, and each component and whether it runs; 0 when all do. Builds nothing to tell that."""
    if not STATE.exists():
        print("the cluster is not started")
        return 1
    print(
        f"platform {platforms.started()}:", ", ".join(f"{n} {version}" for n, version in platforms.versions().items())
    )
    names = [c.name for c in node.components(build())]
    for name in names:
        number = node.pid(name)
        print(f"{name:20} {f'running, pid {number}' if number else 'stopped'}")
    return 0 if all(map(node.pid, names)) else 1


def change(action: str, name: str) -> None:
    """Start, stop, kill, restart, pause or resume one component, to see what others make of it; or print its log."""
    component = next((c for c in node.components(build()) if c.name == name), None)
    if component is None:
        raise SystemExit(f"cluster: no component {name!r}; `status` lists them")
    if action == "logs":
        print(node.log_tail(name, 200))
    if action in ("pause", "resume"):
        node.send(name, signal.SIGSTOP if action == "pause" else signal.SIGCONT)
    if action in ("stop", "kill", "restart"):
        node.stop(name, signal.SIGKILL if action == "kill" else signal.SIGTERM)
    if action in ("start", "restart"):
        node.start(component)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in {
        "build": "build what the cluster needs, without starting it",
        "up": "start the cluster and install the operators",
    }.items():
        command = commands.add_parser(name, help=text)
        command.add_argument(
            "--only",
            nargs="*",
            choices=sorted(install.OPERATORS),
            default=sorted(install.OPERATORS),
            help="just these operators (none: Kubernetes alone)",
        )
        command.add_argument("--platform", choices=platforms.PLATFORMS, help=f"default: {platforms.DEFAULT}")
    for name, text in {
        "down": "stop it and remove every trace",
        "status": "what runs",
        "kubeconfig": "print the kubeconfig's path",
    }.items():
        commands.add_parser(name, help=text)
    for name in ("start", "stop", "kill", "restart", "pause", "resume", "logs"):
        commands.add_parser(name, help=f"{name} one component").add_argument("component")
    commands.add_parser("kubectl", help="run kubectl on the cluster with the arguments that follow", add_help=False)
    image = commands.add_parser("image", help="build a Dockerfile and load the image into the node")
    image.add_argument("reference")
    image.add_argument("folder", type=Path)
    image.add_argument("-f", "--file", type=Path)
    commands.add_parser("load", help="load an image of podman's store, or an archive").add_argument("source")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command of the cluster tool and return the exit status."""
    args, rest = _parser().parse_known_args(argv)
    if rest and args.command != "kubectl":
        _parser().error(f"unrecognized arguments: {' '.join(rest)}")
    match args.command:
        case "build":
            install_packages()
            build(args.only, platforms.PLATFORMS[args.platform or platforms.started()])
        case "up":
            up(args.only, args.platform)
        case "down":
            node.remove(build() if STATE.exists() else {})
        case "status":
            return status()
        case "kubeconfig":
            print(KUBECONFIG)
        case "kubectl":
            os.execv(kubectl := str(build()["kubectl"]), [kubectl, "--kubeconfig", str(KUBECONFIG), *rest])
        case "image":
            images.build_image(args.reference, args.folder, args.file)
        case "load":
            images.load(args.source)
        case action:
            change(action, args.component)
    return 0


if __name__ == "__main__":
    sys.exit(main())

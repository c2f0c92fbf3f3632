"""The processes of the cluster: start, stop, pause, and see each one by its pid file."""

import contextlib
import json
import os
import shutil
import signal
import string
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import images, paths, pki, platforms
from .paths import (
    API_PORT,
    BRIDGE,
    CONTAINERD,
    ETCD_PEER_PORT,
    ETCD_PORT,
    HERE,
    KUBECONFIG,
    LOGS,
    NODE,
    NODE_IP,
    PIDS,
    RUN,
    SERVICE_CIDR,
    STATE,
)
from .pki import PKI

_KUBELET_ROOT = STATE / "kubelet"


@dataclass(frozen=True)
class Component:
    """One process: its command line, and what tells that it is ready."""

    name: str
    command: list[str]
    ready: Callable[[], bool] = lambda: True


def template(name: str) -> str:
    """Return a file of `templates/` with the cluster's paths and addresses put in."""
    values = {k: str(v) for k, v in vars(paths).items() if k.isupper()} | {"PKI": str(PKI), "PAUSE": images.PAUSE}
    return string.Template((HERE / "templates" / name).read_text()).substitute(values)


def _answers(*command: str) -> bool:
    """Tell whether a command succeeds; one that is not installed does not."""
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _get(path: str) -> bool:
    identity = ["--cacert", f"{PKI}/ca.crt", "--cert", f"{PKI}/admin.crt", "--key", f"{PKI}/admin.key"]
    return _answers("curl", "-sf", *identity, f"https://127.0.0.1:{API_PORT}{path}")


def _node_ready(kubectl: Path) -> bool:
    return _answers(
        str(kubectl), "--kubeconfig", str(KUBECONFIG), "wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=1s"
    )


def components(programs: Mapping[str, Path]) -> list[Component]:
    """Return the processes in the order in which they start."""
    p = {name: str(path) for name, path in programs.items()}

    def kubeconfigs(user: str) -> list[str]:
        file = f"{STATE}/{user}.kubeconfig"
        return [f"--kubeconfig={file}", f"--authentication-kubeconfig={file}", f"--authorization-kubeconfig={file}"]

    etcd = f"http://127.0.0.1:{ETCD_PORT}"
    return [
        Component(
            "containerd",
            ["containerd", "--config", f"{STATE}/containerd.toml"],
            lambda: _answers("ctr", "-a", str(CONTAINERD), "version"),
        ),
        Component(
            "etcd",
            [
                p["etcd"],
                f"--data-dir={STATE}/etcd",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls=http://127.0.0.1:{ETCD_PEER_PORT}",
                "--unsafe-no-fsync",
            ],
            lambda: _answers("curl", "-sf", f"{etcd}/health"),
        ),
        Component(
            "apiserver",
            [
                p["kube-apiserver"],
                f"--etcd-servers={etcd}",
                f"--secure-port={API_PORT}",
                f"--advertise-address={NODE_IP}",
                f"--service-cluster-ip-range={SERVICE_CIDR}",
                "--allow-privileged",
                f"--tls-cert-file={PKI}/apiserver.crt",
                f"--tls-private-key-file={PKI}/apiserver.key",
                f"--client-ca-file={PKI}/ca.crt",
                "--authorization-mode=Node,RBAC",
                "--enable-priority-and-fairness=false",  # work for each request, where none is delayed
                "--enable-admission-plugins=NodeRestriction",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={PKI}/service-account.pub",
                f"--service-account-signing-key-file={PKI}/service-account.key",
                f"--kubelet-client-certificate={PKI}/kubelet-client.crt",
                f"--kubelet-client-key={PKI}/kubelet-client.key",
                f"--kubelet-certificate-authority={PKI}/ca.crt",
                "--kubelet-preferred-address-types=InternalIP",
            ],
            lambda: _get("/readyz"),
        ),
        Component(
            "controller-manager",
            [
                p["kube-controller-manager"],
                *kubeconfigs("controller-manager"),
                "--use-service-account-credentials",
                f"--root-ca-file={PKI}/ca.crt",
                f"--service-account-private-key-file={PKI}/service-account.key",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--controllers={','.join(['*', *_unused_controllers()])}",
            ],
        ),
        Component(
            "scheduler",
            [p["kube-scheduler"], *kubeconfigs("scheduler"), "--leader-elect=false", "--bind-address=127.0.0.1"],
        ),
        Component(
            "kubelet",
            [
                p["kubelet"],
                f"--config={STATE}/kubelet.yaml",
                f"--kubeconfig={STATE}/node.kubeconfig",
                f"--hostname-override={NODE}",
                f"--node-ip={NODE_IP}",
                f"--root-dir={_KUBELET_ROOT}",
                f"--cert-dir={_KUBELET_ROOT}/pki",
                # Once a minute, the kubelet counts a container that is being started as an ended one. With the default
                # of 1 it then deletes the log of the incarnation before: a restart at that moment loses it.
                "--maximum-dead-containers-per-container=2",
            ],
            lambda: _node_ready(programs["kubectl"]),
        ),
        Component("proxy", [p["kube-proxy"], f"--config={STATE}/kube-proxy.yaml"]),
        Component("dns", [p["dns"], "-conf", f"{STATE}/Corefile"]),
    ]


def _unused_controllers() -> list[str]:
    """Return the controllers that only cost time here, each with the `-` that leaves it out.

    The proxy, the DNS server and the newest API server read EndpointSlices. An older API server forwards requests
    only to the pods that Endpoints name.
    """
    newest = platforms.started() == platforms.DEFAULT
    return ["-endpointslice-mirroring-controller", *(["-endpoints-controller"] if newest else [])]


def pid(name: str) -> int | None:
    """Return the pid of a component that runs, None where it does not."""
    try:
        number, started = (PIDS / name).read_text().split()
        fields = Path(f"/proc/{number}/stat").read_text().rsplit(") ", 1)[1].split()
    except (OSError, ValueError, IndexError):
        return None
    return int(number) if fields[19] == started and fields[0] != "Z" else None


def start(component: Component, timeout: float = 60) -> None:
    """Start a component unless it runs, and wait until it is ready.

    Raises:
        SystemExit: it ended or was not ready in time; the message ends with its last log lines.
    """
    if pid(component.name) is None:
        with (LOGS / f"{component.name}.log").open("ab") as log:
            process = subprocess.Popen(
                component.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=STATE,
                env={"GOGC": "300"} | os.environ,  # garbage took 14 % of the API server
            )
        started = (
            Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1].split()[19]
        )  # tells a reused pid from ours
        (PIDS / component.name).write_text(f"{process.pid} {started}")
    limit = time.monotonic() + timeout
    while not component.ready():
        if pid(component.name) is None or time.monotonic() > limit:
            how = "ended" if pid(component.name) is None else f"was not ready within {timeout:.0f} s"
            raise SystemExit(f"cluster: {component.name} {how}; its log ends:\n{log_tail(component.name)}")
        time.sleep(0.1)


def stop(name: str, sig: signal.Signals = signal.SIGTERM, timeout: float = 10) -> None:
    """Stop a component and wait for its end; after the timeout it is killed."""
    limit = time.monotonic() + timeout
    while (number := pid(name)) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, sig if time.monotonic() < limit else signal.SIGKILL)
        time.sleep(0.1)
    (PIDS / name).unlink(missing_ok=True)


def send(name: str, sig: signal.Signals) -> None:
    """Send a signal to a component that runs: SIGSTOP and SIGCONT make it hang and go on."""
    number = pid(name)
    if number is None:
        raise SystemExit(f"cluster: {name} does not run; `status` lists what does")
    os.kill(number, sig)


def log_tail(name: str, lines: int = 15) -> str:
    """Return the last lines of a component's log."""
    try:
        return "\n".join((LOGS / f"{name}.log").read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(no log)"


def _ip(*args: str, check: bool = True) -> bool:
    if not check:
        return _answers("ip", *args)
    subprocess.run(["ip", *args], check=True, capture_output=True)
    return True


def prepare() -> None:
    """Write certificates and configuration, and make the bridge that pods are attached to."""
    for folder in (STATE, RUN, LOGS, PIDS, STATE / "cni"):
        folder.mkdir(parents=True, exist_ok=True)
    pki.make()
    for name in ("kubelet.yaml", "containerd.toml", "kube-proxy.yaml", "Corefile", "dns.yaml"):
        _write(STATE / name, template(name))
    _write(STATE / "cni/10-bridge.conflist", template("10-bridge.conflist"))
    if not _ip("link", "show", BRIDGE, check=False):
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("address", "add", f"{NODE_IP}/16", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
    for setting in ("net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"):
        path = Path("/proc/sys") / setting
        if path.exists():
            path.write_text("1")


def _write(file: Path, text: str) -> None:
    """Write a file unless it says this already: kube-proxy ends when its configuration is written again."""
    if not file.exists() or file.read_text() != text:
        file.write_text(text)


def _ctr(*args: str) -> list[str]:
    return subprocess.run(
        ["ctr", "-a", str(CONTAINERD), "-n", "k8s.io", *args], check=False, capture_output=True, text=True
    ).stdout.split()


def _remove_pods() -> None:
    """Kill every container, then let the pods' network namespaces go (their interfaces go with them)."""
    namespaces = set()
    for container in _ctr("containers", "ls", "-q"):
        info = subprocess.run(
            ["ctr", "-a", str(CONTAINERD), "-n", "k8s.io", "containers", "info", container],
            check=False,
            capture_output=True,
            text=True,
        ).stdout
        with contextlib.suppress(ValueError, KeyError, TypeError):
            namespaces |= {
                n["path"]
                for n in json.loads(info)["Spec"]["linux"]["namespaces"]
                if n["type"] == "network" and n.get("path")
            }
        _ctr("tasks", "kill", "--signal", "SIGKILL", "--all", container)
        _ctr("tasks", "delete", "--force", container)
        _ctr("containers", "delete", container)
    for path in namespaces:
        if path.startswith(("/run/netns/", "/var/run/netns/")):
            _ip("netns", "delete", Path(path).name, check=False)


def _unmount() -> None:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((m for m in mounts if m.startswith((str(STATE), str(RUN)))), key=len, reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)


def _remove_cgroups() -> None:
    for root in Path("/sys/fs/cgroup").glob("*/kubepods"):
        for folder in sorted((d for d in root.rglob("*") if d.is_dir()), key=lambda d: len(d.parts), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
        with contextlib.suppress(OSError):
            root.rmdir()


def _remove_firewall() -> None:
    """Remove the chain that kube-proxy's own clean-up leaves behind."""
    for rule in (
        ["-D", "INPUT", "-j", "KUBE-FIREWALL"],
        ["-D", "OUTPUT", "-j", "KUBE-FIREWALL"],
        ["-F", "KUBE-FIREWALL"],
        ["-X", "KUBE-FIREWALL"],
    ):
        _answers("iptables", *rule)


def remove(programs: Mapping[str, Path]) -> None:
    """Stop everything and leave the machine as it was before `up`; works on whatever a crash has left."""
    for name in ("kubelet", "dns", "proxy", "scheduler", "controller-manager", "apiserver", "etcd"):
        with contextlib.suppress(SystemExit):
            send(name, signal.SIGCONT)
        stop(name)
    if not _answers("ctr", "-a", str(CONTAINERD), "version") and (STATE / "containerd.toml").exists():
        for folder in (LOGS, PIDS):  # an interrupted removal may have left containerd.toml alone
            folder.mkdir(parents=True, exist_ok=True)
        start(components(programs)[0])  # pods of a cluster whose containerd died must still be found
    if (STATE / "containerd.toml").exists():
        _remove_pods()
    stop("containerd")
    if "kube-proxy" in programs and (STATE / "kube-proxy.yaml").exists():
        subprocess.run([str(programs["kube-proxy"]), "--cleanup"], check=False, capture_output=True)
        _remove_firewall()
    _ip("link", "delete", BRIDGE, check=False)
    _unmount()
    _remove_cgroups()
    for folder in (STATE, RUN):
        shutil.rmtree(folder, ignore_errors=True)

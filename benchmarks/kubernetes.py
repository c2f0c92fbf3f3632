"""What a launcher on Kubernetes costs, measured on a real API server: that of KUBECONFIG, or of `make cluster`.

The launcher is the process of a pipeline step, `tfsteps.steps.train.launcher`, with the files and packages of its pod.
The moment at which a job object turns terminal is taken by a watch in this process, requests by a TLS proxy.
"""

import concurrent.futures
import contextlib
import functools
import importlib
import json
import os
import pathlib
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, Self

from benchmarks.measure import Row
from tests.cluster import paths
from tests.faults.proxy import Proxy
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.resource import Resource
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch
from tfsteps.runs.identity import MANAGED_BY
from tfsteps.systems.kubeflow.tfjob import TFJob

PAIRS = 15
STOPS = 7
RSS_AFTER = 60.0
WAIT = {True: 90.0, False: 630.0}  # seconds that requests are counted for: quick, full
RENEWED = 3300.0  # a watch is kept open so long, on average; then it is a list and a watch again
WATCHES = 2
NAMESPACES = Resource("v1", "namespaces", "Namespace")
IMAGE = os.environ.get("TFSTEPS_BUSYBOX_IMAGE", "docker.io/library/busybox:latest")
CORE = ("tfsteps", "msgspec", "urllib3", "yaml")  # all that the launcher's image holds
ISOLATED = [sys.executable, "-I", "-S", "-c"]
AS_IN_A_POD = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import pathlib, runpy
from tfsteps.kube import access
access.SERVICE_ACCOUNT = pathlib.Path(sys.argv.pop(1))
runpy.run_module("tfsteps.steps.train.launcher", run_name="__main__")
"""
BARE = pathlib.Path(__file__).with_name("bare_watch.py")


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield every row; `quick` takes fewer runs and a shorter wait."""
    os.environ.setdefault("KUBECONFIG", str(paths.KUBECONFIG))
    with tempfile.TemporaryDirectory() as folder, Environment(pathlib.Path(folder)) as environment:
        yield from _ends(environment, 5 if quick else PAIRS)
        yield from _waiting(environment, WAIT[quick])
        yield _stops(environment, 3 if quick else STOPS)


# --- the cluster


class Environment:
    """A namespace of its own, what happens to the TFJobs in it, and launchers that make them.

    Attributes:
        namespace: Its name.
        api: The cluster.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.api = Api(access.find())
        self.namespace = f"bench-{secrets.token_hex(3)}"
        self._folder = folder
        self._packages = _packages(folder / "packages")
        self._news = threading.Condition()
        self._seen: dict[str, dict[str, float]] = {}  # by the job's task: when it was created and ended, CPU by then
        self._names: dict[str, str] = {}
        self._processes: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> Self:
        created = self.api.create(NAMESPACES, "", {"metadata": {"name": self.namespace, "labels": MANAGED_BY}})
        self._uid = created["metadata"]["uid"]
        self._token = self._service_account()
        self.direct = self.pod_files("direct", authority())
        Watch(self.api, TFJob.resource, self.namespace, self._saw)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
        self.api.delete(NAMESPACES, "", self.namespace, self._uid)

    def start(
        self, task: str, command: str, *, workers: int = 1, server: str = "", files: pathlib.Path | None = None
    ) -> subprocess.Popen:
        """Start the launcher of a step as in a pod, which has the API server at `server` and the files `files`."""
        job = {
            "name": task,
            "image": IMAGE,
            "image_pull_policy": "Never",
            "command": ["sh", "-c", command],
            "roles": {"worker": {"replicas": workers}},
        }
        inputs = {"parameterValues": {"spec": job, "system": "kubeflow"}}
        folder = self._folder / task
        executor_input = json.dumps({"inputs": inputs, "outputs": {"outputFile": str(folder / "outputs.json")}})
        url = urllib.parse.urlsplit(server or self.api.access.server)
        env = {
            **os.environ,
            "KUBERNETES_SERVICE_HOST": str(url.hostname),
            "KUBERNETES_SERVICE_PORT": str(url.port),
            "TFSTEPS_HOME": str(folder / "home"),
        }
        arguments = [*ISOLATED, AS_IN_A_POD, self._packages, files or self.direct, "--executor_input", executor_input]
        with (self._folder / f"{task}.log").open("wb") as log:
            process = subprocess.Popen(arguments, env=env, stdout=log, stderr=subprocess.STDOUT)
        self._processes[task] = process
        return process

    def bare_watch(self, task: str) -> subprocess.Popen:
        """Start a bare watch on the job of a task."""
        where = [self.api.access.server, self.direct, TFJob.resource.path(self.namespace), self._names[task]]
        return subprocess.Popen([sys.executable, BARE, *where])

    def pod_files(self, name: str, certificate: str) -> pathlib.Path:
        """Write the files that a pod finds its API server by."""
        files = self._folder / f"{name}-files"
        files.mkdir()
        for file, text in {"token": self._token, "namespace": self.namespace, "ca.crt": certificate}.items():
            (files / file).write_text(text)
        return files

    def _service_account(self) -> str:
        """Make a service account that may do everything in the namespace; return a token of it."""
        name, group = "launcher", "rbac.authorization.k8s.io"
        account = Resource("v1", "serviceaccounts", "ServiceAccount")
        binding = Resource(f"{group}/v1", "rolebindings", "RoleBinding")
        self.api.create(account, self.namespace, {"metadata": {"name": name}})
        role = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"kind": account.kind, "name": name, "namespace": self.namespace}
        self.api.create(binding, self.namespace, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
        request = {"spec": {"expirationSeconds": 7200}}
        response = self.api.request("POST", account.path(self.namespace, name, "token"), {}, request)
        return str(response["status"]["token"])

    def log(self, task: str) -> str:
        """Return what a launcher has printed."""
        return (self._folder / f"{task}.log").read_text()

    def when(self, task: str, what: str, seconds: float = 120.0) -> float:
        """Wait until `created`, `ended` or `cpu` is known of a task's job, and return it: in seconds, monotonic."""
        with self._news:
            if not self._news.wait_for(lambda: what in self._seen.get(task, {}), seconds):
                raise SystemExit(f"{task}: never {what}: {self.log(task)}")
            return self._seen[task][what]

    def _saw(self, seen: Seen) -> None:
        now = time.monotonic()
        match seen:
            case Changed(item=item) | Listed(items=[item]):
                self._note(item, now)
            case Refused(error=error):
                raise SystemExit(error)
            case Listed() | Deleted():
                pass

    def _note(self, item: dict, now: float) -> None:
        name = item["metadata"]["name"]
        task = name.rpartition("-")[0]
        known = self._seen.setdefault(task, {})
        if "created" not in known:
            self._names[task] = name
            if launcher := self._processes.get(task):
                known["cpu"] = cpu_seconds(launcher.pid)
            known["created"] = now
        if TFJob().verdict(item).state.terminal:
            known.setdefault("ended", now)
        with self._news:
            self._news.notify_all()


def _packages(folder: pathlib.Path) -> pathlib.Path:
    """Make a folder of the packages that a launcher has in its image, and no other."""
    folder.mkdir()
    for name in CORE:
        (folder / name).symlink_to(pathlib.Path(str(importlib.import_module(name).__file__)).parent)
    return folder


def authority() -> str:
    """Return the certificate of the authority that every namespace holds for its pods."""
    api = Api(access.find())
    return str(api.get(Resource("v1", "configmaps", "ConfigMap"), "default", "kube-root-ca.crt")["data"]["ca.crt"])


def cpu_seconds(pid: int) -> float:
    """Return the CPU that a process has used: to the nanosecond while all its threads live, else to a tick."""
    with contextlib.suppress(OSError):
        tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
        alive = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return max(alive, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    return float("nan")


# --- from the end of the job to the end of the step


def _ends(environment: Environment, pairs: int) -> Iterator[Row]:
    measured = [_pair(environment, f"end{i}") for i in range(pairs + 1)][1:]
    ours, bare = (statistics.median(item[i] for item in measured) for i in (0, 1))
    ratio = statistics.median(a / b for a, b, _ in measured)
    what = "job object turns terminal -> the step's process exits (last lines read, outputs, report, pods deleted)"
    yield Row("end_to_exit_ms", what, ours * 1e3, "ms", 100, pairs, bare * 1e3, ratio)
    yield Row("end_to_exit_ratio", "the same over a bare watch on the same object", ratio, "x", 2, pairs)
    what = "CPU of the launcher until its job object exists"
    yield Row("start_to_created_cpu_s", what, statistics.median(item[2] for item in measured), "s", 0.15, pairs)


def _pair(environment: Environment, task: str) -> tuple[float, float, float]:
    """Return the seconds from a job's end to the exits of its launcher and of a bare watch, and the launcher's CPU."""
    launcher = environment.start(task, "sleep 3")
    environment.when(task, "created")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        exits = [pool.submit(_exit, process) for process in (launcher, environment.bare_watch(task))]
        ended = environment.when(task, "ended")
        ours, bare = (item.result() - ended for item in exits)
    if launcher.returncode:
        raise SystemExit(f"{task} failed: {environment.log(task)}")
    return ours, bare, environment.when(task, "cpu")


def _exit(process: subprocess.Popen) -> float:
    process.wait()
    return time.monotonic()


# --- while it waits


class CountingProxy(Proxy):
    """Passes everything on, and notes when which request came."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.times: list[tuple[float, str]] = []

    def rule(self, kind: str) -> None:
        self.times.append((time.monotonic(), kind))


@contextlib.contextmanager
def proxied(environment: Environment, name: str) -> Iterator[tuple[CountingProxy, dict[str, Any]]]:
    """Yield a proxy before the API server, and what leads a launcher to it."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "proxy.pem")
        subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", file, "-out", file]
        subprocess.run([*new, *subject], check=True, capture_output=True)
        with CountingProxy(environment.api.access, str(file)) as proxy:
            files = environment.pod_files(name, file.read_text())
            yield proxy, {"server": f"https://127.0.0.1:{proxy.port}", "files": files}


def _waiting(environment: Environment, seconds: float) -> Iterator[Row]:
    with proxied(environment, "wait") as (proxy, where):
        launcher = environment.start("wait", "sleep 3600", workers=4, **where)
        _until(lambda: "wait: running" in environment.log("wait"), environment, "wait")
        time.sleep(15)  # what follows the start is not waiting
        begin = time.monotonic()
        time.sleep(RSS_AFTER - 15)
        yield Row(
            "launcher_rss_mib",
            "resident memory of a launcher that waits for 4 replicas, after 60 s",
            _rss(launcher.pid) / 2**20,
            "MiB",
            29,
            1,
        )
        time.sleep(max(0.0, begin + seconds - time.monotonic()))
        counted = [kind for at, kind in proxy.times if at > begin]
        launcher.terminate()
        launcher.wait()
    hourly = len(counted) * 3600 / seconds + WATCHES * 2 * 3600 / RENEWED
    what = f"requests in an hour of waiting: {len(counted)} seen in {seconds:.0f} s, and the renewal of both watches"
    yield Row("requests_per_job_hour", what, hourly, "1/h", 15, 1)


def _rss(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _until(condition: Callable[[], bool], environment: Environment, task: str) -> None:
    end = time.monotonic() + 120
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{task} does not go on: {environment.log(task)}")
        time.sleep(0.02)


# --- stopping


def _stops(environment: Environment, runs: int) -> Row:
    with proxied(environment, "stop") as (proxy, where):
        measured = [_stop(environment, proxy, where, f"stop{i}") for i in range(runs)]
    what = "SIGTERM -> the DELETE arrives at the API server"
    return Row("sigterm_to_delete_ms", what, statistics.median(measured) * 1e3, "ms", 20, runs)


def _stop(environment: Environment, proxy: CountingProxy, where: dict[str, Any], task: str) -> float:
    launcher = environment.start(task, "trap 'exit 0' TERM; while :; do sleep 0.1; done", **where)
    _until(functools.partial(lambda text: text in environment.log(task), f"{task}: running"), environment, task)
    time.sleep(0.5)
    known = len(proxy.times)
    begin = time.monotonic()
    launcher.send_signal(signal.SIGTERM)
    _until(lambda: any(kind == "delete job" for _, kind in proxy.times[known:]), environment, task)
    launcher.wait()
    return next(at for at, kind in proxy.times[known:] if kind == "delete job") - begin

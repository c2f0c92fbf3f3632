"""What a pass of the janitor costs on a cluster of ten thousand healthy jobs: requests, CPU and memory.

A server in a process of its own stands for the API server. It sends lists page by page over TLS, with all that real
objects contain: managed fields, the whole pod template, the template that Argo gives to each of its pods. The janitor
is the real program with a kubeconfig, from the start of its interpreter to its end.
"""

import asyncio
import json
import multiprocessing
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import trustme

from benchmarks.measure import Row
from tests.unit.systems.kubernetes.objects import STATUSES, condition
from tfsteps import spec
from tfsteps.engines.argo.workflow import POD_LABEL
from tfsteps.runs.identity import Identity
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.cleanup.retention import LAUNCHER
from tfsteps.systems.kubernetes.system import KubernetesSystem

JOBS = {True: 1000, False: 10000}
RUNS = {True: 1, False: 3}
PROGRAM = """
import sys, time
from tfsteps.janitor.__main__ import main
code = main()
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time(), peak, file=sys.stderr)
sys.exit(code)
"""  # the kernel's own figure for a child, ru_maxrss, begins with the memory of its parent
_CREATED = "2026-11-21T08:00:01Z"
_NUMBER = "00000000"  # stands in one object's text for the number of each
_MISSING = b'{"kind":"Status","status":"Failure","reason":"NotFound","message":"not found","code":404}'


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield the requests, the CPU and the memory of a pass; `quick` has a thousand jobs."""
    jobs = JOBS[quick]
    with tempfile.TemporaryDirectory() as folder:
        passes = sorted(_passes(jobs, RUNS[quick], pathlib.Path(folder)))
    requests, cpu, mebibytes = passes[len(passes) // 2]
    what = f"of a pass of the janitor over {jobs} running jobs of Workflows whose steps have pods"
    yield Row("janitor_pass_requests", f"requests {what}", requests, "", 45, len(passes))
    yield Row("janitor_pass_cpu_s", f"CPU of the program {what}, with its start", cpu, "s", 6, len(passes))
    yield Row(
        "janitor_pass_memory_mib", f"the most memory {what}; its limit is 256", mebibytes, "MiB", 128, len(passes)
    )


def _passes(jobs: int, count: int, folder: pathlib.Path) -> Iterator[tuple[int, float, float]]:
    """Yield the requests, the seconds of CPU and the MiB of some passes."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(jobs, folder, theirs), daemon=True)
    server.start()
    theirs.close()  # a server that cannot start is the end of the pipe
    try:
        config = folder / "kubeconfig"
        config.write_text(json.dumps(_kubeconfig(f"https://127.0.0.1:{ours.recv()}", folder / "ca.pem")))
        for _ in range(count):
            cpu, mebibytes = _measured(jobs, config)
            ours.send("requests")
            yield ours.recv(), cpu, mebibytes
    finally:
        os.kill(server.pid or 0, signal.SIGKILL)
        server.join()


def _measured(jobs: int, config: pathlib.Path) -> tuple[float, float]:
    """Run one pass; return its seconds of CPU and its MiB."""
    environ = {name: text for name, text in os.environ.items() if "HAI" not in name and "MARSV2" not in name}
    command = [sys.executable, "-c", PROGRAM, "--once", "--all-namespaces"]
    done = subprocess.run(
        command, capture_output=True, env={**environ, "KUBECONFIG": str(config)}, text=True, check=False
    )
    if done.stdout != f"{jobs} jobs looked at, 0 deletions due.\n":
        raise SystemExit(f"the janitor failed: {done.stdout}{done.stderr}")
    cpu, kibibytes = done.stderr.split()
    return float(cpu), int(kibibytes) / 1024


def _kubeconfig(server: str, authority: pathlib.Path) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "u", "user": {"token": "t" * 900}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }


# --- the server


def _serve(jobs: int, folder: pathlib.Path, pipe: Connection) -> None:
    """Serve until killed; send the port, and for each message the requests since the last one."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    asyncio.run(_Server(jobs, pipe).serve(tls))


class _Server:
    """What of an API server a pass needs: TFJobs and the pods of their steps; it knows no other kind of job."""

    def __init__(self, jobs: int, pipe: Connection) -> None:
        self._jobs, self._pipe, self._requests = jobs, pipe, 0
        self._lists = {
            "/apis/kubeflow.org/v1/tfjobs": ("TFJobList", "kubeflow.org/v1", _text(_job())),
            "/api/v1/pods": ("PodList", "v1", _text(_launcher())),
        }

    async def serve(self, tls: ssl.SSLContext) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=tls)
        self._pipe.send(server.sockets[0].getsockname()[1])
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._report)
        await server.serve_forever()

    def _report(self) -> None:
        self._pipe.recv()
        self._pipe.send(self._requests)
        self._requests = 0

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self._requests += 1
                url = urllib.parse.urlsplit(head.split()[1])
                body = self._page(url.path, dict(urllib.parse.parse_qsl(url.query)))
                status = "200 OK" if body else "404 Not Found"
                body = body or _MISSING
                date = "Date: Sat, 21 Nov 2026 08:10:00 GMT"
                start = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{date}\r\n"
                writer.write(f"{start}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except asyncio.IncompleteReadError:
            writer.close()

    def _page(self, path: str, query: dict[str, str]) -> bytes:
        """Return one page of a list; nothing = there is no such kind."""
        if path not in self._lists:
            return b""
        kind, api, item = self._lists[path]
        begin = int(query.get("continue", "0"))
        end = min(begin + int(query["limit"]), self._jobs)
        more = f',"continue":"{end}"' if end < self._jobs else ""
        items = ",".join(item.replace(_NUMBER, f"{number:08}") for number in range(begin, end))
        meta = f'{{"resourceVersion":"7"{more}}}'
        return f'{{"kind":"{kind}","apiVersion":"{api}","metadata":{meta},"items":[{items}]}}'.encode()


def _text(item: dict[str, Any]) -> str:
    return json.dumps(item, separators=(",", ":"))


def _meta(name: str, meta: dict[str, Any], *parts: Any) -> dict[str, Any]:
    """Return the metadata of a stored object; of `parts` the server keeps who manages which field."""
    fields = [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": _CREATED,
            "fieldsType": "FieldsV1",
            "fieldsV1": _managed(part),
        }
        for manager, part in zip(("tfsteps", "controller"), parts, strict=True)
    ]
    identity = {"namespace": "team", "uid": f"{name}-8f5c-4f0e-9a53-0c7d2f1b6e11", "resourceVersion": "123456"}
    return {**meta, "name": name, **identity, "creationTimestamp": _CREATED, "managedFields": fields}


def _managed(part: Any) -> dict[str, Any]:
    return {f"f:{key}": _managed(value) for key, value in part.items()} if isinstance(part, dict) else {}


def _owner() -> dict[str, Any]:
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": f"wf-{_NUMBER}"}
    return {**owner, "uid": f"wf-{_NUMBER}-8f5c-4f0e-9a53", "controller": True, "blockOwnerDeletion": True}


def _job() -> dict[str, Any]:
    """Return a running TFJob of a chief and two workers, as the API server lists it."""
    job = spec.from_plain(
        {
            "name": "mnist",
            "image": "ghcr.io/acme/mnist:1.4",
            "command": ["python", "train.py", "--epochs", "30"],
            "env": {"BATCH": "64", "TOKEN": {"secret": "hub", "key": "token"}},
            "roles": {"chief": {}, "worker": {"replicas": 2, "resources": {"cpu": 2, "memory": "4Gi"}}},
            "volumes": [{"pvc": "data", "mount": "/data"}],
            "output_dir": "/data/runs/{run_id}",
        }
    )
    who = Identity(run=f"run-{_NUMBER}", task="train", pipeline="mnist")
    system = KubernetesSystem(TFJob(), namespace="team")
    body, *_ = system.plan(job, who, system.output_paths(job, who, pathlib.Path()))
    times = {"lastTransitionTime": _CREATED, "lastUpdateTime": _CREATED}
    status = {
        "conditions": [
            {**condition(kind, message=f"TFJob mnist is {kind}."), **times} for kind in ("Created", "Running")
        ],
        "replicaStatuses": {"Chief": {"active": 1}, "Worker": {"active": 2}},
        "startTime": _CREATED,
    }
    meta = {**body["metadata"], "ownerReferences": [_owner()]}
    meta["annotations"][LAUNCHER] = f"wf-{_NUMBER}.train"
    return {**body, "metadata": _meta(f"mnist-{_NUMBER}", meta, body["spec"], status), "status": status}


def _launcher() -> dict[str, Any]:
    """Return the running pod of an Argo step that launches one of the jobs."""
    template = {"name": "train", "inputs": {"parameters": [{"name": "spec", "value": "x" * 1500}]}}
    container = {
        "name": "main",
        "image": "tfsteps/launcher:0.1.0",
        "command": ["/var/run/argo/argoexec", "emissary", "--", "python", "-m", "tfsteps.steps.train.launcher"],
        "env": [{"name": "ARGO_TEMPLATE", "value": _text(template)}, {"name": "ARGO_CONTAINER_NAME", "value": "main"}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("var-run-argo", "tmp", "token")],
    }
    volumes = [{"name": name, "emptyDir": {}} for name in ("var-run-argo", "tmp", "token")]
    spec_ = {
        "containers": [container, {**container, "name": "wait"}],
        "initContainers": [{**container, "name": "init"}],
        "volumes": volumes,
        "serviceAccountName": "launcher",
        "nodeName": "node-1",
    }
    meta = {
        "labels": {POD_LABEL: f"wf-{_NUMBER}", "workflows.argoproj.io/completed": "false"},
        "annotations": {"workflows.argoproj.io/node-name": f"wf-{_NUMBER}.train"},
        "ownerReferences": [_owner()],
    }
    status = STATUSES["running"]
    return {"metadata": _meta(f"wf-{_NUMBER}-train", meta, spec_, status), "spec": spec_, "status": status}

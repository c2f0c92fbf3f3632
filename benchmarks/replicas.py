"""A job of a thousand replicas: how soon its end is reported, when its launcher exits, and its threads and memory.

No test cluster can run a thousand pods. A server in a process of its own stands for the API server: it lists the job
and its pods, follows each pod's log over a TLS connection of its own, and ends all of them at once. Its pods are as
large as those of the training operator, whose TF_CONFIG has the address of each replica: 39 MB for a thousand. All the
rest is real: the launcher is one that adopts the job.
"""

import asyncio
import contextlib
import datetime as dt
import json
import math
import multiprocessing
import os
import pathlib
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from multiprocessing.connection import Connection

import trustme

from benchmarks.kubernetes import cpu_seconds
from benchmarks.measure import Row
from tests.unit.systems.kubernetes.objects import pod, tfjob

REPLICAS = {True: 100, False: 1000}
RUNS = {True: 1, False: 3}
POD = json.loads(pathlib.Path(__file__).with_name("pod.json").read_text())
"""A TFJob's pod, recorded on Kubernetes 1.37 with the training operator 1.9, without what differs between pods."""

REPORTED = 1.0  # seconds
END = 2.0
QUIET = 3.0  # seconds from the first line of the last log to the end of all
_REPORT = b"t: succeeded\n"
_DONE = b'{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}'
LAUNCHER = """
import json, pathlib, ssl, sys, time
from tfsteps import spec
from tfsteps.kube import access, credentials
from tfsteps.runs.identity import Identity
from tfsteps.launcher.lifecycle import first_status, resume
from tfsteps.launcher.printer import Printer
from tfsteps.systems import kubeflow
server, trust, replicas, home = sys.argv[1:]
tls = ssl.create_default_context(cafile=trust)
access.find = lambda _context: credentials.Access(server, "ns", tls, lambda _refused: "t" * 900, "the server")
job = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {"replicas": int(replicas)}}})
who, system = Identity(run="r", task="t"), kubeflow.PLUGIN.system()
first = first_status(job, who, system, system.output_paths(job, who, pathlib.Path(home)), "")
first.job, first.uid, first.namespace = "job", "u1", "ns"
print("END", resume(job, first, system, observers=[Printer()]).state.value, time.process_time(), flush=True)
"""

BARE = """
import http.client, ssl, sys, threading, time
server, trust, replicas = sys.argv[1:]
tls, numbers = ssl.create_default_context(cafile=trust), iter(range(int(replicas)))
connections = [http.client.HTTPSConnection(server, context=tls) for _ in range(8)]
for connection in connections:
    connection.connect()
def work(connection):
    for number in numbers:
        pod = f"/api/v1/namespaces/ns/pods/job-worker-{number}"
        for method, path in (("GET", f"{pod}/log?container=tensorflow&timestamps=true&tailLines=2"), ("DELETE", pod)):
            connection.request(method, path, headers={"Authorization": "Bearer " + "t" * 900})
            assert connection.getresponse().read()
began = time.monotonic()
threads = [threading.Thread(target=work, args=[connection]) for connection in connections]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(time.monotonic() - began)
"""
"""The requests that the end of a job cannot do without, and nothing else."""


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield how long the end takes, the threads and the memory; `quick` has a hundred replicas."""
    replicas, runs = REPLICAS[quick], RUNS[quick]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling again each time is not what users see
    measured = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as name:
            measured.append(_measure(replicas, pathlib.Path(name)))
    reported, after, bare, threads, mebibytes, cpu = map(statistics.median, zip(*measured, strict=True))
    ratio = statistics.median(ours / theirs for _, ours, theirs, *_ in measured)
    what = f"of a job of {replicas} replicas whose logs are followed over TLS, and which end all at once"
    end = f"from the job's end to the line that says so, after all logs, {what}"
    yield Row("replicas_end_reported_s", end, reported, "s", REPORTED, runs)
    end = f"from the job's end to the last line of the launcher, after the clean-up, {what}"
    end += "; baseline: only to ask each log for its end, and to delete each pod, over open connections"
    yield Row("replicas_end_exit_s", end, after, "s", END, runs, bare, ratio, of_baseline=True)
    yield Row("replicas_end_cpu_s", f"CPU of the launcher from the job's end to its own, {what}", cpu, "s", None, runs)
    yield Row("replicas_threads", f"the most threads of the launcher, {what}", threads, "", 100, runs)
    yield Row("replicas_memory_mib", f"the most memory of the launcher, {what}", mebibytes, "MiB", 64, runs)


def _measure(replicas: int, folder: pathlib.Path) -> tuple[float, float, float, int, float, float]:
    """Return how long after the job's end the launcher reported it, and exited; its threads, MiB and CPU.

    The third value is how long a bare client takes, in a process of its own like the launcher.
    """
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(replicas, folder, theirs), daemon=True)
    server.start()
    theirs.close()  # a server that ends early is then an EOFError, not a wait for ever
    try:
        port = ours.recv()
        address, trust = f"127.0.0.1:{port}", str(folder / "ca.pem")
        command = [sys.executable, "-c", LAUNCHER, f"https://{address}", trust, str(replicas), str(folder)]
        environ = {**os.environ, "TFSTEPS_HOME": str(folder / "home")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as launcher:
            assert launcher.stdout
            threads = peak = 0
            os.set_blocking(launcher.stdout.fileno(), False)
            output, reported = b"", math.inf
            cpu: list[tuple[float, float]] = []
            while not (b"END " in output and output.endswith(b"\n")) and launcher.poll() is None:
                output += launcher.stdout.read() or b""
                reported = min(reported, time.monotonic() if _REPORT in output else math.inf)
                output = output[-(1 << 10) :]
                now = _status(launcher.pid)
                threads, peak = max(threads, now.get("Threads", 0)), max(peak, now.get("VmHWM", 0))
                cpu.append((time.monotonic(), cpu_seconds(launcher.pid)))
                time.sleep(0.01)
            ended = time.monotonic()
            if b"END succeeded" not in output:
                raise SystemExit(f"replicas failed: {output.decode()}")
        bare = subprocess.run(
            [sys.executable, "-c", BARE, address, trust, str(replicas)], check=True, stdout=subprocess.PIPE
        )
        job_ended = ours.recv()
        before = max(seconds for at, seconds in cpu if at <= job_ended)
        used = float(output.rpartition(b"END succeeded ")[2]) - before
        return reported - job_ended, ended - job_ended, float(bare.stdout), threads, peak / 1024, used
    finally:
        os.kill(server.pid or 0, signal.SIGKILL)
        server.join()


def _status(pid: int) -> dict[str, int]:
    """Return the numbers that the kernel tells of a process; nothing once it has ended."""
    with contextlib.suppress(OSError):
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        return {
            name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines) if _number(rest)
        }
    return {}


def _number(text: str) -> bool:
    return text.split()[:1] != [] and text.split(maxsplit=1)[0].isdigit()


def _serve(replicas: int, folder: pathlib.Path, pipe: Connection) -> None:
    """Serve until killed; send the port, and later when the job had ended."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    asyncio.run(_Server(replicas, pipe).serve(tls))


class _Server:
    """What of an API server a launcher needs that follows one job."""

    def __init__(self, replicas: int, pipe: Connection) -> None:
        self._pipe, self._replicas = pipe, replicas
        self._encoded = {status: list(_pods(status, replicas)) for status in ("running", "succeeded")}
        self._following = 0
        self._end = asyncio.Event()
        self._said = asyncio.Event()

    async def serve(self, tls: ssl.SSLContext) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=tls, backlog=self._replicas)
        self._pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                url = urllib.parse.urlsplit(head.split()[1])
                if length := [line for line in head.lower().splitlines() if line.startswith("content-length:")]:
                    await reader.readexactly(int(length[0].split()[1]))
                query = dict(urllib.parse.parse_qsl(url.query))
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                if head.startswith("DELETE"):
                    writer.write(b"%x\r\n%b\r\n" % (len(_DONE), _DONE))
                else:
                    await self._answer(url.path, query, writer)
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        writer.close()

    async def _answer(self, path: str, query: dict[str, str], writer: asyncio.StreamWriter) -> None:
        def send(data: bytes) -> None:
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))

        if path.endswith("/log"):
            await self._log(query, send)
        elif "watch" in query:
            await self._end.wait()
            if "tfjobs" in path:
                await self._said.wait()
            for item in [self._job()] if "tfjobs" in path else self._pods():
                send(b'{"type": "MODIFIED", "object": %b}\n' % item)
                await writer.drain()
            if "tfjobs" in path:
                self._pipe.send(time.monotonic())
            self._said.set()
            await asyncio.sleep(3600)
        elif "metrics.k8s.io" in path:  # asked for if the machine is slow
            send(b'{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": []}')
        else:
            jobs = "tfjobs" in path
            first, most = int(query.get("continue", 0)), int(query.get("limit", self._replicas))
            items = [self._job()] if jobs else self._pods()[first : first + most]
            kind, api = ("TFJobList", "kubeflow.org/v1") if jobs else ("PodList", "v1")
            meta = {"resourceVersion": "7"}
            if not jobs and first + most < self._replicas:
                meta["continue"] = str(first + most)
            listed = json.dumps({"kind": kind, "apiVersion": api, "metadata": meta, "items": []}).encode()
            send(items[0] if path.endswith("/tfjobs/job") else listed[:-2] + b", ".join(items) + b"]}")

    async def _log(self, query: dict[str, str], send) -> None:
        second = dt.datetime.fromisoformat("2026-11-21T08:00:01+00:00")
        lines = [b"%b.5Z step %d\n" % ((second + dt.timedelta(seconds=i)).isoformat()[:19].encode(), i) for i in (0, 1)]
        if tail := query.get("tailLines"):
            send(b"".join(lines[-int(tail) :]))
        elif query["follow"] == "true":
            send(lines[0])
            self._following += 1
            if self._following == self._replicas:
                asyncio.get_running_loop().call_later(QUIET, self._end.set)
            await self._end.wait()
            send(lines[1])
        else:
            send(b"".join(lines))

    def _job(self) -> bytes:
        return _encoded(tfjob("Succeeded" if self._end.is_set() else "Running"), "TFJob", "kubeflow.org/v1")

    def _pods(self) -> list[bytes]:
        return self._encoded["succeeded" if self._end.is_set() else "running"]


def _pods(status: str, replicas: int) -> Iterator[bytes]:
    workers = [f"job-worker-{i}.ns.svc:2222" for i in range(replicas)]
    for index in range(replicas):
        task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}, "environment": "cloud"}
        [container], [recorded] = POD["spec"]["containers"], POD["status"]["containerStatuses"]
        env = [*container["env"], {"name": "TF_CONFIG", "value": json.dumps(task, separators=(",", ":"))}]
        item = pod(status, f"worker-{index}", f"p{index}")
        item["spec"] = {**POD["spec"], "containers": [{**container, "env": env}]}
        [state] = item["status"]["containerStatuses"]
        item["status"] = {**POD["status"], "phase": item["status"]["phase"], "containerStatuses": [recorded | state]}
        fields = {"manager": "manager", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
        item["metadata"]["managedFields"] = [{**fields, "fieldsV1": _fields(item)}]
        yield _encoded(item, "Pod", "v1")


def _fields(value: object) -> dict:
    """Return the names of all fields of an object, as the API server notes who has set them."""
    if isinstance(value, list):
        return {f"k:{index}": {".": {}, **_fields(entry)} for index, entry in enumerate(value)}
    return {f"f:{key}": _fields(entry) for key, entry in value.items()} if isinstance(value, dict) else {}


def _encoded(item: dict, kind: str, api: str) -> bytes:
    meta = {"resourceVersion": "7", "namespace": "ns", **item["metadata"]}
    return json.dumps({"kind": kind, "apiVersion": api, **item, "metadata": meta}).encode()

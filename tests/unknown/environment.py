"""The stage of one run of a scenario: the servers, the operator, and the launchers as processes."""

import asyncio
import contextlib
import json
import multiprocessing
import pathlib
import shutil
import signal
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import trustme

from tests.unknown import launcher
from tests.unknown.cluster import NAMESPACE, Cluster
from tests.unknown.hai import Hai
from tests.unknown.operators import OPERATORS

RUN = "run"
WORKFLOW = "wf"
LONGEST_SECONDS = 120.0  # of one launcher
_POLL_SECONDS = 0.03


class Certificate:
    """What the API servers of all runs show, and the file by which launchers trust it."""

    def __init__(self, folder):
        authority = trustme.CA()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self.tls)
        self.file = folder / "ca.crt"
        authority.cert_pem.write_to_path(self.file)


@dataclass
class Launcher:
    """One program of a scenario.

    Attributes:
        actor: Its name.
        node: The node of the Workflow that its pod is; empty = it is in no pod.
        process: It.
        folder: Its files.
        trains: It is the step `train`.
        tasks: Returns the tasks that have jobs which have not ended.
        left: Those whose jobs had not ended when it ended.
        began: When it was started, by the monotonic clock.
    """

    actor: str
    node: str
    process: multiprocessing.Process
    folder: pathlib.Path
    trains: bool
    tasks: Callable[[], set[str]]
    left: set[str] = field(default_factory=set)
    began: float = field(default_factory=time.monotonic)
    took: float = 0.0
    code: int | None = None

    @property
    def ended(self):
        if self.code is None and not self.process.is_alive():
            self.code, self.took = self.process.exitcode, time.monotonic() - self.began
            self.left = self.tasks()
            self.process.close()
        return self.code is not None

    @property
    def pod(self):
        return f"pod-{self.actor}"

    @property
    def output(self):
        return (self.folder / "output").read_text(errors="replace")

    @property
    def message(self):
        """The last line that it printed."""
        return (self.output.strip().splitlines() or [""])[-1]

    def signal(self, number):
        if not self.ended:
            self.process.kill() if number is signal.SIGKILL else self.process.terminate()


class Environment:
    """One run of a scenario.

    Attributes:
        system: The job system.
        cluster: The API server.
        hai: HAI Platform; None for a system of Kubernetes.
        asked: Tasks whose job somebody asked to stop.
        unneeded: Tasks whose job may be removed.
        launchers: In the order of their start.
    """

    def __init__(self, system, zygote, certificate, folder, *, fault=None, point=None, mutant=""):
        self.system = system
        self.on_hai = system == "hai"
        here = point is not None and point.kind.startswith("hai ")
        self.cluster = Cluster("kubeflow" if self.on_hai else system, fault, None if here else point)
        self.hai = Hai(fault, point if here else None) if self.on_hai else None
        self.jobs = self.hai or OPERATORS[system](self.cluster)
        self.asked: set[str] = set()
        self.launchers: list[Launcher] = []
        self.unneeded: set[str] = set()
        self._zygote, self._certificate, self._folder, self._mutant = zygote, certificate, folder, mutant

    @property
    def servers(self):
        return [self.cluster, *([self.hai] if self.hai else [])]

    @property
    def requests(self):
        """All that was asked, in order."""
        return sorted(
            (request for server in self.servers for request in server.requests), key=lambda request: request.at
        )

    @contextlib.asynccontextmanager
    async def open(self):
        """Start the servers for the length of the block."""
        await self.cluster.start(self._certificate.tls)
        if self.hai:
            await self.hai.start()
        try:
            yield self
        finally:
            for item in self.launchers:
                item.signal(signal.SIGKILL)
            await self.until(lambda: all(item.ended for item in self.launchers))
            for server in self.servers:
                await server.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    # --- what the engine does

    def workflow(self, name):
        """Return a Workflow; it is made if there is none."""
        strategy = {"retryStrategy": {"retryPolicy": "Always", "limit": "3"}}
        spec = {"templates": [{"name": "tried", **strategy}, {"name": "once"}]}
        running = {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Running", "nodes": {}}}
        return self.cluster.get("workflows", name) or self.cluster.put("workflows", running)

    def node(self, name, phase, template="once"):
        """Let a node of its Workflow be in a phase; a node with tries has the template `tried`."""
        node = {"id": name, "name": name, "phase": phase, "type": "Pod", "templateName": template}
        workflow = self.workflow(name.partition(".")[0])["metadata"]["name"]
        self.cluster.patch("workflows", workflow, {"status": {"nodes": {name: node}}})

    def train(self, actor, node=f"{WORKFLOW}.fit", *, tries=False, phase="Running", **inputs):
        """Start the step `train` as an actor, in a pod."""
        job = {"name": "mnist", "image": "i", "command": ["train"], "roles": {"worker": {}, "chief": {}}}
        job |= {"output_dir": "/tmp/out" if self.on_hai else "", "volumes": []}
        if self.on_hai:
            job |= {"roles": {"worker": {}}, "systems": {"hai": {"workspace": "/w"}}}
        job |= inputs.pop("job", {})
        values = {"spec": json.dumps({key: value for key, value in job.items() if value not in ("", [])}),
                  "system": self.system, **inputs}  # fmt: skip
        return self.step("train", actor, node, tries=tries, phase=phase, **values)

    def step(self, component, actor, node, *, tries=False, phase="Running", **inputs):
        """Start a step as an actor, in a pod."""
        name = f"{node}({len(self.launchers)})" if tries else node
        self.node(name, phase, "tried" if tries else "once")
        workflow = self.workflow(node.partition(".")[0])["metadata"]
        owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "controller": True}
        owner |= {"name": workflow["name"], "uid": workflow["uid"]}
        annotations = {"workflows.argoproj.io/node-name": name, "workflows.argoproj.io/node-id": name}
        labels = {"workflows.argoproj.io/workflow": workflow["name"]}
        meta = {"name": f"pod-{actor}", "annotations": annotations, "labels": labels, "ownerReferences": [owner]}
        spec = {"containers": [{"name": "main", "image": "launcher"}]}
        self.cluster.put("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})
        env = {"POD_NAME": f"pod-{actor}", "TFSTEPS_NODE_NAME": name, "TFSTEPS_WORKFLOW": workflow["name"]}
        arguments = ["--argo", component, *(f"{key}={value}" for key, value in inputs.items())]
        return self.start(f"tfsteps.steps.{component}.launcher", actor, arguments, env, node=name)

    def start(self, program, actor, arguments, env=None, *, node=""):
        """Start a program as an actor, with the ServiceAccount of a pod."""
        folder = self._folder / actor
        folder.mkdir(parents=True)
        (folder / "token").write_text(actor)
        (folder / "namespace").write_text(NAMESPACE)
        (folder / "ca.crt").symlink_to(self._certificate.file)
        (folder / "termination-log").touch()
        variables = {
            "TFSTEPS_HOME": str(folder / "home"),
            "TFSTEPS_RUN_ID": RUN,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        }
        variables |= {"KUBERNETES_SERVICE_PORT": str(self.cluster.port), **(env or {})}
        if self.hai:
            variables |= {"TFSTEPS_HAI_SERVER": f"http://127.0.0.1:{self.hai.port}", "TFSTEPS_HAI_TOKEN": actor}
        start = launcher.Start(program, arguments, str(folder), variables, self._mutant)
        process = self._zygote.Process(target=launcher.main, args=(start,), daemon=True)
        process.start()
        self.launchers.append(Launcher(actor, node, process, folder, ".train." in program, self._tasks))
        return self.launchers[-1]

    def take_away(self, launched):
        """Evict a launcher's pod: mark it, and send SIGTERM."""
        disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        change = {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}, "status": {"conditions": [disrupted]}}
        self.cluster.patch("pods", launched.pod, change)
        launched.signal(signal.SIGTERM)

    async def kill(self, *launchers):
        """Kill launchers with no SIGTERM before: their nodes are lost."""
        for item in launchers:
            item.signal(signal.SIGKILL)
            self.cluster.remove("pods", item.pod)
        await self.ended(*launchers)

    def stop(self, launched):
        """Ask a launcher to stop its job."""
        self.asked |= {self.task(launched)}
        launched.signal(signal.SIGTERM)

    def terminate(self):
        """Terminate the Workflow as a user does; the engine then sends SIGTERM to its steps."""
        self.cluster.patch("workflows", WORKFLOW, {"spec": {"shutdown": "Terminate"}})
        self.asked |= {self.task(item) for item in self.launchers}
        for item in self.launchers:
            item.signal(signal.SIGTERM)

    @staticmethod
    def task(launched):
        return launched.node.partition("(")[0]

    # --- waiting

    async def until(self, condition, *launchers):
        """Wait until a condition holds, or all of `launchers` have ended; tell whether it holds."""
        end = time.monotonic() + LONGEST_SECONDS
        while not (holds := condition()) and time.monotonic() < end:
            if launchers and all(item.ended for item in launchers):
                return bool(condition())
            await asyncio.sleep(_POLL_SECONDS)
        return bool(holds)

    async def ended(self, *launchers):
        """Wait until the launchers have ended."""
        await self.until(lambda: False, *launchers)
        for item in launchers:
            if not item.ended:
                item.signal(signal.SIGKILL)
                await self.until(lambda item=item: item.ended)

    def asked_for(self, launched, kind):
        """Tell whether a launcher has sent a request of a kind."""
        return any(request.actor == launched.actor and request.point.kind == kind for request in self.requests)

    def follows(self, launched):
        """Tell whether a launcher has read the log of its job."""
        kind = "hai /query/task/log" if self.hai else "log pods"
        return self.asked_for(launched, kind)

    @property
    def looks(self):
        """The kind of request by which a launcher looks for the job of an earlier one."""
        return "hai /query/task" if self.hai else f"get {self.jobs.plural}"

    # --- the jobs

    def job(self, task=f"{WORKFLOW}.fit"):
        """Return the newest job of a task; None = there is none."""
        return next((job for job in reversed(self.jobs.jobs()) if self.task_of(job) == task), None)

    @staticmethod
    def task_of(job):
        """Return the node that has launched a job."""
        return job["metadata"]["annotations"]["tfsteps.dev/launcher"]

    def _tasks(self):
        return {self.task_of(job) for job in self.jobs.jobs() if job["metadata"]["uid"] not in self.jobs.results}

    def end(self, result, task=f"{WORKFLOW}.fit"):
        """Let the program of a task's job end."""
        if job := self.job(task):
            self.jobs.end(job, result)

"""What many waits cost one API server: TFJobs that nobody runs, each watched as its launcher would.

A test cluster cannot run a thousand jobs, so they are created suspended, and some are ended by patching their status.
A thousand processes would not fit either: the launchers' own watches (two a job) wait in one process.
"""

import concurrent.futures
import contextlib
import os
import secrets
import threading
import time
from collections.abc import Iterator

from benchmarks.measure import Row
from tests.cluster import paths
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.resource import Resource
from tfsteps.kube.watch import Changed, Listed, Seen, Watch
from tfsteps.runs.identity import MANAGED_BY
from tfsteps.systems.kubeflow.tfjob import TFJob

JOBS = {True: 100, False: 1000}
ENDED = 50
SECONDS = {True: 30.0, False: 120.0}  # that requests are counted for
RENEWED = 3300.0  # a watch is kept open so long, on average; then it is a list and a watch again
NAMESPACES = Resource("v1", "namespaces", "Namespace")
PODS = Resource("v1", "pods", "Pod")
OPENERS = 8
STACK = 256 << 10  # for each of the threads: two thousand of the usual 8 MiB are refused in many containers


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield both rows; `quick` waits on fewer jobs."""
    os.environ.setdefault("KUBECONFIG", str(paths.KUBECONFIG))
    threading.stack_size(STACK)
    count = JOBS[quick]
    fleet = Fleet(count)
    with fleet.launched():
        begun = fleet.api.requests
        time.sleep(SECONDS[quick])
        seen = (fleet.api.requests - begun) / SECONDS[quick]
        renewals = 2 * 2 * count / RENEWED  # a list and a watch for each of a job's two watches
        yield Row(
            "thousand_waits_requests_per_s",
            f"requests of {count} waits: {seen:.2f} a second seen in {SECONDS[quick]:.0f} s, and the watches' renewal; "
            "suspended jobs, all watches in one process",
            seen + renewals,
            "1/s",
            5 * count / 1000,
            1,
        )
        delays = sorted(fleet.end(item * count // ENDED) for item in range(ENDED))
        yield Row(
            "thousand_waits_end_seen_s",
            f"the longest time from a status patched to its wait's end, of {ENDED} of {count}",
            delays[-1],
            "s",
            1,
            ENDED,
        )


class CountingApi(Api):
    """Counts every request that is sent."""

    requests = 0

    def open(self, *args, **options):
        self.requests += 1
        return super().open(*args, **options)


class Fleet:
    """Suspended jobs in a namespace of their own, and the watches of their launchers.

    Attributes:
        api: The cluster, as the watches see it.
    """

    def __init__(self, count: int) -> None:
        self.api = CountingApi(access.find())
        self._admin = Api(access.find())
        self._namespace = f"bench-{secrets.token_hex(3)}"
        self._count = count
        self._listed = threading.Semaphore(0)
        self._ends = [threading.Event() for _ in range(count)]
        self._at = [0.0] * count

    @contextlib.contextmanager
    def launched(self) -> Iterator[None]:
        """Create the jobs and wait on each, for the length of the block."""
        namespace = self._admin.create(NAMESPACES, "", {"metadata": {"name": self._namespace, "labels": MANAGED_BY}})
        try:
            with concurrent.futures.ThreadPoolExecutor(OPENERS) as pool:
                list(pool.map(self._create, range(self._count)))
                list(pool.map(self._watch, range(self._count)))
            time.sleep(5)  # the last watches are opened, and the operator has looked at every job
            yield
        finally:
            self.api.stopping.set()
            self._admin.delete(NAMESPACES, "", self._namespace, namespace["metadata"]["uid"])

    def end(self, number: int) -> float:
        """End one job; return the seconds until its wait has seen it."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        condition = {
            "type": "Succeeded",
            "status": "True",
            "reason": "Benchmark",
            "message": "",
            "lastTransitionTime": now,
        }
        path = TFJob.resource.path(self._namespace, f"wait-{number}", "status")
        begin = time.monotonic()
        self._admin.request("PATCH", path, {}, {"status": {"conditions": [condition], "replicaStatuses": {}}})
        if not self._ends[number].wait(30):
            raise SystemExit(f"wait-{number} has not seen its end after 30 s")
        return self._at[number] - begin

    def _create(self, number: int) -> None:
        container = {"name": TFJob.container, "image": "none:1"}
        worker = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
        item = {
            "apiVersion": TFJob.resource.api,
            "kind": TFJob.resource.kind,
            "metadata": {"name": f"wait-{number}", "labels": MANAGED_BY},
            "spec": {"runPolicy": {"suspend": True}, "tfReplicaSpecs": {"Worker": worker}},
        }
        self._admin.create(TFJob.resource, self._namespace, item)

    def _watch(self, number: int) -> None:
        """Open the watches of one launcher, and wait until both have listed."""
        name, listed = f"wait-{number}", threading.Semaphore(0)

        def job(seen: Seen) -> None:
            match seen:
                case Listed():
                    listed.release()
                case Changed(item=item) if TFJob().verdict(item).state.terminal:
                    self._at[number] = time.monotonic()
                    self._ends[number].set()

        Watch(self.api, TFJob.resource, self._namespace, job, fieldSelector=f"metadata.name={name}")
        selector = TFJob().selector(name)
        Watch(self.api, PODS, self._namespace, lambda _: listed.release(), labelSelector=selector)
        for _ in range(2):
            listed.acquire()

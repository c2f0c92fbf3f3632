"""Follows one job of a small API server to a decision, in this process: `python -m benchmarks.walk_jobs verdict|evict`.

verdict: a TFJob that has failed is followed, and the exit code of its step is returned. evict: the launcher's pod is
being evicted while the job runs. The servers are those of the tests at the wire.
"""

import os
import sys
import time

from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, refusal, serve
from tests.wire.test_keeper import Cluster, stopped
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.launcher.failure import exit_code
from tfsteps.launcher.lifecycle import resume
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.systems import kubeflow

JOB = spec.from_plain({"name": "job", "image": "a:1", "roles": {"worker": {}}})


def verdict() -> int:
    """Follow a job that has failed, and return the exit code of its step."""

    def script(asked):
        if asked.path.endswith("/log"):
            return Answer(parts=[b"2026-11-24T03:00:00.000000000Z Traceback: no such file\n"])
        if "watch" in asked.query:
            return Answer(parts=["hang"])
        items = {
            "tfjobs": tfjob("Failed"),
            "pods": pod(
                {
                    "phase": "Failed",
                    "containerStatuses": [
                        {
                            "name": "tensorflow",
                            "restartCount": 0,
                            "state": {
                                "terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-24T03:00:00Z"}
                            },
                        }
                    ],
                }
            ),
        }
        plural = asked.path.rpartition("/")[2]
        if asked.method == "GET" and plural in items:
            return Answer(body={"metadata": {"resourceVersion": "1"}, "items": [items[plural]]})
        return Answer(body=tfjob("Failed")) if "/tfjobs/job" in asked.path else refusal(404, "NotFound")

    with serve(script) as server:
        access.find = lambda _context="": server.access()
        worker = ReplicaStatus(role="worker", index=0)
        first = Status(
            identity=Identity(run="r", task="t"),
            system="kubeflow",
            job="job",
            uid="u1",
            namespace="ns",
            created=time.time(),
            replicas=[worker],
        )
        status = resume(JOB, first, kubeflow.PLUGIN.system())
        assert status.state is State.FAILED, status
        return exit_code(status)


def evict() -> str:
    """Return why the launcher of an evicted pod left its job."""
    return str(stopped(Cluster()))


def main() -> None:
    """Run the walk that the command line names, and print its result."""
    os.environ.pop("KUBERNETES_SERVICE_HOST", None)
    print({"verdict": verdict, "evict": evict}[sys.argv[1]]())


if __name__ == "__main__":
    main()

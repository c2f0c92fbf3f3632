"""Every loop that sends requests pauses between them, and the more the longer it fails, whatever the answers are."""

import contextlib
import threading
import time
import types

import pytest

from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, refusal, serve
from tests.wire.test_hai_incarnations import ENDED
from tests.wire.test_job import listed
from tests.wire.test_logs import line
from tfsteps import spec
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.event_loop import EventLoop
from tfsteps.kube.logs import ContainerLog
from tfsteps.kube.resource import PODS
from tfsteps.kube.watch import Watch
from tfsteps.launcher.notify.delivery import Delivery, Message
from tfsteps.launcher.notify.notification import checked
from tfsteps.platforms.hai.client import Client
from tfsteps.platforms.hai.job import HaiJob
from tfsteps.runs.events import replicas_of
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow import volume_reader
from tfsteps.systems.kubernetes.follow.job import KubernetesJob

SECONDS = 2.5
MOST = 18  # requests in this time; pauses of a tenth of a second that do not grow would make 25
MOST_BUSY = 4  # if the server asks to wait 30 seconds: each of its clients learns that once
JOB = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {}}})

FAULTS = {
    "503": refusal(503, "ServiceUnavailable"),
    "429": refusal(429, "TooManyRequests", **{"Retry-After": "30"}),
    "reset": "reset",
    "nothing": Answer(body=b""),
    "cut": Answer(parts=[b"", "cut"]),
    "log-in page": Answer(body=b"<html>log in</html>", headers={"Content-Type": "text/html"}),
    "another object": Answer(body=b"{}"),
    "another line": lambda asked: Answer(body=line(round(asked.at * 1000) % 60, f"line at {asked.at}")),
}
ONE, TWO = Answer(body=line(1, "one")), Answer(body=line(2, "two"))


def log(api, stop, *, ended=False, restarts=0):
    loop = EventLoop()
    with contextlib.closing(loop):
        nothing = types.SimpleNamespace(put=lambda _: None, closed=lambda _: None)
        reader = ContainerLog(loop, api, "ns", "p", "c", put=nothing.put, closed=nothing.closed)
        stop.wait(0.5)
        reader.tell(restarts, ended=ended)
        stop.wait()


def watch(api, stop):
    Watch(api, PODS, "ns", lambda _: None)
    stop.wait()


def kubernetes_job(api, _):
    for _ in KubernetesJob(api, TFJob(), tfjob(), JOB, None).events():
        pass


def hai_job(api, _):
    replicas = replicas_of(JOB.roles.items())
    for _ in HaiJob(Client(api.access), replicas, name="job", chain_id="c", created=0.0).events():
        pass


LOOPS = {
    "log": (log, []),
    "log after a line": (log, [ONE]),
    "rotated log": (log, [ONE, TWO]),
    "log of an ended container": (lambda api, stop: log(api, stop, ended=True), [ONE]),
    "log of a restarted container": (lambda api, stop: log(api, stop, restarts=1), [ONE]),
    "list": (watch, []),
    "watch": (watch, [listed(pod("running"))]),
    "request": (lambda api, _: api.get(PODS, "ns", "p"), []),
    "job on Kubernetes": (kubernetes_job, [listed(pod("running"))]),
    "output of the volume reader": (lambda api, _: volume_reader._printed(api, "ns", "p"), []),
    "request to HAI": (lambda api, _: Client(api.access).query(chain_id="c"), []),
    "job on HAI": (hai_job, []),
    "logs of an ended job on HAI": (hai_job, [Answer(body={"success": 1, "result": {"task": ENDED}})]),
    "notification": (
        lambda api, stop: Delivery(checked(api.access.server)).send(Message("i", "failed", b"{}"), 60, stop),
        [],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_no_reason_for_a_flood_of_requests(name):
    fault, most = FAULTS[name], MOST_BUSY if name == "429" else MOST
    stop, servers, apis = threading.Event(), {}, []

    def script(first):
        rest = list(first)
        return lambda asked: rest.pop(0) if rest else fault(asked) if callable(fault) else fault

    def run(loop, api):
        with contextlib.suppress(ApiError, LaunchError, Stopped):
            loop(api, stop)

    with contextlib.ExitStack() as stack:
        for title, (loop, first) in LOOPS.items():
            servers[title] = stack.enter_context(serve(script(first)))
            apis.append(Api(servers[title].access()))
            threading.Thread(target=run, args=(loop, apis[-1]), daemon=True).start()
        time.sleep(SECONDS)
        counts = {title: len(server.asked) for title, server in servers.items()}
        for api in apis:
            api.stopping.set()
        stop.set()
    assert {title: count for title, count in counts.items() if not 0 < count <= most} == {}

"""A job of 1000 replicas: only the reader of a pod's log is notified of a change of that pod."""

import resource

from tests.unit.systems.kubernetes.objects import pod, tfjob
from tfsteps import spec
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import Access
from tfsteps.kube.threads import Inbox
from tfsteps.kube.watch import Changed, Deleted, Listed
from tfsteps.runs.events import ReplicaChanged, replicas_of
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow import following
from tfsteps.systems.kubernetes.follow.following import PodFollower
from tfsteps.systems.kubernetes.follow.tracker import Tracker

REPLICAS = 1000
JOB = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {"replicas": REPLICAS}}})


class Reader:
    """Stands where a log is read, and notes what it is told."""

    events: list[str]

    def __init__(self, _loop, _api, _namespace, pod, _container, **_how):
        self._pod = pod

    def tell(self, _restarts, *, ended):
        self.events.append(f"{self._pod} {ended}")

    def gone(self):
        self.events.append(f"{self._pod} gone")


def test_a_thousand_logs_may_be_open_where_1024_files_may():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        following.PodLogs(Api(Access("http://127.0.0.1:1", "ns", None, str, "no cluster")), "ns", "c", print)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1024
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_change_of_a_pod_reaches_only_the_reader_of_that_pod(monkeypatch):
    monkeypatch.setattr(following, "ContainerLog", Reader)
    monkeypatch.setattr(Reader, "events", [], raising=False)
    monkeypatch.setattr(PodFollower, "_label", lambda *_: None)
    api = Api(Access("http://127.0.0.1:1", "ns", None, str, "no cluster"))
    tracker = Tracker(TFJob(), tfjob(), replicas_of(JOB.roles.items()), 0.0)
    followed = PodFollower(api, api, TFJob(), tracker, Inbox())

    def see(seen):
        before = len(Reader.events)
        for _ in followed.saw(seen, 1.0):
            pass
        return Reader.events[before:]

    running = [pod("running", f"worker-{i}", f"p{i}") for i in range(REPLICAS)]
    assert len(see(Listed(running))) == REPLICAS
    assert see(Changed(running[7])) == ["job-worker-7 False"]
    assert see(Changed(pod("out of memory", "worker-7", "p7"))) == ["job-worker-7 True"]
    assert see(Deleted(running[8])) == ["job-worker-8 gone"]
    assert "job-worker-9 gone" in see(Listed(running[10:]))


def test_the_end_of_a_pod_that_the_watch_and_the_last_look_report_is_processed_once(monkeypatch):
    monkeypatch.setattr(following, "ContainerLog", Reader)
    monkeypatch.setattr(Reader, "events", [], raising=False)
    looked_up = []
    monkeypatch.setattr(PodFollower, "_label", lambda _self, meta: looked_up.append(meta["resourceVersion"]))
    api = Api(Access("http://127.0.0.1:1", "ns", None, str, "no cluster"))
    followed = PodFollower(api, api, TFJob(), Tracker(TFJob(), tfjob(), replicas_of(JOB.roles.items()), 0.0), Inbox())

    def see(status, version):
        item = pod(status)
        item["metadata"]["resourceVersion"] = version
        looked_up.clear()
        events = list(followed.saw(Changed(item), 1.0))
        return [event.state.value for event in events if isinstance(event, ReplicaChanged)], [*looked_up]

    assert see("running", "7") == (["running"], ["7"])
    assert see("running", "7") == ([], ["7"]), "of a pod that runs, each event counts"
    assert see("succeeded", "8") == (["succeeded"], ["8"])
    assert see("succeeded", "8") == ([], []), "known"
    assert see("succeeded", "9") == ([], ["9"]), "another version: something may have changed"
    assert see("succeeded", "") == ([], [""]), "no version: it is not known what changed"
    assert see("succeeded", "") == ([], [""])

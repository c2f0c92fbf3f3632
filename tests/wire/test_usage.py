"""The usage of a job's pods by a scripted metrics API: also absent, forbidden, broken, stale, and with odd items."""

import itertools
import time

import pytest

from tests.support.waiting import until
from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, refusal, serve
from tests.wire.test_job import JOB, events, listed
from tfsteps import spec
from tfsteps.kube.client import Api
from tfsteps.runs.events import State, UsageSampled
from tfsteps.runs.usage import Sample
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow import usage
from tfsteps.systems.kubernetes.follow.job import KubernetesJob

PATH = "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"
ABSENT = Answer(404, b"404 page not found\n", {"Content-Type": "text/plain"})
DOWN = refusal(503, "ServiceUnavailable", "the server is currently unable to handle the request")
MIB = 1 << 20


def metrics(second, *containers, name="job-worker-0", **more):
    """Return a PodMetrics object; containers are (name, cpu, memory)."""
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "timestamp": f"2026-01-01T00:00:{second:02}Z",
        "window": "15.011s",
        "containers": [{"name": n, "usage": {"cpu": c, "memory": m}} for n, c, m in containers],
        **more,
    }


def answer(*items):
    return Answer(body={"kind": "PodMetricsList", "metadata": {}, "items": list(items)})


ONE = metrics(5, ("tensorflow", "1500000000n", "204800Ki"))
AT = 1_767_225_605.0


@pytest.fixture
def follow(monkeypatch):
    """Follow a job with one running pod until the metrics API was asked so often, and return its events.

    Returns:
        The events of usage, and when each request for metrics came.
    """
    monkeypatch.setattr(usage, "_SECONDS", 0.05)
    monkeypatch.setattr(usage, "_LEAST", 0.05)
    monkeypatch.setattr(usage, "_LONGEST", 0.05)
    monkeypatch.setattr(usage, "_FIRST_PAUSE", 0.1)

    def run(answers, requests, *pods, longer=0.3, job=JOB):
        answers, asked = itertools.chain(answers, itertools.repeat(answers[-1])), []

        def script(request):
            if request.path == PATH:
                asked.append(request)
                return next(answers)
            if request.path.endswith("/log"):
                return Answer(body=b"")
            if "watch" not in request.query:
                return listed(tfjob("Running")) if request.path.endswith("/tfjobs") else listed(*pods)
            if request.path.endswith("/tfjobs"):
                until(lambda: len(asked) >= requests)
                time.sleep(longer)
                return events(("MODIFIED", tfjob("Succeeded")))
            return events()

        with serve(script) as server:
            followed = KubernetesJob(Api(server.access()), TFJob(), tfjob(), job, None)
            seen = list(followed.events())
        assert seen[-1].state is State.SUCCEEDED
        assert followed.warnings == []
        assert {(r.method, r.query["labelSelector"]) for r in asked} <= {("GET", TFJob().selector("job"))}
        return [event for event in seen if isinstance(event, UsageSampled)], [request.at for request in asked]

    return run


def samples(seen):
    assert not [event.note for event in seen if event.note]
    return [sample for event in seen for sample in event.samples]


@pytest.mark.shows("usage")
def test_each_container_is_sampled_with_the_time_and_window_of_the_metrics(follow):
    first = metrics(5, ("tensorflow", "1500000000n", "204800Ki"), ("istio-proxy", "12m", "50M"))
    second = metrics(50, ("tensorflow", "2", "1Gi"))
    seen, _ = follow([answer(first), answer(second)], 3, pod("running"))
    assert samples(seen) == [
        Sample(at=AT, window=15.0, replica="worker-0", cpu=1.5, memory=200 * MIB),
        Sample(at=AT, window=15.0, replica="worker-0", container="istio-proxy", cpu=0.012, memory=50_000_000),
        Sample(at=AT + 45, window=15.0, period=45.0, replica="worker-0", cpu=2.0, memory=1024 * MIB),
    ]


def test_one_request_asks_for_all_replicas(follow):
    job = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {"replicas": 3}}})
    pods = [pod("running", f"worker-{i}", f"p{i}") for i in range(3)]
    items = [metrics(5, ("tensorflow", f"{i}", "1Mi"), name=f"job-worker-{i}") for i in range(3)]
    seen, _ = follow([answer(*items), answer()], 3, *pods, job=job)
    assert [(s.replica, s.cpu) for s in samples(seen)] == [("worker-0", 0.0), ("worker-1", 1.0), ("worker-2", 2.0)]
    assert len(seen) == 1


def test_the_same_sample_twice_is_recorded_once_and_an_older_one_never(follow):
    answers = [answer(metrics(second, ("tensorflow", "1", "1Mi"))) for second in (5, 5, 20, 5, 20, 35)]
    seen, _ = follow(answers, 7, pod("running"))
    assert [s.at - AT for s in samples(seen)] == [0, 15, 30]


def test_pods_that_the_job_does_not_have_are_left_out(follow):
    gone, other = (metrics(5, ("tensorflow", "1", "1Mi"), name=name) for name in ("job-worker-7", "other"))
    seen, _ = follow([answer(gone, ONE, other)], 1, pod("running"))
    assert [s.replica for s in samples(seen)] == ["worker-0"]


@pytest.mark.parametrize(
    "odd",
    [
        {"metadata": {"name": "job-worker-0"}},
        {"metadata": {}},
        metrics(5, ("tensorflow", "much", "1Mi")),
        metrics(5, ("tensorflow", "-1", "1Mi")),
        metrics(5, ("tensorflow", "1e300", "1Mi")),
        metrics(5, ("tensorflow", 1, "1Mi")),
        metrics(5, ("tensorflow", "1.2.3", "1Mi")),
        metrics(5, ("tensorflow", "1", "1e999999")),
        metrics(5, ("tensorflow", "1", "1Mi"), window=7),
        metrics(5, ("tensorflow", "1", "1Mi"), timestamp="yesterday"),
        metrics(5, ("tensorflow", "1", "1Mi"), timestamp=None),
        metrics(5, containers=[{"name": "tensorflow", "usage": {}}]),
        metrics(5, containers=7),
    ],
)
def test_an_odd_item_does_not_hide_the_others(follow, odd):
    seen, _ = follow([answer(odd, ONE)], 1, pod("running"))
    assert [(s.at, s.cpu) for s in samples(seen)] == [(AT, 1.5)]


@pytest.mark.parametrize(("window", "seconds"), [("30s", 30.0), ("1m0.5s", 60.5), ("500ms", 15.0), ("", 15.0)])
def test_a_window_that_is_not_understood_counts_as_that_of_metrics_server(follow, window, seconds):
    seen, _ = follow([answer({**ONE, "window": window})], 1, pod("running"))
    assert [s.window for s in samples(seen)] == [seconds]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (ABSENT, "the cluster does not serve metrics.k8s.io/v1beta1; usually metrics-server does."),
        (
            refusal(403, "Forbidden", "pods.metrics.k8s.io is forbidden"),
            "the launcher may not list pods.metrics.k8s.io; see what `tfsteps role` prints.",
        ),
    ],
)
def test_a_refusal_is_noted_once_and_asked_about_rarely(follow, refused, why):
    seen, asked = follow([refused], 1, pod("running"), longer=1.0)
    assert [event.note for event in seen] == [f"CPU and memory over time are not known: {why}"]
    assert len(asked) == 1


def test_an_api_that_is_down_is_asked_ever_more_seldom_and_noted_once(follow):
    seen, asked = follow([DOWN], 5, pod("running"), longer=0.0)
    (event,) = seen
    assert event.note.startswith("CPU and memory over time are not known: the metrics API does not answer: ")
    pauses = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert sum(pauses) >= (0.1 + 0.2 + 0.4 + 0.8) * 2 / 3


def test_samples_continue_after_the_api_was_down(follow):
    seen, _ = follow([answer(ONE), DOWN, "reset", answer(metrics(50, ("tensorflow", "2", "1Mi")))], 4, pod("running"))
    assert [s.at - AT for s in samples(seen)] == [0, 45]


def test_a_refusal_after_an_answer_is_a_restart_of_the_server(follow):
    seen, _ = follow(
        [answer(ONE), ABSENT, refusal(403, "Forbidden"), answer(metrics(50, ("tensorflow", "2", "1Mi")))],
        4,
        pod("running"),
    )
    assert [s.at - AT for s in samples(seen)] == [0, 45]


@pytest.mark.parametrize(
    "wrong",
    [
        b"<html>log in</html>",
        b"{",
        b"",
        b"[]",
        Answer(body={"kind": "PodList", "metadata": {}, "items": []}),
        b'{"kind": "PodMetricsList", "metadata": {}, "items": 7}',
    ],
)
def test_another_answer_than_metrics_counts_as_down(follow, wrong):
    wrong = wrong if isinstance(wrong, Answer) else Answer(body=wrong)
    seen, asked = follow([wrong, wrong, answer(ONE)], 3, pod("running"))
    assert [s.at for s in samples(seen)] == [AT]
    assert asked[2] - asked[0] >= (0.1 + 0.2) * 2 / 3


def test_no_metrics_of_new_pods_is_no_problem(follow):
    empty = Answer(body={"kind": "PodMetricsList", "metadata": {}, "items": None})
    seen, _ = follow([empty, answer(), answer(ONE)], 3, pod("running"))
    assert [s.at for s in samples(seen)] == [AT]


def test_nothing_is_asked_while_no_pod_runs(follow):
    _, asked = follow([answer(ONE)], 0, pod("unschedulable"), longer=1.0)
    assert asked == []


def test_nothing_is_asked_if_sampling_is_switched_off(follow, monkeypatch):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "0")
    _, asked = follow([answer(ONE)], 0, pod("running"), longer=1.0)
    assert asked == []

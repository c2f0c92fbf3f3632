"""What a launcher that follows a task of HAI says and does while HAI does not answer."""

import pytest

from tests.support.waiting import until
from tests.wire.scripted import Answer, serve
from tests.wire.test_keeper import Cluster, host_of
from tfsteps.answer import YES
from tfsteps.kube.credentials import Access
from tfsteps.platforms.hai.client import Client
from tfsteps.platforms.hai.job import HaiJob
from tfsteps.runs.events import JobChanged, ReplicaName, State
from tfsteps.systems.base import Cause, LaunchError

TASK = {"chain_id": "c", "nb_name": "job", "id": 1, "id_list": [1], "tags": [], "stop_code": 1}
RUNS = {**TASK, "chain_status": "running", "worker_status": "running"}
ENDED = {**TASK, "chain_status": "finished", "worker_status": "succeeded"}
EXPIRED = Answer(401, {"success": 0, "msg": "该 token 已经过期了"})


def shown(task):
    return Answer(body={"success": 1, "result": {"task": task}})


def follow(answers, changes=None):
    """Return the changes of a job, whose task is answered so; the last answer for ever. They are added to `changes`."""
    changes = [] if changes is None else changes
    answers = list(answers)

    def script(asked):
        if asked.path.endswith("/log"):
            return Answer(body={"success": 1, "data": "", "last_seen": None})
        return answers.pop(0) if len(answers) > 1 else answers[0]

    with serve(script) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        client = Client(Access(server=url, namespace="", tls=None, token=lambda _: "t", name="HAI"))
        job = HaiJob(client, [ReplicaName("worker", 0)], name="job", chain_id="c", created=0.0)
        for event in job.events():
            changes += [event] if isinstance(event, JobChanged) else []
        return changes


def test_a_refused_token_is_reported_at_once_and_so_is_the_state_when_it_is_accepted_again():
    changes = follow([shown(RUNS), EXPIRED, EXPIRED, shown(RUNS), shown(ENDED)])
    assert [(change.state, change.reason) for change in changes] == [
        (State.PENDING, ""),
        (State.PENDING, "NotFollowed"),
        (State.PENDING, ""),
        (State.SUCCEEDED, ""),
    ]
    assert "the token has expired" in changes[1].message
    assert "for 10m in all" in changes[1].message


def test_it_is_reported_now_and_then_until_the_launcher_gives_up(monkeypatch):
    monkeypatch.setattr("tfsteps.platforms.hai.job._NOTICE_SECONDS", 1.0)
    monkeypatch.setattr("tfsteps.platforms.hai.job.PATIENCE_SECONDS", 6.0)
    changes = []
    with pytest.raises(LaunchError, match="was not stopped") as error:
        follow([shown(RUNS), Answer(500, b"")], changes)
    assert error.value.retryable
    assert 2 <= [change.reason for change in changes].count("NotFollowed") <= 3


@pytest.mark.parametrize("status", [500, 503])
def test_a_short_outage_is_not_reported(status):
    changes = follow([shown(RUNS), Answer(status, b""), shown(RUNS), shown(ENDED)])
    assert [change.reason for change in changes] == ["", ""]


@pytest.mark.parametrize("between", [Answer(500, b""), Answer(body={"success": 0, "msg": "执行时出现错误"})])
def test_a_task_is_gone_only_if_hai_says_so_without_an_error_between(between, monkeypatch):
    monkeypatch.setattr("tfsteps.platforms.hai.job._GONE_SECONDS", 0.5)
    monkeypatch.setattr("tfsteps.platforms.hai.job.TASK_SECONDS", (0.1, 0.2))
    gone = Answer(body={"success": 0, "msg": "没有符合条件的任务"})
    assert follow([shown(RUNS), gone, between, gone, shown(ENDED)])[-1].state is State.SUCCEEDED
    assert follow([shown(RUNS), gone])[-1].reason == "Deleted"
    assert follow([shown(RUNS), *[between] * 3, shown(ENDED)])[-1].state is State.SUCCEEDED


def test_a_launcher_knows_before_sigterm_that_its_pod_is_taken_away_and_asks_nothing_at_it(monkeypatch):
    """Kubeflow Pipelines leaves no time for a question after the signal."""
    asked_at_sigterm, cluster, requests = [], Cluster(), []

    def platform(asked):
        if not asked.path.startswith("/query/"):
            requests.append(asked.path)
        return Answer(body={"success": 1, "data": "", "last_seen": None}) if "/log" in asked.path else shown(RUNS)

    def counted(asked):
        asked_at_sigterm.append(asked.path)
        return cluster(asked)

    with serve(counted) as kubernetes, serve(platform) as server:
        monkeypatch.setattr("tfsteps.platforms.hai.job.access.find", kubernetes.access)
        host = host_of(kubernetes, recreated=YES)
        url = f"http://127.0.0.1:{server.server_port}"
        client = Client(Access(server=url, namespace="", tls=None, token=lambda _: "t", name="HAI"))
        job = HaiJob(client, [ReplicaName("worker", 0)], name="job", chain_id="c", created=0.0, host=host)
        events = job.events()
        until(lambda: next(events) and host._deleting)
        asked_at_sigterm.clear()
        job.stop(Cause.CANCELLED)
        assert [path for path in asked_at_sigterm if path.endswith("/pods/step")] == []
        with pytest.raises(LaunchError, match="this pod is being evicted; the task was not stopped, and the next"):
            list(events)
        host._api.stopping.set()
    assert requests == []

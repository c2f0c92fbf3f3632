"""What becomes of a task of HAI while its launcher starts: created, adopted, left, or not known; and its group."""

import contextlib
import pathlib
import threading
import time
import types

import pytest

from tests.wire.scripted import Answer, serve
from tfsteps import spec
from tfsteps.kube.credentials import Access
from tfsteps.platforms import hai
from tfsteps.platforms.hai import schema
from tfsteps.platforms.hai.client import Client
from tfsteps.platforms.hai.options import HaiOptions
from tfsteps.runs.identity import Identity
from tfsteps.systems.base import Cause, LaunchError, StoppedError

IDENTITY = Identity(run="run", task="task")
NO_TASK = Answer(body={"success": 0, "msg": "没有符合条件的任务"})
DONE = Answer(body={"success": 1, "msg": ""})
THROTTLED = Answer(429, b"", {"Retry-After": "1"})
QUOTA = {"success": 1, "result": {"node_quota": {"node-training-LOW": 2, "node-big-gpu-NORMAL": 2}}}


def job(**fields):
    options = {"systems": {"hai": fields.pop("options", {})}}
    plain = {"name": "case", "roles": {"worker": {}}, "command": ["true"], "working_dir": "/ws", **options, **fields}
    return spec.from_plain(plain, "test", {"hai": HaiOptions})


class Platform:
    """A platform that a test makes slow or deaf.

    Attributes:
        tasks: By name; as the requests created them.
        faults: What to answer in place of the next requests for a path, in order.
        late: Seconds after a request to create a task in which it exists and the answer is sent.
        stopped: Chains that were asked to stop.
        loses_answer: Whether the answer to that request is lost.
        quota: The answer to the request for the user's quotas.
    """

    def __init__(self):
        self.tasks, self.faults, self.stopped = {}, {}, []
        self.late, self.loses_answer = 0.0, False
        self.quota = Answer(body=QUOTA)
        self.default_group = "training"
        self.paths = []

    def answer(self, asked):
        action = asked.path.rpartition("/")[2]
        self.paths.append(action)
        if faults := self.faults.get(action):
            return faults.pop(0) if len(faults) > 1 else faults[0]
        return getattr(self, f"_{action}")(asked)

    def _task(self, asked):
        task = self.tasks.get(asked.query.get("nb_name"))
        return Answer(body={"success": 1, "result": {"task": task}}) if task else NO_TASK

    def _list(self, asked):
        if asked.path.startswith("/query/user"):
            return self.quota
        return Answer(body={"success": 1, "result": {"tasks": [], "total": 0}})

    def _create(self, asked):
        time.sleep(self.late)
        if asked.body["name"] in self.tasks:
            return Answer(body={"success": 0, "msg": "您名字为 a 的任务正在运行"})
        self.tasks[asked.body["name"]] = task = self.task(asked.body, f"chain-{len(self.tasks)}")
        return "reset" if self.loses_answer else Answer(body={"success": 1, "task": {**task, "tags": []}})

    def _stop(self, asked):
        self.stopped.append(asked.query["chain_id"])
        return DONE

    def task(self, body, chain):
        asked = body["resource"]["group"]
        group = self.default_group if asked == "default" else asked
        return {
            "id": 1, "chain_id": chain, "nb_name": body["name"], "tags": body["options"]["tags"], "group": group,
            "chain_status": "waiting_init", "priority": body["priority"], "config_json": {"schema": body},
        }  # fmt: skip

    def earlier(self, **fields):
        """Let an earlier launcher of the same attempt have created the task."""
        body = rendered(job(**fields))
        self.tasks[body["name"]] = self.task(body, "earlier")


def rendered(of):
    return schema.render(of, IDENTITY, hai.system().output_paths(of, IDENTITY, pathlib.Path()), "step")


@pytest.fixture
def platform():
    return Platform()


@pytest.fixture
def system(platform, monkeypatch):
    with serve(platform.answer) as server:
        monkeypatch.setenv("MARSV2_SERVER", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("MARSV2_USER_TOKEN", "t0ken")
        system = hai.system()
        system.__dict__["_host"] = None
        yield system


def in_pod(system, monkeypatch):
    monkeypatch.setattr("tfsteps.kube.access.find", lambda: Access("http://127.0.0.1:1", "", None, str, "nowhere"))
    pipeline = types.SimpleNamespace(owner={"name": "wf", "uid": "u"}, step="step", warnings=[], failure="")
    system.__dict__["_host"] = types.SimpleNamespace(
        namespace="ns",
        namespace_uid=lambda: "uid-of-ns",
        pipeline=pipeline,
        warnings=[],
        unread="",
        grace_seconds=1.5,
    )


def started(system, **fields):
    of = job(**fields)
    return system.start(of, IDENTITY, system.output_paths(of, IDENTITY, pathlib.Path()))


@contextlib.contextmanager
def stopped_once(platform, action, system):
    """Stop the launcher as soon as something was asked for."""

    def stop():
        while action not in platform.paths:
            time.sleep(0.01)
        system.give_up()

    thread = threading.Thread(target=stop)
    thread.start()
    yield
    thread.join()


@pytest.fixture
def short(monkeypatch):
    """Let answers be waited for less long."""
    monkeypatch.setattr("tfsteps.platforms.hai.job_system._GRACE_SECONDS", 1.5)
    monkeypatch.setattr("tfsteps.platforms.hai.job_system._ASK_SECONDS", 0.2)


def slow_client(system, read_seconds):
    client = Client(system._client.access, read_seconds=read_seconds)
    client.stopping = system._given_up
    system.__dict__["_client"] = client


# --- stopped while it starts


@pytest.mark.parametrize("fault", [THROTTLED, Answer(500, b""), "reset"], ids=["throttled", "500", "reset"])
@pytest.mark.parametrize("pod", [True, False], ids=["pod", "process"])
def test_a_successor_that_is_stopped_does_not_stop_the_task_of_its_predecessor(
    platform, system, monkeypatch, fault, pod
):
    platform.earlier()
    platform.faults["task"] = [
        fault,
        Answer(body={"success": 1, "result": {"task": next(iter(platform.tasks.values()))}}),
    ]
    if pod:
        in_pod(system, monkeypatch)
    with stopped_once(platform, "task", system), contextlib.suppress(StoppedError):
        assert started(system).uid == "earlier"  # whoever asked for it decides by the pod whether to stop it
    assert platform.stopped == []
    assert "create" not in platform.paths


@pytest.mark.usefixtures("short")
def test_a_task_that_is_created_late_is_found_after_a_stop(platform, system):
    platform.late = 1.0
    slow_client(system, 0.3)
    with stopped_once(platform, "create", system):
        handle = started(system)
    assert handle.uid == "chain-0"
    handle.stop(Cause.CANCELLED)
    assert platform.stopped == ["chain-0"]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("fault", ["hang", Answer(504, b""), Answer(200, b"<html>")], ids=["hang", "504", "html"])
def test_a_creation_without_an_answer_is_not_known(platform, system, fault):
    platform.faults["create"] = [fault]
    slow_client(system, 0.3)
    with stopped_once(platform, "create", system), pytest.raises(LaunchError, match=r"is not known") as error:
        started(system)
    assert error.value.retryable
    assert "`tfsteps stop run --on hai` stops it" in str(error.value)
    assert platform.stopped == []
    assert len(platform.paths) < 20


@pytest.mark.usefixtures("short")
def test_an_answer_to_a_refused_creation_is_the_end_of_it(platform, system):
    platform.faults["create"] = [Answer(503, b"")]
    with stopped_once(platform, "create", system), pytest.raises(StoppedError, match=r"before the task was created"):
        started(system)


@pytest.mark.usefixtures("short")
def test_in_a_pod_the_task_of_a_predecessor_that_cannot_be_asked_for_is_not_known(platform, system, monkeypatch):
    platform.earlier()
    platform.faults["task"] = [Answer(500, b"")]
    in_pod(system, monkeypatch)
    with stopped_once(platform, "task", system), pytest.raises(LaunchError, match=r"is not known") as error:
        started(system)
    assert error.value.retryable
    assert platform.stopped == []


def test_a_second_signal_ends_the_questions(platform, system):
    platform.faults["create"] = [Answer(504, b"")]
    began = time.monotonic()
    with stopped_once(platform, "create", system):
        threading.Timer(0.5, system.give_up).start()
        with pytest.raises(LaunchError, match=r"is not known"):
            started(system)
    assert time.monotonic() - began < 10


# --- created once


def test_a_task_whose_creation_was_not_answered_is_not_created_again(platform, system):
    platform.loses_answer = True
    assert started(system).uid == "chain-0"
    assert platform.paths.count("create") == 1


@pytest.mark.parametrize("fault", [THROTTLED, Answer(500, b""), Answer(200, b"{}")], ids=["429", "500", "shape"])
@pytest.mark.parametrize("action", ["task", "create"])
def test_requests_of_the_start_are_repeated(platform, system, action, fault):
    platform.faults[action] = [fault, NO_TASK] if action == "task" else [fault]
    if action == "create":
        threading.Timer(0.5, platform.faults.clear).start()
    assert started(system).uid == "chain-0"
    assert len(platform.tasks) == 1


def test_a_refusal_that_tells_nothing_about_the_task_creates_none(platform, system):
    platform.faults["task"] = [Answer(body={"success": 0, "msg": "执行时出现错误"})]
    with pytest.raises(LaunchError, match=r"the request failed on HAI"):
        started(system)
    assert "create" not in platform.paths


def test_a_task_whose_tags_are_not_there_yet_is_not_a_stranger_s(platform, system, monkeypatch):
    monkeypatch.setattr("tfsteps.platforms.hai.job_system._LOOK_SECONDS", 0.01)
    platform.earlier()
    (task,) = platform.tasks.values()
    task["tags"] = []
    with pytest.raises(LaunchError, match=r"whose it is is not known") as error:
        started(system)
    assert error.value.retryable
    task["config_json"] = {"schema": {"spec": {"environments": {}}}}
    with pytest.raises(LaunchError, match=r"was made from another job") as error:
        started(system)
    assert not error.value.retryable


# --- groups of nodes


@pytest.mark.parametrize("priority", [None, 50])
def test_a_group_that_the_user_has_no_quota_of_is_refused(platform, system, priority):
    with pytest.raises(LaunchError, match=r"'smal' is no group .* Allowed: big-gpu, training") as error:
        started(system, queue="smal", priority=priority)
    assert not error.value.retryable
    assert platform.tasks == {}


@pytest.mark.parametrize("queue", ["big-gpu", "big-gpu#zone", None])
def test_a_known_group_is_accepted(platform, system, queue):
    assert started(system, queue=queue)
    assert platform.stopped == []


@pytest.mark.parametrize(
    "quota",
    [
        Answer(404, {"detail": "Not Found"}),
        Answer(403, {"success": 0, "msg": "您无权访问该接口"}),
        Answer(200, {"success": 0}),
    ],
    ids=["no endpoint", "denied", "refused"],
)
def test_a_group_that_is_not_known_needs_a_priority(platform, system, quota):
    platform.quota = quota
    with pytest.raises(LaunchError, match=r"is not known .*set `priority`"):
        started(system, queue="small")
    assert platform.tasks == {}
    assert started(system, queue="small", priority=50)


def test_quotas_that_cannot_be_read_for_a_moment_are_asked_for_again(platform, system):
    platform.quota = Answer(500, b"")
    threading.Timer(0.5, lambda: setattr(platform, "quota", Answer(body=QUOTA))).start()
    with pytest.raises(LaunchError, match=r"is no group"):
        started(system, queue="small")


def test_a_default_group_without_a_quota_is_left_at_once(platform, system):
    platform.default_group = "other"
    with pytest.raises(LaunchError, match=r"'other' is no group .* was stopped at once"):
        started(system)
    assert platform.stopped == ["chain-0"]


def test_a_user_without_any_quota_does_not_stop_the_scheduler(platform, system):
    platform.quota = Answer(body={"success": 1, "result": {"node_quota": {}}})
    with pytest.raises(LaunchError, match=r"no quota of any group"):
        started(system)
    assert started(system, priority=50)


def test_in_a_pod_the_task_names_its_workflow_and_the_uid_of_its_namespace(platform, system, monkeypatch):
    in_pod(system, monkeypatch)
    started(system)
    (task,) = platform.tasks.values()
    tags = schema.labels(task)
    assert (schema.workflow(task), tags[schema.NAMESPACE_UID]) == (("ns", "wf", "u"), "uid-of-ns")

"""What HAI refuses, and what it says then: the same jobs by the rules of the job system and by the server."""

import pathlib
import time

import pytest

from tests.hai.environment import HaiEnvironment
from tests.hai.server import Server
from tfsteps import spec
from tfsteps.kube.credentials import Access
from tfsteps.kube.errors import ApiError
from tfsteps.platforms import hai
from tfsteps.platforms.hai import schema
from tfsteps.platforms.hai.client import Client, RequestRefusedError, newest_messages, translated
from tfsteps.platforms.hai.options import HaiOptions
from tfsteps.runs.identity import Identity


@pytest.fixture
def client(tmp_path):
    server = Server(tmp_path, nodes=0)
    yield client_of(server)
    server.close()


def client_of(server):
    return Client(Access(server=server.url, namespace="", tls=None, token=lambda _: "secret-token", name="HAI"), 0.0)


def job(*services, **fields):
    options = {"systems": {"hai": {"services": services}}} if services else {}
    plain = {"name": "case", "roles": {"worker": {}}, "command": ["true"], "working_dir": "/ws", **options, **fields}
    return spec.from_plain(plain, "test", {"hai": HaiOptions})


def rendered(asked):
    identity = Identity(run="run", task="task")
    return schema.render(asked, identity, hai.system().output_paths(asked, identity, pathlib.Path()), "task")


def test_a_service_whose_type_is_left_out_is_a_local_one(client):
    body = rendered(job({"name": "a", "startup_script": "sleep 1"}))
    assert client.create_task(body)["chain_id"]
    del body["services"][0]["type"]
    with pytest.raises(RequestRefusedError, match="may not have services of this type"):
        client.create_task({**body, "name": "other"})


@pytest.mark.parametrize(
    ("asked", "words", "answer"),
    [
        (job(queue="a#b#c"), "queue: 'a#b#c' is not a group", "HTTP 500"),
        (job(queue="a#"), "queue: 'a#' is not a group", ""),
        (job({"name": "ssh", "type": "tcp", "port": 22}), "is reserved for HAI", "reserved"),
    ],
)
def test_what_hai_refuses_or_does_not_survive_is_refused_before(client, asked, words, answer):
    assert words in "\n".join(map(str, hai.system().spec_problems(asked)))
    if answer:
        with pytest.raises(ApiError, match=answer):
            client.create_task(rendered(asked))


def test_a_task_of_an_unknown_group_would_stop_the_scheduler_for_every_user(tmp_path):
    with HaiEnvironment(tmp_path) as environment:
        healthy, harmful = (rendered(job(name=name, queue=name)) for name in ("v100", "unknown"))
        client = client_of(environment.server)
        client.create_task(harmful)
        client.create_task(healthy)
        time.sleep(0.3)
        assert {task.queue_status for task in environment.tasks()} == {"queued"}
        launcher = environment.launch({"roles": {"worker": {}}, "command": ["true"], "queue": "unknown"})
        assert launcher.wait() == 2
        assert "Allowed: training, v100" in launcher.text()
        assert len(environment.tasks()) == 2


def test_options_without_effect_on_the_open_source_platform_are_warned_of():
    options = {"assigned_nodes": ["n1"], "spot": True, "sidecar": [1], "watchdog_time": "1h"}
    warnings = "\n".join(hai.system().warnings(job(queue="a#b", systems={"hai": options})))
    for name in ("assigned_nodes", "zone", "spot", "sidecar", "watchdog_time"):
        assert name in warnings
    assert not hai.system().warnings(job(queue="a"))


def test_nodes_are_chosen_by_group_alone():
    problems = "\n".join(map(str, hai.system().spec_problems(job(node_selector={"a": "b"}))))
    assert "`queue`" in problems
    assert "assigned_nodes" not in problems


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("该 token 已经过期了", "the token has expired (该 token 已经过期了)"),
        ("用户没有使用内建镜像 [x] 的权限", "the user may not use this image"),
        ("something new", "something new"),
        ("", ""),
    ],
)
def test_known_messages_are_translated_and_others_shown_as_they_are(text, meaning):
    assert translated(text).startswith(meaning)


def test_the_system_log_of_the_newest_task_is_taken():
    line = "=" * 20
    first = f"id: 1\n----------\nsyslog:\nold\n\n{line}\n"
    second = f"id: 3 (current)\n----------\nsyslog:\nnew\noom log:\nkilled\n\n{line}\n"
    assert newest_messages(f"{line}\n{first}{second}") == ["new", "killed"]
    assert newest_messages(f"{line}\n{first}id: 3 (current)\n----------\nsyslog:\n\n\n{line}\n") == []
    assert newest_messages("") == []

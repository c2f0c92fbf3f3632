"""The client against the server: each endpoint, and each kind of answer."""

import pytest

from tests.hai.server import Server
from tests.wire.scripted import Answer, serve
from tfsteps.kube.credentials import Access
from tfsteps.kube.errors import ApiError
from tfsteps.platforms.hai.client import Client, RequestRefusedError


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path, nodes=0)  # nothing ever runs
    yield server
    server.close()


def client_of(server, token="secret-token", patience=60.0):
    return Client(Access(server=server.url, namespace="", tls=None, token=lambda _: token, name="HAI"), patience)


@pytest.fixture
def client(server):
    return client_of(server)


def schema(name="one", **fields):
    spec = {"entrypoint": "run.sh", "workspace": "/ws"}
    return {
        "version": 2,
        "name": name,
        "spec": spec,
        "resource": {"node_count": 2},
        "options": {"tags": ["a=b"]},
        **fields,
    }


def test_a_task_from_its_creation_to_its_end(client):
    created = client.create_task(schema())
    assert (created["chain_status"], created["tags"], created["queue_status"]) == ("", [], "queued")
    task = client.query(nb_name="one")
    assert (task["chain_status"], task["tags"], task["chain_id"]) == ("waiting_init", ["a=b"], created["chain_id"])
    client.suspend(created["chain_id"])  # a queued one stays as it is
    assert client.query_once(chain_id=created["chain_id"])["chain_status"] == "waiting_init"
    for _ in range(2):
        client.stop(created["chain_id"], "succeed")
    ended = client.query(id=str(created["id"]))
    assert (ended["chain_status"], ended["worker_status"], ended["stop_code"]) == ("finished", "canceled", 0)
    client.resume(created["chain_id"])
    again = client.query_once(chain_id=created["chain_id"])
    assert (again["chain_status"], again["restart_count"], len(again["id_list"])) == ("suspended", 1, 2)
    assert again["first_id"] == created["id"] != again["id"]


def test_tags_are_put_on_and_taken_off_and_found(client):
    chain = client.create_task(schema())["chain_id"]
    client.tag(chain, "paused", on=True)
    assert [task["chain_id"] for task in client.tagged("paused")] == [chain]
    client.tag(chain, "paused", on=False)
    assert client.tagged("paused") == []
    with pytest.raises(RequestRefusedError):
        client.tag(chain, "_mine", on=True)


def test_lists_come_page_by_page(server, client):
    for number in range(205):
        client.create_task(schema(f"task-{number}"))
    assert len(client.tagged("a=b")) == 205
    assert sum(path.endswith("list") for path, _ in server.requests) == 3


def page(names, total):
    tasks = [{"id": name, "chain_id": f"chain-{name}", "nb_name": f"task-{name}"} for name in names]
    return Answer(body={"success": 1, "result": {"tasks": tasks, "total": total}})


def test_a_list_that_changes_between_two_pages_is_read_again():
    shifted = [page(range(100), 150), page(range(101, 150), 149)]  # the first has ended: number 100 is on no page
    with serve([*shifted, page(range(1, 101), 149), page(range(101, 150), 149)]) as server:
        tasks = Client(server.access(), patience=0.5).tagged("t")
    assert [task["id"] for task in tasks] == list(range(1, 150))
    assert len(server.asked) == 4


@pytest.mark.parametrize("total", [3, 0], ids=["more", "fewer"])
def test_a_list_that_is_never_whole_is_no_list(total):
    with serve([page([1, 2], total)]) as server, pytest.raises(ApiError, match=f"lists 2 of {total} tasks") as caught:
        Client(server.access(), patience=0.5).tagged("t")
    assert caught.value.unavailable


@pytest.mark.parametrize("wrong", [{"version": 1}, {"priority": 7}, {"name": "a(b)"}, {"resource": {"node_count": 0}}])
def test_http_200_is_no_success(client, wrong):
    with pytest.raises(RequestRefusedError) as error:
        client.create_task(schema(**wrong))
    assert not error.value.unavailable
    assert str(error.value)


WRONG = {
    "HTML": b"<html>log in</html>",
    "null": b"null",
    "nothing": b"",
    "a list": b"[]",
    "an object": b"{}",
    "cut": b'{"success": 1, "ta',
    "success alone": b'{"success": 1}',
    "empty": b'{"success": 1, "task": {}, "result": {}}',
    "another shape": b'{"success": 1, "task": 7, "result": {"task": [], "tasks": {}, "total": "x"}, "data": {}}',
    "a task without a chain": b'{"success": 1, "task": {"nb_name": "a"}, "result": {"task": {"nb_name": "a"}}}',
    "a redirection": Answer(302, b"<html>"),
}
CALLS = {
    "create": lambda client: client.retry(lambda: client.create_task(schema())),
    "query": lambda client: client.query(nb_name="one"),
    "list": lambda client: client.tagged("t"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_an_answer_that_is_not_what_was_asked_for_is_like_a_502(wrong, call):
    answer = wrong if isinstance(wrong, Answer) else Answer(body=wrong)
    with serve([answer]) as server, pytest.raises(ApiError, match="not what was asked for") as caught:
        call(Client(server.access(), patience=0.5))
    assert caught.value.status == 502
    assert len(server.asked) > 1


def test_the_one_answer_without_success(client):
    with pytest.raises(ApiError, match=r"^HAI answered /\S+ with HTTP 422.*field required"):
        client.create_task({"name": "x"})


def test_a_name_is_taken_only_by_unfinished_tasks(client):
    chain = client.create_task(schema())["chain_id"]
    with pytest.raises(RequestRefusedError):
        client.create_task(schema())
    client.stop(chain)
    assert client.create_task(schema())["chain_id"] != chain


@pytest.mark.parametrize("token", ["other", "old"])
def test_a_wrong_token_is_not_retried_and_not_printed(server, token):
    server.platform.tokens["old"] = None
    with pytest.raises(ApiError, match="check the token in MARSV2_USER_TOKEN") as error:
        client_of(server, token=f"{token}").create_task(schema())
    assert token not in str(error.value).replace("token", "")
    assert len(server.requests) == 1


@pytest.mark.parametrize("external", [False, True])
def test_the_groups_of_the_user(server, client, external):
    server.platform.external = external
    server.platform.groups = ["training", "big-gpu"]
    assert client.groups() == {"training", "big-gpu"}


def test_what_is_not_there(client):
    assert client.query(nb_name="none") is None
    with pytest.raises(ApiError) as error:
        client.log_once("none", 0, None)
    assert error.value.status == 401


def test_a_busy_platform_is_asked_again_and_an_absent_one_not_for_ever(server, client):
    server.busy = 2
    assert client.query(nb_name="none") is None
    server.away = True
    with pytest.raises(ApiError, match="cannot be reached") as error:
        client_of(server, patience=0.3).query(nb_name="none")
    assert error.value.unavailable

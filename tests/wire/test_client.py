"""Requests of the Kubernetes client: what is sent, what is retried, what fails at once."""

import contextlib
import email.utils
import re
import threading
import time

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps.kube import client as api_module
from tfsteps.kube.client import Api
from tfsteps.kube.connections import retry_after
from tfsteps.kube.credentials import Access
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.resource import Resource

JOBS = Resource("kubeflow.org/v1", "tfjobs", "TFJob")
OK = Answer(body={"kind": "TFJob", "metadata": {"name": "a", "uid": "u"}})


def test_paths():
    pods = Resource("v1", "pods", "Pod")
    assert pods.path("ns", "p", "log") == "/api/v1/namespaces/ns/pods/p/log"
    assert JOBS.path("ns") == "/apis/kubeflow.org/v1/namespaces/ns/tfjobs"
    assert JOBS.path("") == "/apis/kubeflow.org/v1/tfjobs"


def test_a_page_that_refers_to_itself_is_not_asked_for_for_ever():
    page = Answer(body={"metadata": {"resourceVersion": "1", "continue": "again"}, "items": []})
    with serve([page]) as server:
        with pytest.raises(ApiError, match="its next page is the same page"):
            list(Api(server.access()).iterate(JOBS, "ns"))
        assert len(server.asked) == 2


NEW_QUOTA = refusal(403, "Forbidden", 'tfjobs.kubeflow.org "a" is forbidden: status unknown for quota: team')


@pytest.mark.parametrize(
    "trouble", [refusal(500), refusal(503), refusal(429), Answer(502, b"<html>bad"), "reset", NEW_QUOTA]
)
def test_an_unavailable_server_is_asked_again(trouble):
    with serve([trouble, trouble, OK]) as server:
        assert Api(server.access()).get(JOBS, "ns", "a")["metadata"]["name"] == "a"
        assert len(server.asked) == 3


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
def test_a_refusal_ends_at_once(status):
    with (
        serve([refusal(status, "Because", "you may not")]) as server,
        pytest.raises(ApiError, match="you may not") as caught,
    ):
        Api(server.access()).get(JOBS, "ns", "a")
    assert (caught.value.status, caught.value.reason, caught.value.unavailable) == (status, "Because", False)
    assert len(server.asked) == 1


def test_retry_after_is_honoured():
    with serve([refusal(429, **{"Retry-After": "1"}), OK]) as server:
        Api(server.access()).get(JOBS, "ns", "a")
        assert server.asked[1].at - server.asked[0].at >= 1.0


def test_a_refused_token_is_read_again_once():
    tokens = {False: "old", True: "new"}
    with serve(lambda asked: OK if asked.token == "new" else refusal(401, "Unauthorized")) as server:
        Api(server.access(lambda refused: tokens[refused])).get(JOBS, "ns", "a")
        assert [asked.token for asked in server.asked] == ["old", "new"]


def test_a_worthless_token_ends_at_once():
    with serve([refusal(401, "Unauthorized")]) as server, pytest.raises(ApiError) as caught:
        Api(server.access()).get(JOBS, "ns", "a")
    assert caught.value.status == 401
    assert len(server.asked) == 2


def test_patience_ends():
    with serve([refusal(503)]) as server, pytest.raises(ApiError):
        Api(server.access(), patience=0.5).get(JOBS, "ns", "a")
    assert 2 <= len(server.asked) <= 5


def test_no_server_is_an_error_that_names_the_cluster():
    with serve([OK]) as server:
        access = server.access()
    with pytest.raises(ApiError, match="the test's cluster cannot be reached") as caught:
        Api(access, patience=0).get(JOBS, "ns", "a")
    assert caught.value.status == 0


def test_stopping_ends_a_wait():
    with serve([refusal(503, **{"Retry-After": "60"})]) as server:
        api = Api(server.access())
        threading.Timer(0.2, api.stopping.set).start()
        began = time.monotonic()
        with pytest.raises(Stopped):
            api.get(JOBS, "ns", "a")
        assert time.monotonic() - began < 30


@pytest.mark.parametrize("tls", [True, False], ids=["https", "http"])
def test_what_came_before_an_answer_was_broken_off_is_what_was_sent(tls):
    text = b"".join(b"line %d\n" % number for number in range(8000))
    sent = threading.Event()

    def parts():
        yield text  # one chunk, in records of TLS that are smaller
        sent.set()
        yield "hang"

    with serve([Answer(parts=parts())], tls=tls) as server, Api(server.access()).open("GET", "/log") as response:
        read = bytearray(next(response.parts()))
        assert sent.wait(30)
        response.close()  # as another thread may, while this one is busy with what it has read
        with contextlib.suppress(ApiError):
            for part in response.parts():
                read += part
    assert read == text[: len(read)]


@pytest.mark.parametrize("host", ["[fd00::1]:6443", "10.0.0.1", "proxy.example:8443"])
def test_a_request_for_a_log_names_the_host_as_its_address_does(host, monkeypatch):
    seen = []
    monkeypatch.setattr(api_module, "Stream", lambda _pool, _target, headers: seen.append(headers["Host"]))
    Api(Access(f"http://{host}", "ns", None, lambda _refused: "", "the test's cluster")).begin("/log", {})
    assert seen == [host]


WRONG = {
    "HTML": b"<html><body>Please log in</body></html>",
    "null": b"null",
    "nothing": b"",
    "a list": b"[]",
    "an object": b"{}",
    "cut": b'{"kind": "TFJob", "metadata": {"na',
    "another kind": Answer(body={"kind": "Pod", "apiVersion": "v1"}),
    "another object": Answer(body={"metadata": {"name": "b"}}),
    "a redirection": Answer(302, b"<html>", {"Location": "/login"}),
}
CALLS = {
    "get": lambda api: api.get(JOBS, "ns", "a"),
    "create": lambda api: api.create(JOBS, "ns", {"kind": "TFJob", "metadata": {"name": "a"}}),
    "patch": lambda api: api.patch(JOBS, "ns", "a", {}),
    "delete": lambda api: api.delete(JOBS, "ns", "a", "u"),
    "list": lambda api: api.list(JOBS, "ns"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_an_answer_that_is_not_what_was_asked_for_is_like_a_502(wrong, call):
    answer = wrong if isinstance(wrong, Answer) else Answer(body=wrong)
    right = Answer(body={"items": []}) if call is CALLS["list"] else OK
    with serve([answer, answer, right]) as server:
        call(Api(server.access()))
        assert len(server.asked) == 3
    with serve([answer]) as server, pytest.raises(ApiError, match="not what was asked for") as caught:
        call(Api(server.access(), patience=0))
    assert (caught.value.status, caught.value.unavailable) == (502, True)
    assert "log-in page or a proxy" in str(caught.value)


@pytest.mark.parametrize("text", [b"default backend - 404", b"<html>404</html>", b"{}", b""])
def test_a_404_that_is_not_the_api_servers_is_no_answer(text):
    with serve([Answer(404, text)]) as server, pytest.raises(ApiError, match="not what was asked for") as caught:
        Api(server.access(), patience=0).get(JOBS, "ns", "a")
    assert (caught.value.missing, caught.value.unavailable) == (False, True)


def test_what_a_proxy_does_not_find_may_be_there():
    with serve([Answer(404, b"404 page not found")]) as server, pytest.raises(ApiError) as caught:
        Api(server.access()).delete(JOBS, "ns", "a", "u")
    assert not caught.value.missing


def test_a_token_that_was_good_a_moment_ago_is_good_again_soon():
    unknown = refusal(401, "Unauthorized")
    with serve([OK, unknown, unknown, unknown, unknown, OK]) as server:
        api = Api(server.access())
        api.get(JOBS, "ns", "a")
        assert api.get(JOBS, "ns", "a")["metadata"]["name"] == "a"
    with serve([OK, unknown]) as server:
        api = Api(server.access(), patience=0.5)
        api.get(JOBS, "ns", "a")
        with pytest.raises(ApiError) as caught:
            api.get(JOBS, "ns", "a")
    assert caught.value.unavailable


def test_what_was_allowed_before_is_allowed_again_soon():
    with serve([refusal(403), refusal(403), OK]) as server:
        Api(server.access()).get(JOBS, "ns", "a", allowed=True)
        assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("86400", 60, 60),
        ("9" * 5000, 60, 60),
        ("2", 2, 2),
        ("0", 0, 0),
        ("²", 0, 0),
        ("٣", 0, 0),
        ("-5", 0, 0),
        ("soon", 0, 0),
        ("", 0, 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 60, 60),
    ],
)
def test_retry_after_is_bounded(text, least, most):
    assert least <= retry_after({"Retry-After": text}) <= most


def test_retry_after_may_be_a_date():
    assert 1 <= retry_after({"Retry-After": email.utils.formatdate(time.time() + 30, usegmt=True)}) <= 31


def test_create_refuses_unknown_fields_and_delete_names_the_uid():
    with serve([OK]) as server:
        api = Api(server.access())
        api.create(JOBS, "ns", {"kind": "TFJob"})
        api.delete(JOBS, "ns", "a", "u")
        created, deleted = server.asked
        assert (created.method, created.query) == ("POST", {"fieldValidation": "Strict"})
        assert deleted.body == {"propagationPolicy": "Background", "preconditions": {"uid": "u"}}


def test_an_object_with_a_generated_name_is_created_once_though_the_first_answer_was_lost():
    stored = {}

    def script(asked):
        name = asked.path.rpartition("/")[2] if asked.method == "GET" else asked.body["metadata"]["name"]
        known = name in stored
        item = stored.setdefault(name, {"metadata": {"name": name, "uid": "u"}})
        if asked.method == "GET":
            return Answer(body=item)
        return refusal(409, "AlreadyExists") if known else "reset"

    with serve(script) as server:
        created = Api(server.access()).create(JOBS, "ns", {"metadata": {"generateName": "a-"}})
    assert list(stored) == [created["metadata"]["name"]]
    assert re.fullmatch(r"a-[a-z0-9]{5}", created["metadata"]["name"])


def test_a_generated_name_fits_a_label():
    with serve(lambda asked: Answer(201, {"metadata": asked.body["metadata"]})) as server:
        created = Api(server.access()).create(JOBS, "ns", {"metadata": {"generateName": f"{'a' * 200}-"}})
    assert re.fullmatch(r"a{58}[a-z0-9]{5}", created["metadata"]["name"])


def test_a_generated_name_that_another_object_has_is_a_conflict():
    with serve([refusal(409, "AlreadyExists")]) as server, pytest.raises(ApiError):
        Api(server.access()).create(JOBS, "ns", {"metadata": {"generateName": "a-"}})
    assert [asked.method for asked in server.asked] == ["POST"]


def test_what_is_replaced_needs_no_deletion():
    message = "the UID in the precondition (u) does not match the UID in record (v)"
    with serve([refusal(409, "Conflict", message)]) as server:
        assert not Api(server.access()).delete(JOBS, "ns", "a", "u")
        assert len(server.asked) == 1


def test_what_is_gone_needs_no_deletion():
    with serve([refusal(404, "NotFound")]) as server:
        assert not Api(server.access()).delete(JOBS, "ns", "a", "u")
        assert [asked.method for asked in server.asked] == ["DELETE", "GET"]


def test_a_deletion_that_does_not_find_what_is_there_is_repeated():
    there = Answer(body={"metadata": {"name": "a", "uid": "u"}})
    with serve([refusal(404, "NotFound"), there, Answer(body={})]) as server:
        assert Api(server.access()).delete(JOBS, "ns", "a", "u")
        assert [asked.method for asked in server.asked] == ["DELETE", "GET", "DELETE"]


def test_a_conflict_over_something_else_is_no_deletion():
    with serve([refusal(409, "Conflict", "the object has been modified")]) as server, pytest.raises(ApiError):
        Api(server.access()).delete(JOBS, "ns", "a", "u")


def test_what_the_server_warns_of_is_shown_once(capsys):
    warned = '299 - "would violate PodSecurity \\"restricted:latest\\"", 299 - "spec.x: \x1b[1mdeprecated"'
    script = lambda asked: Answer(201, {"metadata": {"name": "a"}}, headers={"Warning": warned})  # noqa: E731
    with serve(script) as server:
        api = Api(server.access())
        api.create(JOBS, "ns", {"metadata": {"name": "a"}}, dry_run=True)
        api.copy().create(JOBS, "ns", {"metadata": {"name": "a"}})
    assert capsys.readouterr().err.splitlines() == [
        'warning: would violate PodSecurity "restricted:latest"',
        "warning: spec.x: [1mdeprecated",  # the escape character is dropped
    ]


def test_pages_of_large_objects_have_fewer_of_them(monkeypatch):
    monkeypatch.setattr(api_module, "_PAGE_BYTES", 1 << 17)
    text = {7: "x" * (1 << 18)}  # one is larger than a whole page may be
    items = [{"metadata": {"name": f"{i}", "uid": f"{i}"}, "text": text.get(i, "x" * 4096)} for i in range(40)]

    def script(asked):
        first, size = int(asked.query.get("continue", "0")), int(asked.query["limit"])
        rest = {"continue": str(first + size)} if first + size < len(items) else {}
        return Answer(body={"metadata": rest, "items": items[first : first + size]})

    with serve(script) as server:
        listed = list(Api(server.access(), patience=0).iterate(JOBS, "ns"))
        assert [item["metadata"]["name"] for item in listed] == [str(i) for i in range(40)]
        assert server.asked[0].query["limit"] == "100"
        assert len(server.asked) < 25

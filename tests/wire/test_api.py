"""Requests at the wire: what is tried again, what ends at once, what is sent."""

import contextlib
import threading
import time

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps.cluster.api import Api, ApiError, Resource, Stopped

JOBS = Resource("kubeflow.org/v1", "tfjobs", "TFJob")
OK = Answer(body={"kind": "TFJob", "metadata": {"name": "a", "uid": "u"}})


def test_paths():
    pods = Resource("v1", "pods", "Pod")
    assert pods.path("ns", "p", "log") == "/api/v1/namespaces/ns/pods/p/log"
    assert JOBS.path("ns") == "/apis/kubeflow.org/v1/namespaces/ns/tfjobs"
    assert JOBS.path("") == "/apis/kubeflow.org/v1/tfjobs"


@pytest.mark.parametrize("trouble", [refusal(500), refusal(503), refusal(429), Answer(502, b"<html>bad"), "reset"])
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


def test_create_refuses_unknown_fields_and_delete_names_the_uid():
    with serve([OK]) as server:
        api = Api(server.access())
        api.create(JOBS, "ns", {"kind": "TFJob"})
        api.delete(JOBS, "ns", "a", "u")
        created, deleted = server.asked
        assert (created.method, created.query) == ("POST", {"fieldValidation": "Strict"})
        assert deleted.body == {"propagationPolicy": "Background", "preconditions": {"uid": "u"}}


@pytest.mark.parametrize(
    "gone",
    [
        refusal(404, "NotFound"),
        refusal(409, "Conflict", "the UID in the precondition (u) does not match the UID in record (v)"),
    ],
    ids=["nothing there", "another one there"],
)
def test_what_is_gone_needs_no_deletion(gone):
    with serve([gone]) as server:
        Api(server.access()).delete(JOBS, "ns", "a", "u")
        assert len(server.asked) == 1


def test_a_conflict_over_something_else_is_no_deletion():
    with serve([refusal(409, "Conflict", "the object has been modified")]) as server, pytest.raises(ApiError):
        Api(server.access()).delete(JOBS, "ns", "a", "u")

import socket
import ssl
import threading

import pytest
import trustme

from tests.support.webhook_receiver import PATH, receiver
from tfsteps.launcher.notify.delivery import Delivery, Message
from tfsteps.launcher.notify.notification import checked

MESSAGE = Message("id-1", "failed", b"{}")
SECRET = PATH.rpartition("/")[2]


def send(url, patience=60.0, message=MESSAGE):
    return Delivery(checked(url)).send(message, patience, threading.Event())


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr("tfsteps.launcher.notify.delivery._FIRST_PAUSE", 0.001)


@pytest.mark.parametrize("status", [429, 500, 503, 408])
def test_a_receiver_that_is_unavailable_is_asked_again_with_the_same_id(status):
    with receiver() as server:
        server.answers = [(status, {}), (status, {})]
        assert send(server.url) == ""
        assert [request.headers["Idempotency-Key"] for request in server.requests] == ["id-1"] * 3


@pytest.mark.parametrize(("status", "problem"), [(400, "refuses them with status 400"), (404, "status 404")])
def test_a_refusal_is_not_repeated(status, problem):
    with receiver() as server:
        server.answers = [(status, {})]
        assert problem in send(server.url)
        assert len(server.requests) == 1


def test_a_redirect_is_not_followed():
    with receiver() as server, receiver() as other:
        server.answers = [(302, {"Location": other.url})]
        assert "a redirect, which is not followed" in send(server.url)
        assert other.requests == []


def test_retry_after_is_kept(monkeypatch):
    with receiver() as server:
        server.answers = [(429, {"Retry-After": "30"})]
        assert "status 429" in send(server.url, patience=29)
        assert len(server.requests) == 1


def test_a_receiver_that_is_down_is_named_by_reason_alone():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    problem = send(f"http://127.0.0.1:{port}{PATH}", patience=0.01)
    assert problem == "it cannot be reached: Connection refused"


def test_a_host_that_does_not_exist():
    problem = send(f"http://host.invalid{PATH}", patience=0.01)
    assert problem.startswith("it cannot be reached")
    assert SECRET not in problem


def test_a_receiver_that_accepts_and_closes_is_asked_again():
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: server.accept()[0].close())  # noqa: PLW0108  not accepted yet
        thread.start()
        problem = send(f"http://127.0.0.1:{server.getsockname()[1]}{PATH}", patience=0.0)
        thread.join()
    assert problem.startswith("it cannot be reached")
    assert SECRET not in problem


def test_an_answer_that_never_ends_is_not_read():
    with receiver() as server:
        server.answers = [(200, {"Content-Length": str(1 << 40)})]
        assert send(server.url) == ""
        assert len(server.requests) == 1


def test_tls_is_verified(monkeypatch, tmp_path):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with receiver(tls=context) as server:
        assert send(server.url, patience=0.0).startswith("its certificate is not valid: ")
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert send(server.url) == ""
        assert server.requests[0].path == PATH


@pytest.mark.parametrize("proxied", [True, False])
def test_the_proxy_of_the_environment(monkeypatch, proxied):
    with receiver() as server, receiver() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix(PATH))
        monkeypatch.setenv("no_proxy", "" if proxied else "127.0.0.1")
        assert send(server.url) == ""
        assert [request.path for request in proxy.requests] == ([server.url] if proxied else [])
        assert len(server.requests) == (not proxied)


def test_a_message_is_tried_once_more_at_the_end_if_others_wait():
    with receiver() as server:
        server.answers = [(503, {})] * 2
        closing = threading.Event()
        closing.set()
        assert "503" in Delivery(checked(server.url)).send(MESSAGE, 60, closing, lambda: False)
        assert len(server.requests) == 1

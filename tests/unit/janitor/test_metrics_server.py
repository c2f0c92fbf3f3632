"""The server of the metrics: what it answers, and clients that are slow or do not read."""

import http.client
import socket
import threading
import time

import pytest

from tests.support.waiting import until
from tfsteps.janitor.metrics import _CLIENTS, JanitorMetrics, MetricsServer, _MetricsHandler, serve
from tfsteps.janitor.sweep import Count


@pytest.fixture
def metrics():
    return JanitorMetrics(["TFJob"], 60)


@pytest.fixture
def port(metrics):
    with serve(metrics, 0) as server:
        yield server.server_port


def get(port, path, host="127.0.0.1", method="GET"):
    connection = http.client.HTTPConnection(host, port, timeout=30)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type"), response.read().decode()
    finally:
        connection.close()


def test_metrics(metrics, port):
    status, kind, text = get(port, "/metrics?name[]=x")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert text == metrics.text()
    metrics.finish_pass([Count(jobs=7)], 1, 1)
    assert "\ntfsteps_janitor_jobs 7\n" in get(port, "/metrics")[2]


def test_health(metrics, port, monkeypatch):
    assert get(port, "/healthz")[::2] == (200, "ok\n")
    monkeypatch.setattr(metrics, "stalled", lambda: "no pass has ended")
    assert get(port, "/healthz")[::2] == (503, "no pass has ended\n")


def test_all_else_is_refused(port):
    assert get(port, "/")[0] == 404
    assert get(port, "/metrics/../etc/passwd")[0] == 404
    assert get(port, "/metrics", method="POST")[0] == 501


def test_all_interfaces(port):
    assert get(port, "/healthz", "127.0.0.1")[0] == 200
    if socket.has_dualstack_ipv6():
        assert get(port, "/healthz", "::1")[0] == 200


def test_a_port_that_is_in_use():
    with socket.create_server(("", 0)) as other, pytest.raises(OSError, match="in use"):
        MetricsServer(JanitorMetrics([], 60), other.getsockname()[1])


def test_clients_that_hang_do_not_keep_others_away_for_long(port, monkeypatch):
    assert _MetricsHandler.timeout == 10
    monkeypatch.setattr(_MetricsHandler, "timeout", 1)
    begun, threads = time.monotonic(), threading.active_count()
    hanging = [socket.create_connection(("127.0.0.1", port)) for _ in range(3 * _CLIENTS)]
    for client in hanging[::2]:
        client.sendall(b"GET /met")

    def answers():
        assert threading.active_count() <= threads + _CLIENTS
        try:
            return get(port, "/healthz")[0] == 200
        except (OSError, http.client.HTTPException):  # too many clients
            return False

    until(answers)
    assert time.monotonic() - begun < 20
    for client in hanging:
        client.close()


def test_it_ends_while_a_client_is_connected(metrics):
    with serve(metrics, 0) as server:
        client = socket.create_connection(("127.0.0.1", server.server_port))
        begun = time.monotonic()
    assert time.monotonic() - begun < 5
    client.close()

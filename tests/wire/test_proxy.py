"""The API server through a proxy, and under another name than its certificate's: requests, watches and logs."""

import base64
import contextlib
import selectors
import socket
import socketserver
import ssl
import threading

import pytest
import trustme
import yaml

from tests.support.servers import KeepsErrors
from tests.support.waiting import until
from tests.unit.systems.kubernetes.objects import tfjob
from tests.wire.scripted import Answer, serve
from tests.wire.test_job import events, listed
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.event_loop import EventLoop
from tfsteps.kube.logs import ContainerLog
from tfsteps.kube.resource import Resource
from tfsteps.kube.watch import Watch

JOBS = Resource("kubeflow.org/v1", "tfjobs", "TFJob")
NAME = "api.internal"
LOGIN = "proxy-user:p%40ss"
SENT_LOGIN = f"Basic {base64.b64encode(b'proxy-user:p@ss').decode()}"


class Proxy(KeepsErrors, socketserver.ThreadingTCPServer):
    """An HTTP proxy that tunnels to any address, with TLS of its own if it gets a context."""

    daemon_threads = True

    def __init__(self, tls=None):
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.tls = tls
        self.asked = []  # (request line, login)
        self.answer = b"HTTP/1.1 200 Connection established\r\n\r\n"

    def get_request(self):
        connection, address = super().get_request()
        return (self.tls.wrap_socket(connection, server_side=True) if self.tls else connection), address


class _Tunnel(socketserver.StreamRequestHandler):
    rbufsize = 0

    def handle(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (byte := self.request.recv(1)):
                return
            head += byte
        line, *headers = head.decode().split("\r\n")
        fields = {header.partition(": ")[0].lower(): header.partition(": ")[2] for header in headers}
        self.server.asked.append((line.partition(" HTTP/")[0], fields.get("proxy-authorization")))
        self.request.sendall(self.server.answer)
        host, _, port = line.split()[1].rpartition(":")
        if b" 200 " in self.server.answer:
            with socket.create_connection((host, int(port))) as target:
                self._pass_on(target)

    def _pass_on(self, target):
        with selectors.DefaultSelector() as selector:
            selector.register(self.request, selectors.EVENT_READ, target)
            selector.register(target, selectors.EVENT_READ, self.request)
            while True:
                for key, _ in selector.select():
                    data = key.fileobj.recv(1 << 16)
                    while isinstance(key.fileobj, ssl.SSLSocket) and key.fileobj.pending():
                        data += key.fileobj.recv(1 << 16)
                    if not data:
                        return
                    key.data.sendall(data)


@contextlib.contextmanager
def proxied(scheme, authority):
    """Run a Proxy; yields it and its URL."""
    tls = None
    if scheme == "https":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(tls)
    with Proxy(tls) as proxy:
        threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield proxy, f"{scheme}://{LOGIN}@127.0.0.1:{proxy.server_address[1]}"
        proxy.shutdown()


@pytest.fixture
def find_access(tmp_path, monkeypatch):
    """Return a function that makes a kubeconfig for a server, and returns the access that it gives."""

    def find(server, **cluster):
        authority = base64.b64encode(server.authority.cert_pem.bytes()).decode()
        address = {"server": f"https://127.0.0.1:{server.server_port}", "certificate-authority-data": authority}
        config = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "namespace": "ns"}}],
            "clusters": [{"name": "c", "cluster": address | cluster}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        return access.find()

    return find


def script(asked):
    if asked.path.endswith("/log"):
        lines = [b"2026-11-21T08:00:0%d.0Z %s\n" % (i, b"x" * 40_000) for i in range(8)]
        return Answer(parts=[lines[0], 0.1, *lines[1:]])
    if asked.path.endswith("/tfjobs"):
        return events(0.1, ("MODIFIED", tfjob("Running"))) if "watch" in asked.query else listed(tfjob())
    return Answer(body={"kind": "TFJob", "metadata": {"name": "a", "uid": "u"}})


def everything(api):
    """Send one request, see an event of a watch, and read a log; return the log's lines."""
    api.connect()
    assert api.get(JOBS, "ns", "a")["metadata"]["uid"] == "u"
    seen, texts, closed, loop = [], [], [], EventLoop()
    Watch(api, JOBS, "ns", seen.append)
    log = ContainerLog(loop, api, "ns", "p", "c", put=lambda new: texts.extend(new.texts), closed=closed.append)
    log.tell(0, ended=True)
    try:
        until(lambda: len(seen) > 1 and closed)
    finally:
        api.stopping.set()
        loop.close()
    return texts


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_all_goes_through_the_proxy(scheme, find_access):
    broken = ["reset"]  # the first answer with a log

    def script_of_outages(asked):
        return broken.pop() if broken and asked.path.endswith("/log") else script(asked)

    with serve(script_of_outages, tls=NAME) as server, proxied(scheme, server.authority) as (proxy, url):
        texts = everything(Api(find_access(server, **{"proxy-url": url, "tls-server-name": NAME})))
        assert texts == [b"x" * 40_000] * 8
        assert set(proxy.asked) == {(f"CONNECT 127.0.0.1:{server.server_port}", SENT_LOGIN)}
        assert {asked.path.rpartition("/")[2] for asked in server.asked} == {"a", "tfjobs", "log"}


def test_a_proxy_that_refuses_is_one_error_without_its_password(find_access):
    with serve(script, tls=True) as server, proxied("http", server.authority) as (proxy, url):
        proxy.answer = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
        api = Api(find_access(server, **{"proxy-url": url}), patience=0.0)
        for ask in (lambda: api.get(JOBS, "ns", "a"), lambda: api.begin("/log", {})):
            with pytest.raises(ApiError, match=r"here cannot be reached.*407") as failed:
                ask()
            assert not any(secret in str(failed.value) for secret in ("p%40ss", "p@ss", SENT_LOGIN))
        assert not server.asked


def test_the_name_of_the_certificate(find_access):
    with serve(script, tls=NAME) as server:
        assert everything(Api(find_access(server, **{"tls-server-name": NAME})))
        for wrong in ({}, {"tls-server-name": "other.internal"}):
            api = Api(find_access(server, **wrong), patience=0.0)
            for ask in (lambda: api.get(JOBS, "ns", "a"), lambda: api.begin("/log", {})):  # noqa: B023
                with pytest.raises(ApiError, match=r"(?i)certificate verify failed.*(match|not valid for)"):
                    ask()


def test_another_authority_is_not_trusted(find_access):
    with serve(script, tls=NAME) as server:
        server.authority = trustme.CA()
        with pytest.raises(ApiError, match="certificate verify failed"):
            Api(find_access(server, **{"tls-server-name": NAME}), patience=0.0).get(JOBS, "ns", "a")

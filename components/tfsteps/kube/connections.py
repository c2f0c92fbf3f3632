"""The connection pool of one API server, through a proxy if one is configured."""

import socket
import urllib.parse
from typing import Any, cast

import urllib3
from urllib3.connection import HTTPConnection

from tfsteps.kube.credentials import Access

_IDLE = 1024  # idle connections kept: a thousand logs that end at once are each looked at once more
_KEEPALIVE = [  # detects a dead peer within a minute, without a request to the API server
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    ),
]


def pool(access: Access) -> urllib3.HTTPConnectionPool:
    """Return the connection pool of a cluster; connections are opened on demand."""
    options: dict[str, Any] = {"maxsize": _IDLE, "retries": False, "socket_options": _KEEPALIVE}
    if access.tls:
        options |= {"ssl_context": access.tls, "server_hostname": access.tls_name or None}
    if not access.proxy:
        return urllib3.connection_from_url(access.server, **options)
    proxy = urllib.parse.urlsplit(access.proxy)
    login = urllib.parse.unquote(f"{proxy.username}:{proxy.password or ''}") if proxy.username else None
    headers = urllib3.make_headers(proxy_basic_auth=login)
    manager = urllib3.ProxyManager(access.proxy, proxy_headers=headers, proxy_ssl_context=access.tls, **options)
    return manager.connection_from_url(access.server)


def take(connections: urllib3.HTTPConnectionPool, seconds: float) -> HTTPConnection:
    """Take an open connection from the pool, by private functions of urllib3. OSError or HTTPError if it fails.

    Args:
        connections: The pool, as `pool` returns it.
        seconds: Timeout for the server and for a proxy's answer.
    """
    connection = cast("HTTPConnection", connections._get_conn())  # noqa: SLF001
    try:
        if connection.is_closed:
            connection.timeout = seconds
            if connections.proxy:
                connections._prepare_proxy(connection)  # noqa: SLF001
            else:
                connection.connect()
    except BaseException:
        connection.close()
        raise
    return connection


def below(sock: Any) -> socket.socket:
    """Return the socket to wait on: for TLS through an https proxy, the socket of the proxy's TLS."""
    return cast("socket.socket", getattr(sock, "socket", sock))  # urllib3's SSLTransport wraps another socket


def give_back(connections: urllib3.HTTPConnectionPool, connection: HTTPConnection) -> None:
    """Keep an idle connection for the next request; close it if the pool is full."""
    if connections.pool and not connections.pool.full():
        connections._put_conn(connection)  # noqa: SLF001
    else:
        connection.close()

"""A cluster's address and the credentials for it, and what every kind of token has in common."""

import pathlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import ssl

TOKEN_SECONDS = 60.0  # the kubelet renews a token long before it expires; after a 401 it is read at once
Token = Callable[[bool], str]
"""Returns the bearer token; empty = none. The argument is True after a 401, when a cached token is not valid.

Raises AccessError if no token can be obtained, for example because a log-in plugin fails."""


class AccessError(Exception):
    """The configuration gives no usable cluster; the message says what to do."""


class NoContextError(AccessError):
    """No kubeconfig has a context of the name that was asked for."""


class Access(msgspec.Struct, frozen=True):
    """One cluster, one user.

    Attributes:
        server: `https://host:port`, with a path before the API's own if there is one.
        namespace: The default namespace.
        tls: Trusted authorities and the client's certificate; None for plain http.
        token: The bearer token.
        name: Name of the cluster in messages.
        tls_name: The name that the server's certificate is for; empty = the host of `server`.
        proxy: URL of the proxy that `https` goes through; it may hold a user and a password. Empty = none.
        cluster: The name by which a job asks for it; empty = it is the cluster of the command or the launcher.
        in_pod: Whether it is the cluster of this process's own pod.
    """

    server: str
    namespace: str
    tls: "ssl.SSLContext | None"
    token: Token
    name: str
    tls_name: str = ""
    proxy: str = ""
    cluster: str = ""
    in_pod: bool = False


def token_of_file(file: pathlib.Path, where: str) -> Token:
    """Return the token in a file that another program renews; `where` names the file in messages."""
    cached, read_at = "", 0.0

    def token(refused: bool) -> str:
        nonlocal cached, read_at
        if refused or time.monotonic() - read_at > TOKEN_SECONDS or not cached:
            text = file.read_bytes().decode(errors="replace").strip()
            cached, read_at = checked_token(text, where), time.monotonic()
        return cached

    return token


def checked_token(text: str, where: str) -> str:
    """Return `text` if an HTTP header can hold it; else AccessError, because `http.client` would print the token."""
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise AccessError(f"{where} is not a token: it holds characters that no HTTP header carries; write it again")
    return text

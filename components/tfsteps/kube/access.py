"""How to reach a cluster and as whom: the files of a pod, or a kubeconfig."""

import os
import pathlib
import ssl
import time
from collections.abc import Callable

import msgspec

SERVICE_ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS = 60.0  # the kubelet renews a token long before it ends; a 401 reads it at once
Token = Callable[[bool], str]
"""Returns the bearer token, or empty for none; asked with True after a 401, when a cached one is worthless.

Raises AccessError if there is none to be had, such as from a log-in plugin that fails."""


class AccessError(Exception):
    """No cluster can be reached with what is configured; the message says what to do."""


class Access(msgspec.Struct, frozen=True):
    """One cluster, one user.

    Attributes:
        server: `https://host:port`, with a path before the API's own if there is one.
        namespace: Where to work unless told otherwise.
        tls: Trusted authorities and the client's certificate; None for plain http.
        token: The bearer token.
        name: What messages call the cluster.
        tls_name: The name that the server's certificate is for; empty = the host of `server`.
        proxy: URL of the proxy that `https` goes through; it may hold a user and a password. Empty = none.
    """

    server: str
    namespace: str
    tls: ssl.SSLContext | None
    token: Token
    name: str
    tls_name: str = ""
    proxy: str = ""


def in_cluster() -> bool:
    """Tell whether this process runs in a pod with a service account."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (SERVICE_ACCOUNT / "token").exists()


def find(context: str = "") -> Access:
    """Return the cluster of this pod; outside of pods, or if `context` is given, that of the kubeconfig.

    Raises:
        AccessError: There is none, or its settings cannot be used.
    """
    if in_cluster() and not context:
        return _from_pod()
    from tfsteps.kube import kubeconfig  # noqa: PLC0415  a launcher in a pod has none

    return kubeconfig.find(context)


# --- in a pod


def _from_pod() -> Access:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
        tls = ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt"))
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise AccessError(f"the pod's service account in {SERVICE_ACCOUNT} cannot be used: {error}") from error
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace,
        tls=tls,
        token=token_of_file(SERVICE_ACCOUNT / "token", f"{SERVICE_ACCOUNT}/token"),
        name="this cluster",
    )


def token_of_file(file: pathlib.Path, where: str) -> Token:
    """Return the token in a file that somebody else keeps fresh; `where` is what messages call it."""
    cached, read_at = "", 0.0

    def token(refused: bool) -> str:
        nonlocal cached, read_at
        if refused or time.monotonic() - read_at > TOKEN_SECONDS or not cached:
            text = file.read_bytes().decode(errors="replace").strip()
            cached, read_at = checked_token(text, where), time.monotonic()
        return cached

    return token


def checked_token(text: str, where: str) -> str:
    """Return a token that an HTTP header can carry. AccessError for any other: that of `http.client` would print it."""
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise AccessError(f"{where} is not a token: it holds characters that no HTTP header carries; write it again")
    return text

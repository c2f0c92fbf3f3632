"""How to reach a cluster and as whom: the files of a pod, or a kubeconfig."""

import base64
import contextlib
import os
import pathlib
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

SERVICE_ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_SECONDS = 60.0  # the kubelet renews a token long before it ends; a 401 reads it at once
Token = Callable[[bool], str]
"""Returns the bearer token, or empty for none; asked with True after a 401, when a cached one is worthless."""


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
    """

    server: str
    namespace: str
    tls: ssl.SSLContext | None
    token: Token
    name: str


def in_cluster() -> bool:
    """Tell whether this process runs in a pod with a service account."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (SERVICE_ACCOUNT / "token").exists()


def find(context: str = "") -> Access:
    """Return the cluster of this pod; outside of pods, or if `context` is given, that of the kubeconfig.

    Raises:
        AccessError: There is none, or its settings cannot be used.
    """
    return _from_pod() if in_cluster() and not context else _from_kubeconfig(context)


# --- in a pod


def _from_pod() -> Access:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
        tls = ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt"))
    except OSError as error:  # an SSLError is an OSError
        raise AccessError(f"the pod's service account in {SERVICE_ACCOUNT} cannot be used: {error}") from error
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace,
        tls=tls,
        token=_token_of_file(SERVICE_ACCOUNT / "token"),
        name="this cluster",
    )


def _token_of_file(file: pathlib.Path) -> Token:
    """Return the token in a file that somebody else keeps fresh."""
    cached, read_at = "", 0.0

    def token(refused: bool) -> str:
        nonlocal cached, read_at
        if refused or time.monotonic() - read_at > _TOKEN_SECONDS or not cached:
            cached, read_at = file.read_text().strip(), time.monotonic()
        return cached

    return token


# --- kubeconfig


def _from_kubeconfig(context: str) -> Access:
    file, config = _kubeconfig()
    name = context or config.get("current-context") or ""
    contexts = {item["name"]: item["context"] for item in config.get("contexts") or []}
    if name not in contexts:
        known = ", ".join(contexts) or "none"
        raise AccessError(f"{file} has no context {name!r}; it has: {known}. Choose one with --context")
    chosen = contexts[name]
    cluster = _named(config, "clusters", "cluster", chosen.get("cluster", ""), file)
    user = _named(config, "users", "user", chosen.get("user", ""), file) if chosen.get("user") else {}
    server = str(cluster.get("server", "")).rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise AccessError(f"{file}: cluster {chosen.get('cluster')!r} has no server address")
    return Access(
        server=server,
        namespace=chosen.get("namespace") or "default",
        tls=_tls(cluster, user, file.parent) if server.startswith("https") else None,
        token=_token(user, name, file),
        name=name,
    )


def _kubeconfig() -> tuple[pathlib.Path, dict[str, Any]]:
    import yaml  # noqa: PLC0415  a launcher in a pod has no kubeconfig

    given = [pathlib.Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    file = next((path for path in given if path.exists()), given[0] if given else pathlib.Path.home() / ".kube/config")
    try:
        config = yaml.safe_load(file.read_text())
    except FileNotFoundError:
        raise AccessError(f"there is no kubeconfig {file}; set KUBECONFIG, or run in a pod") from None
    except (OSError, yaml.YAMLError) as error:
        raise AccessError(f"the kubeconfig {file} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise AccessError(f"the kubeconfig {file} is empty")
    return file, config


def _named(config: dict[str, Any], kind: str, key: str, name: str, file: pathlib.Path) -> dict[str, Any]:
    for item in config.get(kind) or []:
        if item.get("name") == name:
            return dict(item.get(key) or {})
    raise AccessError(f"{file} has no entry {name!r} in `{kind}`")


def _tls(cluster: dict[str, Any], user: dict[str, Any], folder: pathlib.Path) -> ssl.SSLContext:
    try:
        with _file(cluster, "certificate-authority", folder) as authority:
            context = ssl.create_default_context(cafile=authority)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with _file(user, "client-certificate", folder) as certificate, _file(user, "client-key", folder) as key:
            if certificate and key:
                context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise AccessError(f"the kubeconfig's certificates cannot be used: {error}") from error
    return context


@contextlib.contextmanager
def _file(settings: dict[str, Any], key: str, folder: pathlib.Path) -> Iterator[str | None]:
    """Yield the path of what `key` names, or of what `<key>-data` holds; None if neither is there."""
    if data := settings.get(f"{key}-data"):
        with tempfile.NamedTemporaryFile() as file:  # the ssl module reads certificates from files alone
            file.write(base64.b64decode(data))
            file.flush()
            yield file.name
    else:
        yield str(folder / settings[key]) if settings.get(key) else None


def _token(user: dict[str, Any], context: str, file: pathlib.Path) -> Token:
    if text := user.get("token"):
        return lambda _refused: str(text)
    if name := user.get("tokenFile"):
        return _token_of_file(file.parent / name)
    if "exec" in user or "auth-provider" in user:
        return _token_of_plugin(context, file)
    return lambda _refused: ""


def _token_of_plugin(context: str, file: pathlib.Path) -> Token:
    """Return what the kubeconfig's log-in plugin says; the `kubernetes` package knows how to ask it."""
    try:
        from kubernetes import client, config  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        raise AccessError(f"context {context!r} logs in by a plugin: install tfsteps[cli]") from None
    cached, read_at = "", 0.0

    def token(refused: bool) -> str:
        nonlocal cached, read_at
        if refused or not cached or time.monotonic() - read_at > _TOKEN_SECONDS:
            loaded = client.Configuration()
            config.load_kube_config(config_file=str(file), context=context, client_configuration=loaded)
            cached = str(loaded.api_key.get("authorization", "")).removeprefix("Bearer ")
            read_at = time.monotonic()
        return cached

    return token

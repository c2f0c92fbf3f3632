"""Kubeconfigs: which cluster, as which user. Every error names the file, the entry and the field, and no value of it.

Several files are merged as kubectl does: the first that has an entry of a name, or a current context, wins. Values stay
out of the messages because users paste tokens and keys into fields that name files.
"""

import base64
import contextlib
import json
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfsteps import typed_json, yaml_reader
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.credentials import (
    TOKEN_SECONDS,
    Access,
    AccessError,
    NoContextError,
    Token,
    checked_token,
    token_of_file,
)
from tfsteps.yaml_reader import YamlError

_UNSUPPORTED = {
    "username": "basic authentication is not supported; use a token, a client certificate or an exec plugin",
    "password": "basic authentication is not supported; use a token, a client certificate or an exec plugin",
    "auth-provider": "was removed from Kubernetes 1.26; use an exec plugin",
    "as": "impersonation is not supported; use credentials of that user",
    "as-uid": "impersonation is not supported; use credentials of that user",
    "as-groups": "impersonation is not supported; use credentials of that user",
    "as-user-extra": "impersonation is not supported; use credentials of that user",
}

_PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_PLUGIN_SECONDS = 300.0  # seconds: some wait for a person to log in
_MISSING = object()  # the content of a file that does not exist


class _Plugin(msgspec.Struct, frozen=True):
    """A log-in plugin: a program, its environment, its protocol version, and where the kubeconfig names it."""

    where: str
    version: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    interactive: bool


class _CredentialStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""


class _Credential(msgspec.Struct, rename="camel"):
    """What a plugin prints (client.authentication.k8s.io)."""

    api_version: str
    kind: str
    status: _CredentialStatus


def find(context: str = "") -> Access:
    """Return the cluster and user of a context of the kubeconfigs; empty = their current one.

    Raises:
        NoContextError: There is none.
        AccessError: It cannot be used.
    """
    named = [pathlib.Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    named = named or [pathlib.Path(os.path.expanduser("~/.kube/config"))]  # noqa: PTH111  pathlib fails without a home
    contents = [(path, content) for path in dict.fromkeys(named) if (content := _read(path)) is not _MISSING]
    if not contents:
        paths = os.pathsep.join(map(str, named))
        missing = NoContextError if context else AccessError
        raise missing(f"there is no kubeconfig {paths}; set KUBECONFIG, or run in a pod")
    files = [_ConfigEntry(content, str(path), path.parent) for path, content in contents if content is not None]
    if not files:
        raise AccessError(f"the kubeconfig {contents[0][0]} is empty")
    return _access(files, context)


def parse(text: str, where: str, context: str = "") -> Access:
    """Return the cluster and user of a context of a kubeconfig that is not a file, such as the value of a Secret.

    Args:
        text: The kubeconfig. Relative paths in it are refused, because it is in no folder.
        where: Its name in messages.
        context: The context; empty = its current one.

    Raises:
        AccessError: It is no kubeconfig, has no such context, or cannot be used.
    """
    content = _document(text, where)
    if content is None:
        raise AccessError(f"{where} is empty; write a kubeconfig into it")
    return _access([_ConfigEntry(content, where, None)], context)


def _access(files: "list[_ConfigEntry]", context: str) -> Access:
    name = context or next(filter(None, (file.text("current-context") for file in files)), "")
    contexts = _merged(files, "context")
    if name not in contexts:
        known = (
            ", ".join(known_name if known_name.isprintable() else repr(known_name) for known_name in contexts) or "none"
        )
        where = os.pathsep.join(file.where for file in files)
        raise NoContextError(f"{where} has no context {name!r}; it has: {known}. Choose one with --context")
    chosen = contexts[name]
    cluster = _named(files, chosen, "cluster")
    user = (
        _named(files, chosen, "user")
        if chosen.text("user")
        else _ConfigEntry({}, f"{chosen.where}: user", chosen.folder)
    )
    server = _server(cluster)
    return Access(
        server=server,
        namespace=chosen.text("namespace") or "default",
        tls=_tls(cluster, user) if server.startswith("https") else None,
        token=_token(user),
        name=name,
        tls_name=cluster.text("tls-server-name"),
        proxy=_proxy(cluster, server),
    )


class _ConfigEntry:
    """A mapping in a file, its location for messages, and the folder of its relative paths; None = in no folder."""

    def __init__(self, values: Any, where: str, folder: pathlib.Path | None) -> None:
        if not isinstance(values, dict):
            raise AccessError(f"{where} is not a mapping of fields; correct it")
        self._values: Mapping[Any, Any] = values
        self.where = where
        self.folder = folder

    def error(self, key: str, wrong: str) -> AccessError:
        return AccessError(f"{self.where}: `{key}` {wrong}")

    def text(self, key: str) -> str:
        """Return a text; empty = missing."""
        value = self._values.get(key)
        if value is not None and (not isinstance(value, str) or "\0" in value):
            raise self.error(key, "is not text; correct it")
        return value or ""

    def flag(self, key: str) -> bool:
        value = self._values.get(key)
        if value not in (None, True, False):
            raise self.error(key, "is neither true nor false; correct it")
        return bool(value)

    def entry(self, key: str) -> "_ConfigEntry | None":
        """Return a mapping within this one; None = missing."""
        value = self._values.get(key)
        return None if value is None else _ConfigEntry(value, f"{self.where}: `{key}`", self.folder)

    def mappings(self, key: str) -> "list[_ConfigEntry]":
        """Return the items of a list of mappings."""
        items = enumerate(self.list(key))
        return [_ConfigEntry(value, f"{self.where}: `{key}[{place}]`", self.folder) for place, value in items]

    def list(self, key: str) -> list[Any]:
        value = self._values.get(key)
        if value is not None and not isinstance(value, list):
            raise self.error(key, "is not a list; correct it")
        return value or []

    def entries(self, kind: str, key: str) -> "dict[str, _ConfigEntry]":
        """Return the `key` of each item in the list `kind`, by name; the first wins if a name is repeated."""
        by_name: dict[str, _ConfigEntry] = {}
        for item in self.mappings(kind):
            name = item.text("name")
            by_name.setdefault(name, item.entry(key) or _ConfigEntry({}, "", self.folder))
            by_name[name].where = f"{self.where}: {key} {name!r}"
        return by_name

    def path(self, name: str, key: str) -> pathlib.Path:
        """Return the path of a file that `key` names."""
        if self.folder is None and not name.startswith("/"):
            fix = "put the file's content in, as `kubectl config view --raw --flatten` does"
            raise self.error(key, f"names a file, and this kubeconfig is in no folder; {fix}")
        return (self.folder or pathlib.Path("/")).absolute() / name

    def refuse(self, unsupported: Mapping[str, str]) -> None:
        for key, why in unsupported.items():
            if self._values.get(key):
                raise self.error(key, why)


def _merged(files: list[_ConfigEntry], key: str) -> dict[str, _ConfigEntry]:
    """Return all contexts, clusters or users; the first wins if a name is repeated."""
    merged: dict[str, _ConfigEntry] = {}
    for file in files:
        for name, entry in file.entries(f"{key}s", key).items():
            merged.setdefault(name, entry)
    return merged


def _read(file: pathlib.Path) -> Any:
    try:
        return _document(file.read_text("utf-8"), f"the kubeconfig {file}")
    except FileNotFoundError:
        return _MISSING
    except OSError as error:
        raise AccessError(f"the kubeconfig {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AccessError(f"the kubeconfig {file} is not YAML in UTF-8; write it again") from None


def _document(text: str, what: str) -> Any:
    try:
        return yaml_reader.document(text)
    except YamlError as error:  # what is wrong may name an anchor, and that may be a part of a token
        where = f"line {error.line}, column {error.column}"
        raise AccessError(f"{what} is not YAML at {where}; correct it there") from None


def _named(files: list[_ConfigEntry], chosen: _ConfigEntry, key: str) -> _ConfigEntry:
    """Return the cluster or user that a context names."""
    name = chosen.text(key)
    if not name:
        raise chosen.error(key, "is missing; name one")
    entry = _merged(files, key).get(name)
    if entry is None:
        raise chosen.error(key, f"names {name!r}, and `{key}s` has no entry of that name; correct one of them")
    return entry


def _server(cluster: _ConfigEntry) -> str:
    server = _address(cluster, "server", "https")
    if not server:
        raise cluster.error("server", "is missing; write https://host:port")
    if urllib.parse.urlsplit(server).username is not None:
        raise cluster.error("server", "holds a user name or password; basic authentication is not supported")
    return server


def _proxy(cluster: _ConfigEntry, server: str) -> str:
    if cluster.text("proxy-url").startswith("socks"):
        raise cluster.error("proxy-url", "is a SOCKS proxy, which is not supported; name an http or https proxy")
    proxy = _address(cluster, "proxy-url", "http")
    if proxy and not server.startswith("https:"):
        raise cluster.error("proxy-url", "needs a `server` with https; correct one of them")
    return proxy


def _address(cluster: _ConfigEntry, key: str, scheme: str) -> str:
    """Return the URL of a server without a trailing `/`; empty = missing."""
    address = cluster.text(key).rstrip("/")
    try:
        url = urllib.parse.urlsplit(address)
        usable = url.scheme in ("https", "http") and url.hostname and (url.port is None or url.port > 0)
    except ValueError:
        usable = False
    if address and (not usable or not address.isascii() or not address.isprintable() or " " in address):
        raise cluster.error(key, f"is not an address; write {scheme}://host:port")
    return address


# --- TLS


def _tls(cluster: _ConfigEntry, user: _ConfigEntry) -> ssl.SSLContext:
    with _file(cluster, "certificate-authority") as authority:
        try:
            context = ssl.create_default_context(cafile=authority)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            raise cluster.error("certificate-authority", f"cannot be used: {_reason(error)}") from None
    if cluster.flag("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with _file(user, "client-certificate") as certificate, _file(user, "client-key") as key:
        if certificate and key:
            try:
                context.load_cert_chain(certificate, key, _no_password)
            except (OSError, ValueError) as error:
                wrong = f"cannot be used with `client-key`: {_reason(error)}"
                raise user.error("client-certificate", wrong) from None
        elif certificate or key:
            missing = "client-key" if certificate else "client-certificate"
            raise user.error(missing, "is missing; a certificate and its key go together")
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted; store it without a password")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


@contextlib.contextmanager
def _file(entry: _ConfigEntry, key: str) -> Iterator[str | None]:
    """Yield the path that `key` names, or of a file with the content of `<key>-data`; None if both are missing."""
    name, data = entry.text(key), entry.text(f"{key}-data")
    if data:
        with tempfile.NamedTemporaryFile() as file:  # the ssl module reads certificates from files alone
            try:
                file.write(base64.b64decode(data))
            except ValueError:
                raise entry.error(f"{key}-data", "is not base64; correct it") from None
            file.flush()
            yield file.name
    elif name:
        yield str(_readable(entry, key))
    else:
        yield None


def _readable(entry: _ConfigEntry, key: str) -> pathlib.Path:
    path = entry.path(entry.text(key), key)
    try:
        path.open("rb").close()
    except OSError as error:
        raise entry.error(key, f"names a file that cannot be read: {error.strerror}") from None
    return path


# --- the token


def _token(user: _ConfigEntry) -> Token:
    user.refuse(_UNSUPPORTED)
    if text := user.text("token"):
        token = checked_token(text, f"{user.where}: `token`")
        return lambda _refused: token
    if user.text("tokenFile"):
        return token_of_file(_readable(user, "tokenFile"), f"{user.where}: `tokenFile`")
    if plugin := user.entry("exec"):
        return _plugin_token(_plugin(plugin))
    return lambda _refused: ""


def _plugin(entry: _ConfigEntry) -> _Plugin:
    command, version = entry.text("command"), entry.text("apiVersion")
    if not command:
        raise entry.error("command", "is missing; name the program")
    if version not in _PLUGIN_VERSIONS:
        raise entry.error("apiVersion", f"is none of {', '.join(_PLUGIN_VERSIONS)}; correct it")
    arguments = entry.list("args")
    if not all(isinstance(argument, str) and "\0" not in argument for argument in arguments):
        raise entry.error("args", "holds something that is not text; correct it")
    named = {variable.text("name"): variable.text("value") for variable in entry.mappings("env")}
    if any(not name or "=" in name for name in named):
        raise entry.error("env", "holds a variable without a name, or with '=' in it; correct it")
    if "/" in command:  # from the file's folder, as kubectl does
        command = str(entry.path(command, "command"))
    interactive = entry.text("interactiveMode") != "Never"
    return _Plugin(entry.where, version, (command, *arguments), named, interactive)


def _plugin_token(plugin: _Plugin) -> Token:
    """Return the token that a plugin prints. The plugin runs at the first request, each minute and after a 401."""
    cached, read_at = "", 0.0

    def read(refused: bool) -> str:
        nonlocal cached, read_at
        if refused or not cached or time.monotonic() - read_at > TOKEN_SECONDS:
            cached, read_at = _credential(plugin), time.monotonic()
        return cached

    return read


def _credential(plugin: _Plugin) -> str:
    """Run the plugin. Raises AccessError without the plugin's standard output, which may hold a token."""
    interactive = plugin.interactive and sys.stdin is not None and sys.stdin.isatty()
    request = {"apiVersion": plugin.version, "kind": "ExecCredential", "spec": {"interactive": interactive}}
    try:
        process = subprocess.run(
            plugin.command,
            env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # standard error is inherited: plugins print prompts there
            timeout=_PLUGIN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AccessError(
            f"{plugin.where}: the plugin did not end within {_PLUGIN_SECONDS:.0f} s; run it by hand"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        fix = "install the plugin" if isinstance(error, FileNotFoundError) else "correct it"
        raise AccessError(f"{plugin.where}: `command` cannot be started: {reason}; {fix}") from None
    if process.returncode:
        raise AccessError(
            f"{plugin.where}: the plugin ended with exit code {process.returncode}; run it by hand to see why"
        )
    try:
        credential = typed_json.decode(process.stdout, _Credential)
    except NOT_READABLE:  # whose text may hold the token
        raise AccessError(f"{plugin.where}: the plugin printed no ExecCredential; run it by hand") from None
    if (credential.api_version, credential.kind) != (plugin.version, "ExecCredential"):
        raise AccessError(f"{plugin.where}: the plugin does not support {plugin.version}; correct `apiVersion`")
    if not credential.status.token:
        kind = (
            "a client certificate, which is not supported" if credential.status.client_certificate_data else "no token"
        )
        raise AccessError(f"{plugin.where}: the plugin gave {kind}; use one that gives a token")
    return checked_token(credential.status.token, f"{plugin.where}: the plugin's token")

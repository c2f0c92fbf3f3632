"""Log-in plugins of kubeconfigs: programs that print a credential (client.authentication.k8s.io)."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping

import msgspec

from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.credentials import TOKEN_SECONDS, AccessError, Token, checked_token

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_LONGEST = 300.0  # seconds: some wait for a person to log in


class Plugin(msgspec.Struct, frozen=True):
    """A program, its environment variables, its protocol version, and where the kubeconfig names it."""

    where: str
    version: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    interactive: bool


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""


class _Credential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status


def token(plugin: Plugin) -> Token:
    """Return the token that a plugin prints. The plugin runs at the first request, each minute and after a 401."""
    cached, read_at = "", 0.0

    def read(refused: bool) -> str:
        nonlocal cached, read_at
        if refused or not cached or time.monotonic() - read_at > TOKEN_SECONDS:
            cached, read_at = _credential(plugin), time.monotonic()
        return cached

    return read


def _credential(plugin: Plugin) -> str:
    """Run the plugin. Raises AccessError without the plugin's standard output, which may hold a token."""
    interactive = plugin.interactive and sys.stdin is not None and sys.stdin.isatty()
    request = {"apiVersion": plugin.version, "kind": "ExecCredential", "spec": {"interactive": interactive}}
    try:
        process = subprocess.run(
            plugin.command,
            env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # standard error is inherited: plugins print prompts there
            timeout=_LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AccessError(f"{plugin.where}: the plugin did not end within {_LONGEST:.0f} s; run it by hand") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        fix = "install the plugin" if isinstance(error, FileNotFoundError) else "correct it"
        raise AccessError(f"{plugin.where}: `command` cannot be started: {reason}; {fix}") from None
    if process.returncode:
        raise AccessError(
            f"{plugin.where}: the plugin ended with exit code {process.returncode}; run it by hand to see why"
        )
    try:
        credential = msgspec.json.decode(process.stdout, type=_Credential)
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

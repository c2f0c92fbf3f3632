"""The address of HAI Platform and its token, from a mounted Secret, the environment, or the client's file."""

import os
import pathlib
import re
import ssl
from collections.abc import Collection
from typing import Any

from tfsteps.kube.credentials import Access, AccessError, Token
from tfsteps.masking import hidden

SERVER, TOKEN = "MARSV2_SERVER", "MARSV2_USER_TOKEN"
"""The variables of HAI's own client."""

LAUNCHER_SERVER, LAUNCHER_TOKEN, TOKEN_FILE = "TFSTEPS_HAI_SERVER", "TFSTEPS_HAI_TOKEN", "TFSTEPS_HAI_TOKEN_FILE"
"""The launcher's own variables, which never reach the replicas; they come first."""

_CONFIG = "HFAI_CLIENT_CONFIG"
_DEFAULT = "~/.hfai/conf.yml"


def find() -> Access:
    """Return the platform's address and the user's token, which is never part of a message.

    The address: $TFSTEPS_HAI_SERVER, else $MARSV2_SERVER, else `url` in the client's file. The token: the file that
    $TFSTEPS_HAI_TOKEN_FILE names, which is read for every request; else $TFSTEPS_HAI_TOKEN, else $MARSV2_USER_TOKEN,
    else `token` in the client's file. That file is $HFAI_CLIENT_CONFIG, else ~/.hfai/conf.yml; it is read only where
    one of both is missing.

    Raises:
        AccessError: One of them is missing, or cannot be used.
    """
    server, token = _variable(LAUNCHER_SERVER, SERVER), _variable(LAUNCHER_TOKEN, TOKEN)
    config = {} if server and (token or os.environ.get(TOKEN_FILE)) else _client_file()
    server = _url(server or str(config.get("url") or ""))
    source = _token(token or str(config.get("token") or ""))
    tls = ssl.create_default_context() if server.startswith("https://") else None
    return Access(server=server, namespace="", tls=tls, token=source, name=hidden(f"HAI at {server}"))


def missing(names: Collection[str]) -> list[str]:
    """Return a sentence for the address and for the token if no variable of these `names` has it.

    An image of the launcher's own may have them in its environment, or in the client's file.
    """
    if _CONFIG in names:
        return []
    required = {"address of HAI": (LAUNCHER_SERVER, SERVER), "token for HAI": (TOKEN_FILE, LAUNCHER_TOKEN, TOKEN)}
    return [
        f"no variable of the launcher has the {what}: unless its image has it, set {variables[0]} on the task"
        for what, variables in required.items()
        if not set(variables) & set(names)
    ]


def _variable(*names: str) -> str:
    """Return the first of some variables that has a value; empty = none has."""
    return next(filter(None, map(os.environ.get, names)), "")


def _token(token: str) -> Token:
    if name := os.environ.get(TOKEN_FILE):
        file = pathlib.Path(name)
        if not file.is_file():
            raise AccessError(f"{TOKEN_FILE} names {file}, which is not there; mount the Secret with the token")
        return lambda _refused: file.read_text().strip()
    if not token:
        where = f"set {TOKEN} or {LAUNCHER_TOKEN}, or {TOKEN_FILE} to a file with it, or `token` in {_path()}"
        raise AccessError(f"there is no token for HAI; {where}")
    return lambda _refused: token


def _url(text: str) -> str:
    if not text:
        raise AccessError(f"there is no address of HAI; set {SERVER} or {LAUNCHER_SERVER}, or `url` in {_path()}")
    if not re.fullmatch(r"https?://[^/\s]+(/\S*)?", text):
        where = f"{LAUNCHER_SERVER}, {SERVER}, or `url` in {_path()}"
        raise AccessError(f"{hidden(text)!r} is no address of HAI: write http://host or https://host into {where}")
    return text.rstrip("/")


def _path() -> pathlib.Path:
    return pathlib.Path(os.path.expanduser(os.environ.get(_CONFIG) or _DEFAULT))  # noqa: PTH111  pathlib fails without a home


def _client_file() -> dict[str, Any]:
    from tfsteps import yaml_reader  # noqa: PLC0415  not needed if the environment has everything

    try:
        config = yaml_reader.document(_path().read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, yaml_reader.YamlError) as error:  # whose text may hold the token
        raise AccessError(f"{_path()} cannot be read ({type(error).__name__}); write url and token there") from None
    return dict(config) if isinstance(config, dict) else {}

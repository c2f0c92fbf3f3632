"""Where HAI Platform is, and as whom: a mounted Secret, the environment, or the file of its own client."""

import os
import pathlib
import ssl
from typing import Any

from tfsteps.cluster.access import Access, AccessError, Token

SERVER, TOKEN, TOKEN_FILE = "MARSV2_SERVER", "MARSV2_USER_TOKEN", "TFSTEPS_HAI_TOKEN_FILE"
_CONFIG = "HFAI_CLIENT_CONFIG"
_DEFAULT = pathlib.Path("~/.hfai/conf.yml")


def find() -> Access:
    """Return the platform's address and the user's token, which is never part of a message.

    The address: $MARSV2_SERVER, else `url` in the client's file. The token: the file that $TFSTEPS_HAI_TOKEN_FILE
    names, which is read for every request; else $MARSV2_USER_TOKEN, else `token` in the client's file. That file is
    $HFAI_CLIENT_CONFIG, else ~/.hfai/conf.yml.

    Raises:
        AccessError: One of them is missing, or cannot be used.
    """
    own: dict[str, Any] = {}
    if not (os.environ.get(SERVER) and (os.environ.get(TOKEN) or os.environ.get(TOKEN_FILE))):
        own = _client_file()
    server = _url(str(os.environ.get(SERVER) or own.get("url") or ""))
    token = _token(str(os.environ.get(TOKEN) or own.get("token") or ""))
    tls = ssl.create_default_context() if server.startswith("https://") else None
    return Access(server=server, namespace="", tls=tls, token=token, name=f"HAI at {server}")


def _token(given: str) -> Token:
    if name := os.environ.get(TOKEN_FILE):
        file = pathlib.Path(name)
        if not file.is_file():
            raise AccessError(f"{TOKEN_FILE} names {file}, which is not there; mount the Secret with the token")
        return lambda _refused: file.read_text().strip()
    if not given:
        where = f"set {TOKEN}, or {TOKEN_FILE} to a file with it, or `token` in {_path()}"
        raise AccessError(f"there is no token for HAI; {where}")
    return lambda _refused: given


def _url(text: str) -> str:
    if not text:
        raise AccessError(f"there is no address of HAI; set {SERVER}, or `url` in {_path()}")
    url = text if "://" in text else f"http://{text}"
    if not url.startswith(("http://", "https://")):
        raise AccessError(f"{text!r} is no address of HAI: write http://host or https://host into {SERVER}")
    return url.rstrip("/")


def _path() -> pathlib.Path:
    return pathlib.Path(os.environ.get(_CONFIG) or _DEFAULT).expanduser()


def _client_file() -> dict[str, Any]:
    import yaml  # noqa: PLC0415  where all is in the environment nothing is to be read

    try:
        found = yaml.safe_load(_path().read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:  # whose text may hold the token
        raise AccessError(f"{_path()} cannot be read ({type(error).__name__}); write url and token there") from None
    return dict(found) if isinstance(found, dict) else {}

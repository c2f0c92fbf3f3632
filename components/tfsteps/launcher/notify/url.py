"""The URL of a webhook, which is a secret: read from a variable, checked, and shown only as scheme and host."""

import os
import urllib.parse
from collections.abc import Mapping

import msgspec

_MAX_URL = 2048


class UrlError(ValueError):
    """A URL that cannot be used. The message does not contain it."""


class Url(msgspec.Struct, frozen=True):
    """The URL of a webhook. `str()` returns what can be shown: the scheme and the host.

    Attributes:
        text: The whole URL.
    """

    text: str

    @property
    def parts(self) -> urllib.parse.SplitResult:
        """The parts of the URL."""
        return urllib.parse.urlsplit(self.text)

    @property
    def server(self) -> str:
        """The scheme, the host and the port."""
        return f"{self.parts.scheme}://{self.parts.netloc}"

    @property
    def target(self) -> str:
        """The path and the query, as a request has them."""
        return urllib.parse.urlunsplit(("", "", self.parts.path or "/", self.parts.query, ""))

    def __str__(self) -> str:
        """Return the scheme and the host."""
        return self.server

    def __repr__(self) -> str:
        """Return the same as `str()`: a traceback must not contain the URL."""
        return f"Url({self.server})"


def from_environment(name: str, environment: Mapping[str, str] = os.environ) -> Url | None:
    """Return the URL in a variable; None = the variable is not set, or empty.

    Raises:
        UrlError: It contains something else than an http or https URL.
    """
    text = environment.get(name, "").strip()  # files of Secrets often end with a newline
    return checked(text) if text else None


def checked(text: str) -> Url:
    """Return `text` as a URL. UrlError if it cannot be one that requests are sent to."""
    if len(text) > _MAX_URL:
        raise UrlError(f"is longer than {_MAX_URL} characters")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise UrlError("contains a space, a line break or another character that no URL contains")
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
    except ValueError:
        raise UrlError("is not a URL") from None  # the error has the URL
    if parts.scheme not in ("http", "https"):
        raise UrlError("does not begin with https:// or http://")
    if not parts.hostname or port == 0:
        raise UrlError("has no host or no valid port")
    if parts.username is not None or parts.password is not None:
        raise UrlError("contains a user name, which is not supported")
    return Url(text)

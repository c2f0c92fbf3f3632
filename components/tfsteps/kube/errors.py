"""Errors of requests to a server. No message holds a credential: a server or a proxy may quote the request."""

from tfsteps.masking import hidden

_UNAVAILABLE = {429, 500, 502, 503, 504}
_UNCOUNTED = "status unknown for quota"  # of a new ResourceQuota, for seconds: nothing is counted against it yet
_SHOWN = 120  # characters of an unexpected answer in a message
_LONGEST = 10_000  # before credentials are hidden: a part of one must not stay


class ApiError(Exception):
    """The API server refused, or could not be reached.

    Attributes:
        status: The HTTP status; 0 = no answer.
        reason: The Status object's reason: NotFound, AlreadyExists, Forbidden, ...; empty = none.
        retry_after: Seconds to wait before a retry, as the server asks; 0 = it does not ask.
        about: The name of the object that the refusal is about; empty = not in the answer.
        transient: Whether the same request was allowed before: a restarting server refuses all credentials for seconds.
    """

    def __init__(
        self, message: str, status: int = 0, reason: str = "", retry_after: float = 0.0, about: str = ""
    ) -> None:
        """Keep the fields beside the message."""
        self.status, self.reason, self.retry_after, self.about = status, reason, retry_after, about
        self.transient = False
        super().__init__(hidden(message))

    @property
    def unavailable(self) -> bool:
        """Whether the same request may succeed later."""
        uncounted = self.status == 403 and _UNCOUNTED in str(self)
        return self.status == 0 or self.status in _UNAVAILABLE or self.transient or uncounted

    @property
    def missing(self) -> bool:
        """Whether the object does not exist; False if the cluster does not serve its kind."""
        return self.status == 404 and self.reason == "NotFound"


class SilentError(ApiError):
    """No data arrived within the read timeout."""


class TooLongError(ApiError):
    """The answer is longer than the caller can take."""


class UnexpectedAnswerError(ApiError):
    """The answer is not the expected object: a log-in page or a proxy may have answered instead of the API server.

    It counts as a 502: the same request may succeed later.
    """

    def __init__(self, request: str, wrong: object, content: bytes | str = b"") -> None:
        """Put the request, what is `wrong` with the answer, and the beginning of the answer into the message."""
        text = content.decode(errors="replace") if isinstance(content, bytes) else content
        shown = f"; it begins with {hidden(text[:_LONGEST])[:_SHOWN]!r}" if text else ""
        hint = "something else, such as a log-in page or a proxy, may answer in the server's place"
        super().__init__(f"{request}: the answer is not what was asked for ({wrong}){shown}; {hint}", 502)


class Stopped(Exception):  # noqa: N818  not an error
    """The wait for an answer ended because the caller stops."""

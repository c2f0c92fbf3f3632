"""What a request to a server may come to other than its answer."""

_UNAVAILABLE = {429, 500, 502, 503, 504}
_SHOWN = 120  # characters of an answer that is not understood


class ApiError(Exception):
    """The API server refused, or could not be reached.

    Attributes:
        status: The HTTP status; 0 = there was no answer.
        reason: The Status object's reason: NotFound, AlreadyExists, Forbidden, ...; empty = none.
        retry_after: Seconds that it asks us to wait; 0 = it does not.
        about: The name of the object that the refusal is about; empty = it does not say.
        transient: Whether it was allowed before: a server that starts again knows nobody for some seconds.
    """

    def __init__(
        self, message: str, status: int = 0, reason: str = "", retry_after: float = 0.0, about: str = ""
    ) -> None:
        """Keep what programs decide by beside the message."""
        self.status, self.reason, self.retry_after, self.about = status, reason, retry_after, about
        self.transient = False
        super().__init__(message)

    @property
    def unavailable(self) -> bool:
        """Whether the same request may be answered later."""
        return self.status == 0 or self.status in _UNAVAILABLE or self.transient

    @property
    def missing(self) -> bool:
        """Whether the object is not there; False where the cluster does not even know its kind."""
        return self.status == 404 and self.reason == "NotFound"


class SilentError(ApiError):
    """Nothing came for as long as we were willing to listen."""


class UnexpectedAnswerError(ApiError):
    """Something was answered, but not what was asked for: by a log-in page or a proxy, in the API server's place.

    It counts as a 502: the same request may be answered later.
    """

    def __init__(self, request: str, wrong: object, content: bytes | str = b"") -> None:
        """Keep what was asked, what is `wrong` with the answer, and the beginning of the answer, in one message."""
        text = content.decode(errors="replace") if isinstance(content, bytes) else content
        shown = f"; it begins with {text[:_SHOWN]!r}" if text else ""
        hint = "something else, such as a log-in page or a proxy, may answer in the server's place"
        super().__init__(f"{request}: the answer is not what was asked for ({wrong}){shown}; {hint}", 502)


class Stopped(Exception):  # noqa: N818  not an error
    """The wait for an answer was given up because the caller stops."""

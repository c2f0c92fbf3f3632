"""What a failed program's last lines say about why it failed."""

import re
from collections.abc import Sequence

_PORT_TAKEN = re.compile(rb"Could not start gRPC server|Address already in use")
# TensorFlow's words when another task is gone: of collectives, coordination service and parameter server client.
_PEER_LOST = re.compile(
    rb"UnavailableError|AbortedError|CancelledError|CoordinationServiceError"
    rb"|unexpectedly tried to connect with a different incarnation|peer (failure|lost)"
)


def symptom(exit_code: int, tail: Sequence[bytes], *, has_port: bool) -> str:
    """Return PortTaken, PeerLost, or nothing, for a replica that ended with `exit_code`.

    Args:
        exit_code: As a shell counts.
        tail: Its last lines.
        has_port: It was to listen on a port, and had just begun.
    """
    if exit_code == 0 or exit_code >= 128:
        return ""
    if has_port and _PORT_TAKEN.search(b"\n".join(tail)):
        return "PortTaken"
    return "PeerLost" if _PEER_LOST.search(_last_words(tail)) else ""


def _last_words(tail: Sequence[bytes]) -> bytes:
    """Return the exception of the last traceback, else all lines: a peer's error is logged before one's own."""
    starts = [i for i, line in enumerate(tail) if line.startswith(b"Traceback (most recent call last)")]
    after = list(tail)[starts[-1] + 1 :] if starts else []
    exception = next((line for line in after if line and not line[:1].isspace()), b"")
    return exception or b"\n".join(tail)

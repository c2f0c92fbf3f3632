"""What a failed program's last lines say about why it failed."""

import re
from collections.abc import Sequence

from tfsteps.text.tracebacks import raised

_PORT_TAKEN = re.compile(r"Could not start gRPC server|Address already in use")
# TensorFlow's words when another task is gone: of collectives, coordination service and parameter server client.
_PEER_LOST = re.compile(
    r"UnavailableError|AbortedError|CancelledError|CoordinationServiceError"
    r"|unexpectedly tried to connect with a different incarnation|peer (failure|lost)"
)


def failure_pattern(exit_code: int, tail: Sequence[str], *, has_port: bool) -> str:
    """Return PortTaken, PeerLost, or nothing, for a replica that ended with `exit_code`.

    Args:
        exit_code: As a shell counts.
        tail: Its last lines.
        has_port: It was to listen on a port, and had just begun.
    """
    if exit_code == 0 or exit_code >= 128:
        return ""
    every = "\n".join(tail)
    if has_port and _PORT_TAKEN.search(every):
        return "PortTaken"
    # Its own exception, if it has one: a peer's error is logged before that.
    return "PeerLost" if _PEER_LOST.search(raised(tail).exception or every) else ""

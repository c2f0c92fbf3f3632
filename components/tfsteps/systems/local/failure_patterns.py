"""Recognizes why a program failed by its last lines."""

import re
from collections.abc import Sequence

from tfsteps.text.tracebacks import raised

_PORT_TAKEN = re.compile(r"Could not start gRPC server|Address already in use")
# TensorFlow's messages if another task is gone: of collectives, coordination service and parameter server client.
_PEER_LOST = re.compile(
    r"UnavailableError|AbortedError|CancelledError|CoordinationServiceError"
    r"|unexpectedly tried to connect with a different incarnation|peer (failure|lost)"
)


def failure_pattern(exit_code: int, tail: Sequence[str], *, has_port: bool) -> str:
    """Return PortTaken, PeerLost, or an empty text, for a replica that ended with `exit_code`.

    Args:
        exit_code: As a shell counts.
        tail: Its last lines.
        has_port: Whether it should listen on a port, and had just started.
    """
    if exit_code == 0 or exit_code >= 128:
        return ""
    every = "\n".join(tail)
    if has_port and _PORT_TAKEN.search(every):
        return "PortTaken"
    # The program's own exception, if there is one: a peer's error is logged before it.
    return "PeerLost" if _PEER_LOST.search(raised(tail).exception or every) else ""

"""Recognizes why a program failed, by its exit code and its last lines."""

import re
import signal
from collections.abc import Sequence

from tfsteps.text.tracebacks import Raised, raised

_PORT_TAKEN = re.compile(r"Could not start gRPC server|Address already in use")
# TensorFlow's messages if another task is gone: of collectives, coordination service and parameter server client.
_PEER_LOST = re.compile(
    r"UnavailableError|AbortedError|CancelledError|CoordinationServiceError"
    r"|unexpectedly tried to connect with a different incarnation|peer (failure|lost)"
)
_PERMANENT = re.compile(r"(?:\w+\.)*(?:ModuleNotFoundError|ImportError|SyntaxError|IndentationError|TabError)\b")
# May pass by itself: of networks, servers and disks. Else the same exception at the same place will come again.
_PASSING = re.compile(
    r"OSError|IOError|Connection|Timeout|TimedOut|Unavailable|Aborted|Cancelled|DeadlineExceeded|ResourceExhausted"
    r"|DataLoss|HTTP|URLError|gaierror|socket|SSL|BlockingIOError|Interrupted|MemoryError|OutOfMemory|Temporar"
)
_WRONG_ARGUMENTS = re.compile(r"\S.*: error: ")  # argparse ends by SystemExit, which prints no traceback
_LEGACY = '`TF_USE_LEGACY_KERAS: "1"` in `env`'
_PAGE = "docs/get-started/keras.md"
_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"\(PerReplica:\{|Invalid reduction dimension 0 for input with 0 dim|pass this dataset to `?ClusterCoordinator",
        (
            "Keras 3's `fit` does not support several replicas. Replace it by a loop; or install tf_keras, and set "
            f"{_LEGACY} if the program uses `tf.keras`. See {_PAGE}"
        ),
    ),
    (
        r"Collective ops must be configured at program startup",
        (
            "Create MultiWorkerMirroredStrategy before every other TensorFlow call, tensors and datasets included. "
            f"See {_PAGE}"
        ),
    ),
    (
        (
            r"^KeyError\b[\s\S]*keras/src/optimizers/\S+\", line \d+, in _get_variable_index"
            r"|^ValueError: Unknown variable: <"
        ),
        (
            "Build an optimizer of Keras 3 for all variables: call `optimizer.build(model.trainable_variables)` "
            f"in the strategy's scope. A program of Keras 2 works with tf_keras and {_LEGACY}. See {_PAGE}"
        ),
    ),
    (
        r"^KeyError: ['\"]?(?:TFSTEPS_\w+|TF_CONFIG)\b",
        "The variable is set in replicas only: start the program by `tfsteps run`. See docs/get-started/replica.md",
    ),
    (
        r"TBNotInstalledError",
        "TensorFlow needs the package tensorboard to write event files: install it beside TensorFlow",
    ),
)
"""A pattern of an exception and the end of its traceback, and what helps."""


def signal_name(exit_code: int) -> str:
    """Return the name of the signal that an exit code of a shell stands for, `SIGSEGV`; empty = it is none.

    128 + n stands for signal n; 255, for example, is a code of the program itself: there is no signal 127.
    """
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return f"SIGRTMIN+{exit_code - 128 - signal.SIGRTMIN}" if exit_code - 128 in signal.valid_signals() else ""


def failure_pattern(exit_code: int, tail: Sequence[str], *, has_port: bool) -> str:
    """Return PortTaken, PeerLost, or an empty text, for a replica that ended with `exit_code`.

    Args:
        exit_code: As a shell counts.
        tail: Its last lines.
        has_port: Whether it should listen on a port, and had just started.
    """
    if exit_code == 0 or signal_name(exit_code):
        return ""
    every = "\n".join(tail)
    if has_port and _PORT_TAKEN.search(every):
        return "PortTaken"
    # The program's own exception, if there is one: a peer's error is logged before it.
    return "PeerLost" if _PEER_LOST.search(raised(tail).exception or every) else ""


def hint(error: Raised) -> str:
    """Return what helps against an exception, with the page about it, without a full stop; empty = not known."""
    text = "\n".join([error.exception, *error.excerpt])
    return next((advice for pattern, advice in _HINTS if re.search(pattern, text)), "")


def no_restart_helps(exception: str) -> bool:
    """Tell whether the program or its environment must change: a module is missing, or the source is not valid."""
    return bool(_PERMANENT.match(exception))


def repeatable(error: Raised, tail: Sequence[str] = ()) -> str:
    """Return what has failed and would fail again; empty = there is none, or it may pass by itself.

    Args:
        error: The exception of a program, which counts with its place.
        tail: Its last lines. Without an exception, the error that argparse prints for wrong arguments counts.
    """
    if not error.exception and any(line.startswith("usage: ") for line in tail):
        return tail[-1] if _WRONG_ARGUMENTS.match(tail[-1]) else ""
    if not error.exception or _PASSING.search(error.exception):
        return ""
    return f"{error.exception} at {error.frame}" if error.frame else error.exception

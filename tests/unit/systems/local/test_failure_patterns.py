"""Whose fault a failure is, by the last lines as TensorFlow 2.21 prints them."""

import pytest

from tfsteps.systems.local.failure_patterns import failure_pattern

ABORTED = (
    "E0000 base_collective_executor.cc:252] UNAVAILABLE: Error reported from /job:worker/task:1 "
    "[type.googleapis.com/tensorflow.CoordinationServiceError='x']"
)
TRACEBACK = "Traceback (most recent call last):"
FRAME = '  File "train.py", line 1, in <module>'
PORT = "tensorflow.python.framework.errors_impl.UnknownError: Could not start gRPC server"


@pytest.mark.parametrize(
    ("code", "tail", "has_port", "expected"),
    [
        (1, [], True, ""),
        (1, [ABORTED], True, "PeerLost"),
        (1, [TRACEBACK, FRAME, "tensorflow.python.framework.errors_impl.UnavailableError: x"], True, "PeerLost"),
        (1, [ABORTED, TRACEBACK, FRAME, "ValueError: mine"], True, ""),
        (1, [TRACEBACK, FRAME, "ValueError: mine", ABORTED], True, ""),
        (1, [TRACEBACK, FRAME, PORT], True, "PortTaken"),
        (1, [TRACEBACK, FRAME, PORT], False, ""),
        (1, ["peer failure: ConnectionError('peer lost')"], True, "PeerLost"),
        (137, [ABORTED], True, ""),
        (0, [ABORTED], True, ""),
    ],
)
def test_symptoms(code, tail, has_port, expected):
    assert failure_pattern(code, tail, has_port=has_port) == expected

"""Whose fault a failure is, by the last lines as TensorFlow 2.21 prints them, and what helps against it."""

import pathlib
import re

import pytest

from tfsteps.text.failure_patterns import failure_pattern, hint, no_restart_helps, repeatable, signal_name
from tfsteps.text.tracebacks import Raised, raised

ROOT = pathlib.Path(__file__).parents[3]
ABORTED = (
    "E0000 base_collective_executor.cc:252] UNAVAILABLE: Error reported from /job:worker/task:1 "
    "[type.googleapis.com/tensorflow.CoordinationServiceError='x']"
)
TRACEBACK = "Traceback (most recent call last):"
FRAME = '  File "train.py", line 1, in <module>'
PORT = "tensorflow.python.framework.errors_impl.UnknownError: Could not start gRPC server"
LOST = "tensorflow.python.framework.errors_impl.UnavailableError: x"


@pytest.mark.parametrize(
    ("code", "tail", "has_port", "expected"),
    [
        (1, [], True, ""),
        (1, [ABORTED], True, "PeerLost"),
        (1, [TRACEBACK, FRAME, LOST], True, "PeerLost"),
        (1, [ABORTED, TRACEBACK, FRAME, "ValueError: mine"], True, ""),
        (1, [TRACEBACK, FRAME, "ValueError: mine", ABORTED], True, ""),
        (1, [TRACEBACK, FRAME, PORT], True, "PortTaken"),
        (1, [TRACEBACK, FRAME, PORT], False, ""),
        (1, ["peer failure: ConnectionError('peer lost')"], True, "PeerLost"),
        (137, [ABORTED], True, ""),
        (255, [TRACEBACK, FRAME, LOST], True, "PeerLost"),
        (0, [ABORTED], True, ""),
    ],
)
def test_symptoms(code, tail, has_port, expected):
    assert failure_pattern(code, tail, has_port=has_port) == expected


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (1, ""),
        (128, ""),
        (129, "SIGHUP"),
        (137, "SIGKILL"),
        (139, "SIGSEGV"),
        (160, ""),  # glibc's own
        (163, "SIGRTMIN+1"),
        (192, "SIGRTMAX"),
        (193, ""),
        (200, ""),
        (255, ""),
    ],
)
def test_which_exit_codes_are_signals(code, name):
    assert signal_name(code) == name


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        (["ValueError: Attempt to convert a value (PerReplica:{"], "TF_USE_LEGACY_KERAS"),
        (["ValueError: Invalid reduction dimension 0 for input with 0 dimensions"], "TF_USE_LEGACY_KERAS"),
        (["ValueError: To use this dataset, you need to pass this dataset to ClusterCoordinator.x"], "by a loop"),
        (["RuntimeError: Collective ops must be configured at program startup"], "before every other TensorFlow call"),
        (
            [
                '  File "/v/keras/src/optimizers/base_optimizer.py", line 1, in _get_variable_index',
                "KeyError: 'kernel'",
            ],
            "optimizer.build",
        ),
        (["KeyError: 'TFSTEPS_LOG_DIR'"], "docs/get-started/replica.md"),
        (["KeyError: 'kernel'"], ""),
        (["ValueError: mine"], ""),
    ],
)
def test_what_helps(lines, advice):
    advice_text = hint(raised([TRACEBACK, FRAME, *lines]))
    assert advice in advice_text
    assert bool(advice) == bool(advice_text)
    assert all((ROOT / page).is_file() for page in re.findall(r"docs/\S+\.md", advice_text))


def test_what_will_come_again():
    assert repeatable(Raised("ValueError: x", "t.py:1 in f")) == "ValueError: x at t.py:1 in f"
    passing = ["ConnectionRefusedError: x", "OSError: x", LOST, "requests.exceptions.HTTPError: 503", ""]
    assert not any(repeatable(Raised(exception, "t.py:1")) for exception in passing)
    wrong = ["usage: train.py [-h]", "train.py: error: unrecognized arguments: --x"]
    assert repeatable(Raised(), wrong) == wrong[-1]
    assert not any(repeatable(Raised(), tail) for tail in (wrong[1:], [*wrong, "more"], wrong[:1], []))
    assert no_restart_helps("ModuleNotFoundError: No module named 'x'")
    assert no_restart_helps("SyntaxError: x")
    assert not no_restart_helps("ValueError: cannot import")

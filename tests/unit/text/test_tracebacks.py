"""The exception that explains, found in what real programs printed: TensorFlow 2.21 and Keras 3, a file each."""

import pathlib

import pytest

from tfsteps.runs.last_lines import Tail
from tfsteps.text.tracebacks import raised

PRINTED = pathlib.Path(__file__).parent / "tracebacks"
ERRORS = "tensorflow.python.framework.errors_impl."


@pytest.mark.parametrize(
    ("name", "exception", "frame"),
    [
        ("tf_function", "ValueError: Dimensions must be equal, but are 5 and 3 for", "train.py:6 in step"),
        ("mirrored", "ValueError: Dimensions must be equal, but are 3 and 7 for", "train.py:10 in replica_fn"),
        (
            "graph_execution",
            f"{ERRORS}InvalidArgumentError: Received a label value of 63 which is outside",
            "train.py:8 in train",
        ),
        ("assertion", f"{ERRORS}InvalidArgumentError: assertion failed: [loss is not finite]", "train.py:5 in check"),
        ("keras_layer", "ValueError: Input 0 with name 'None' of layer 'dense' is incompat", "train.py:4 in <module>"),
        ("generator", "ValueError: bad record 2", "train.py:5 in gen"),
        (
            "chained",
            "KeyError: 'learning_rate', while handling RuntimeError: config x.json is broken, caused by json.decoder.",
            "train.py:11 in main",
        ),
    ],
)
def test_what_real_programs_printed(name, exception, frame):
    lines = (PRINTED / f"{name}.txt").read_text().splitlines()
    found = raised(lines)
    assert found.exception.startswith(exception)
    assert found.frame == frame
    shown = exception.partition(": ")[2].partition(", while")[0]
    assert len(found.excerpt) <= 20
    assert any(shown in line for line in found.excerpt)


@pytest.fixture
def graph_execution():
    return (PRINTED / "graph_execution.txt").read_bytes().splitlines()


def test_numbers_that_are_printed_after_it_do_not_hide_it(graph_execution):
    tail = Tail()
    tail.add([b"step %d" % number for number in range(500)])
    tail.add(graph_execution)
    tail.add([b"  0.1 0.2 0.3"] * 100)
    found = raised(tail.lines())
    assert "Received a label value of 63" in found.exception
    assert any("Received a label value of 63" in line for line in found.excerpt)


def test_a_progress_bar_before_it_on_its_line(graph_execution):
    tail = Tail()
    place = graph_execution.index(b"Traceback (most recent call last):")
    bar = b"\r".join(b"%d/300 [====]" % number for number in range(300))
    tail.add([*graph_execution[:place], bar + graph_execution[place], *graph_execution[place + 1 :]])
    tail.add([b"digits"] * 50)
    assert "Received a label value of 63" in raised(tail.lines()).exception


def test_a_chain_is_kept_from_its_first_traceback():
    tail = Tail()
    lines = (PRINTED / "chained.txt").read_bytes().splitlines()
    for line in lines:  # however the blocks are cut
        tail.add([line])
    tail.add([b"bye"] * 60)
    assert "JSONDecodeError" in raised(tail.lines()).exception


def test_an_exception_long_ago_is_not_why_it_ended(graph_execution):
    tail = Tail()
    tail.add(graph_execution)
    for number in range(1000):
        tail.add([b"step %d" % number])
    assert raised(tail.lines()).exception == ""
    assert raised(tail.lines()).excerpt == [f"step {number}" for number in range(980, 1000)]


@pytest.mark.parametrize("block", [1, 7, 100_000])
def test_memory_is_bounded(block, graph_execution):
    tail = Tail()
    lines = [*graph_execution, *[b"x" * 10_000] * 1000]
    for start in range(0, len(lines), block):
        tail.add(lines[start : start + block])
    assert sum(map(len, tail.lines())) <= (64 + 40) << 10


@pytest.mark.parametrize(
    ("lines", "exception", "frame"),
    [
        ([], "", ""),
        (["Traceback (most recent call last):"], "", ""),
        (["Traceback (most recent call last):", '  File "a.py", line 1, in f'], "", ""),
        (["Traceback (most recent call last):", "KeyboardInterrupt"], "KeyboardInterrupt", ""),
        (["Traceback (most recent call last):", "ValueError: in user code:"], "ValueError: in user code", ""),
        (
            ["Traceback (most recent call last):", "2026-11-21 07:21:18.1: E tensorflow/x.cc:1] y", "OSError: no"],
            "OSError: no",
            "",
        ),
    ],
)
def test_odd_ones(lines, exception, frame):
    found = raised(lines)
    assert (found.exception, found.frame) == (exception, frame)

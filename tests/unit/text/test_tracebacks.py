"""The exception that explains, found in what real programs printed: TensorFlow 2.21 and Keras 3, a file each."""

import os
import pathlib
import subprocess
import sys

import pytest

from tfsteps.runs.events import LastLines
from tfsteps.systems.local.guard import WRAPPER
from tfsteps.text.tracebacks import STACK, raised, stack

SHELL = [*WRAPPER[:2], WRAPPER[2].partition("&& ")[2], "tfsteps"]  # without the guard's pipe
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
    error = raised(lines)
    assert error.exception.startswith(exception)
    assert error.frame == frame
    shown = exception.partition(": ")[2].partition(", while")[0]
    assert len(error.excerpt) <= 20
    assert any(shown in line for line in error.excerpt)


@pytest.fixture
def graph_execution():
    return (PRINTED / "graph_execution.txt").read_bytes().splitlines()


def test_numbers_that_are_printed_after_it_do_not_hide_it(graph_execution):
    tail = LastLines()
    tail.add([b"step %d" % number for number in range(500)])
    tail.add(graph_execution)
    tail.add([b"  0.1 0.2 0.3"] * 100)
    error = raised(tail.lines())
    assert "Received a label value of 63" in error.exception
    assert any("Received a label value of 63" in line for line in error.excerpt)


def test_a_progress_bar_before_it_on_its_line(graph_execution):
    tail = LastLines()
    place = graph_execution.index(b"Traceback (most recent call last):")
    bar = b"\r".join(b"%d/300 [====]" % number for number in range(300))
    tail.add([*graph_execution[:place], bar + graph_execution[place], *graph_execution[place + 1 :]])
    tail.add([b"digits"] * 50)
    assert "Received a label value of 63" in raised(tail.lines()).exception


def test_a_chain_is_kept_from_its_first_traceback():
    tail = LastLines()
    lines = (PRINTED / "chained.txt").read_bytes().splitlines()
    for line in lines:  # however the blocks are cut
        tail.add([line])
    tail.add([b"bye"] * 60)
    assert "JSONDecodeError" in raised(tail.lines()).exception


def test_an_exception_long_ago_is_not_why_it_ended(graph_execution):
    tail = LastLines()
    tail.add(graph_execution)
    for number in range(1000):
        tail.add([b"step %d" % number])
    assert raised(tail.lines()).exception == ""
    assert raised(tail.lines()).excerpt == [f"step {number}" for number in range(980, 1000)]


@pytest.mark.parametrize("block", [1, 7, 100_000])
def test_memory_is_bounded(block, graph_execution):
    tail = LastLines()
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
    error = raised(lines)
    assert (error.exception, error.frame) == (exception, frame)


def printed_by(*command, **env):
    """Return the last lines of a real program, as the launcher keeps them."""
    process = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **env}, check=False
    )
    tail = LastLines()
    tail.add(process.stdout.splitlines())
    return tail.lines()


@pytest.mark.parametrize(
    ("source", "exception", "frame"),
    [
        ('x = 1\nprint("a"\ny = 2\n', "SyntaxError: '(' was never closed", "main.py:2"),
        ("def f():\n\treturn 1\n        return 2\n", "TabError: inconsistent use of tabs", "main.py:3"),
        ("x = 1\n  y = 2\n", "IndentationError: unexpected indent", "main.py:2"),
        ("import broken", "SyntaxError: invalid syntax", "broken.py:1"),
        (
            "try: 1/0\nexcept: import traceback; traceback.print_exc()\nexec('import broken')",
            "SyntaxError",
            "broken.py:1",
        ),
    ],
)
def test_a_file_that_is_not_python(tmp_path, source, exception, frame):
    (tmp_path / "main.py").write_text(source)
    (tmp_path / "broken.py").write_text("def\n")
    error = raised(printed_by(sys.executable, str(tmp_path / "main.py")))
    assert error.exception.startswith(exception)
    assert error.frame == frame
    assert any(exception[:20] in line for line in error.excerpt)


def test_a_fatal_signal_has_the_frame_that_ran(tmp_path):
    path = tmp_path / "crash.py"
    path.write_text("import ctypes\ndef inner():\n    ctypes.string_at(0)\nprint('on the way')\ninner()\n")
    error = raised(printed_by(sys.executable, str(path), PYTHONFAULTHANDLER="1"))
    assert error.exception == "Fatal Python error: Segmentation fault"
    assert error.frame == "crash.py:3 in inner"


@pytest.mark.parametrize(
    ("command", "exception"),
    [
        ([sys.executable, "/nowhere/train.py"], "can't open file '/nowhere/train.py': [Errno 2] No such file"),
        ([sys.executable, "-m", "no_such_module"], "No module named no_such_module"),
        ([*SHELL, "no-such-program"], "no-such-program: not found"),
        ([*SHELL, "/etc/passwd"], "/etc/passwd: Permission denied"),
    ],
)
def test_without_a_program_to_run(command, exception):
    assert raised(printed_by(*command)).exception.startswith(exception)


def test_a_message_of_several_lines_is_whole_as_long_as_brackets_are_open():
    lines = """\
Traceback (most recent call last):
  File "/app/fit.py", line 8, in <module>
    m.fit(x)
ValueError: Attempt to convert a value (PerReplica:{
  0: <tf.Tensor: shape=(), dtype=float32, numpy=0.0>
}) with an unsupported type (<class 'PerReplica'>) to a Tensor.
bye""".splitlines()
    assert raised(lines).exception.endswith("}) with an unsupported type (<class 'PerReplica'>) to a Tensor")


def test_the_stack_at_a_deadline_is_that_of_the_main_thread():
    lines = f"""\
step 3
{STACK}
Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/app/loader.py", line 9 in fill

Thread 0x00007f0000000002 (most recent call first):
  File "/venv/lib/python3.11/site-packages/tensorflow/execute.py", line 53 in quick_execute
  File "/app/train.py", line 41 in step
  File "/app/train.py", line 50 in <module>""".splitlines()
    assert stack(lines).frame == "train.py:41 in step"
    assert "site-packages" in stack(lines).excerpt[0]
    assert stack(lines[:1]).excerpt == ["step 3"]


def test_a_long_stack_is_kept_whole():
    tail = LastLines()
    tail.add([STACK.encode(), b"Current thread 0x00007f0000000002 (most recent call first):"])
    tail.add([b'  File "/app/deep.py", line %d in f' % number for number in range(90)])
    assert stack(tail.lines()).frame == "deep.py:0 in f"

"""What is shown and kept of the output of a step of a local pipeline."""

from tfsteps.engines.local.step_output import StepOutput, View
from tfsteps.runs.identity import Identity
from tfsteps.runs.log_file import LogReader
from tfsteps.runs.store import AttemptFolder

EXECUTOR = b"""\
[KFP Executor 2026-11-26 03:38:58,666 INFO]: Looking for component `after` in `/t/c.py`
[KFP Executor 2026-11-26 03:38:58,671 INFO]: Loading KFP component "after" from /t/c.py
[KFP Executor 2026-11-26 03:38:58,671 INFO]: Got executor_input:
{
    "inputs": {
        "parameterValues": {"job": 1}
    }
}
[KFP Executor 2026-11-26 03:38:58,690 INFO]: an own line of logging
{
    "printed": 1
}
[KFP Executor 2026-11-26 03:38:58,690 WARNING]: Looking for component
[KFP Executor 2026-11-26 03:38:59,671 INFO]: Wrote executor output file to /t/executor_output.json."""


def read(log):
    with LogReader(log) as lines:
        return [(source, text) for _, source, text in lines.read()]


def output(tmp_path, lines, task="after", observer=None):
    attempt = AttemptFolder.of(Identity(run="r", task=task))
    return StepOutput(attempt, task, tmp_path / "logs" / "after.0", View(observer, lines.append))


def test_lines_are_kept_and_shown_with_the_task(tmp_path):
    lines = []
    step = output(tmp_path, lines)
    step.add_lines([b"one", b"\xff\r"])
    step.add_lines([b"[worker-1] a replica's line", b"[worker-1/init] another"])
    assert step.close() == ""
    assert lines == [
        "[after] one",
        "[after] \\xff",
        "[after/worker-1] a replica's line",
        "[after/worker-1/init] another",
    ]
    assert read(tmp_path / "logs" / "after.0") == [("step-0", b"one"), ("step-0", b"\xff\r")], "jobs have their own log"


def test_what_the_executor_prints_of_itself_is_left_out(tmp_path):
    lines = []
    step = output(tmp_path, lines)
    for line in EXECUTOR.split(b"\n"):
        step.add_lines([line])
    step.close()
    assert [line.removeprefix("[after] ") for line in lines] == [
        "[KFP Executor 2026-11-26 03:38:58,690 INFO]: an own line of logging",
        "{",
        '    "printed": 1',
        "}",
        "[KFP Executor 2026-11-26 03:38:58,690 WARNING]: Looking for component",
    ]


def test_the_exception_at_the_end(tmp_path):
    step = output(tmp_path, [])
    step.add_lines(
        [b"Traceback (most recent call last):", b'  File "a.py", line 9, in after', b"ValueError: my own step"]
    )
    assert step.close() == "ValueError: my own step"


def test_a_log_that_cannot_be_written(tmp_path):
    (tmp_path / "logs").write_text("a file where the folder should be")
    lines = []
    step = output(tmp_path, lines)
    step.add_lines([b"one"])
    assert step.close() == ""
    assert lines[0].startswith("warning: the output of after is not saved: ")
    assert lines[1:] == ["[after] one"]

"""Standard outputs that lack characters, and replicas that print control sequences of terminals."""

import io
import json
import os
import pty
import subprocess
import sys

import pytest

from tests.unit.cli.command import COMMAND
from tests.unit.cli.statuses import saved, status
from tfsteps.console.outputs import print_json, results
from tfsteps.launcher.printer import Printer
from tfsteps.runs.events import LogLines, ReplicaName, State
from tfsteps.runs.usage import UsageSummary

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LATIN = {"PYTHONIOENCODING": "latin-1"}
EVIL = b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\xc2\x9b5m\x07 end\rlast \xe2\x80\xae"
JOB = 'name: umlaut\ncommand: [sh, -c, "echo hü✓; echo $NAME"]\nenv: {NAME: ✓}\nroles: {worker: {}}\n'


def on_terminal(*command):
    """Run a command whose standard output is a terminal, and return what it writes there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([COMMAND, *command], stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    read = b""
    try:
        while data := os.read(ours, 65536):
            read += data
    except OSError:  # the end of a terminal
        pass
    os.close(ours)
    assert process.communicate(timeout=60)[1] == ""
    return read.replace(b"\r\n", b"\n")


@pytest.mark.parametrize(("env", "umlaut"), [(ASCII, b"\\xfc"), (LATIN, b"\xfc")])
def test_a_launcher_lives_on_whatever_its_output_takes(env, umlaut, tmp_path):
    (tmp_path / "job.yaml").write_text(JOB, "utf-8")
    command = [COMMAND, "run", "job.yaml", "--no-tensorboard"]
    result = subprocess.run(command, capture_output=True, env=os.environ | env, check=False, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"[worker-0] h" + umlaut + b"\\u2713\n[worker-0] \\u2713\n" in result.stdout


@pytest.mark.parametrize("env", [ASCII, LATIN])
def test_a_job_is_read_as_utf_8(env):
    command = [COMMAND, "run", "-", "--output", "json", "--no-tensorboard"]
    result = subprocess.run(command, input=JOB.encode(), capture_output=True, env=os.environ | env, check=False)
    assert result.returncode == 0, result.stderr
    assert b"\\u2713\n" in result.stderr
    assert json.loads(result.stdout)["job"]["state"] == "succeeded"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_in_any_encoding(encoding, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", out)
    print_json({"task": "tü✓"})
    out.flush()
    assert json.loads(out.buffer.getvalue().decode(encoding)) == {"task": "tü✓"}


def test_a_path_that_the_locale_cannot_encode_is_a_clear_error():
    command = [COMMAND, "run", "-", "--no-tensorboard"]
    job = JOB.replace("name: umlaut", "name: umlaut\noutput_dir: ✓").encode()
    result = subprocess.run(command, input=job, capture_output=True, env=os.environ | ASCII, check=False)
    assert result.returncode == 2
    assert b"cannot name a file in this locale; set LC_ALL=C.UTF-8" in result.stderr
    assert b"Traceback" not in result.stderr


def test_on_a_terminal_controls_are_escaped():
    saved(("worker-0", EVIL), ("worker-1", b"\x1b]0;owned\x07 a\tb"), state=State.SUCCEEDED)
    assert on_terminal("logs", "r1").decode().splitlines() == [
        "[worker-0] last \\u202e",
        "[worker-1] \\x1b]0;owned\\x07 a\tb",
    ]


def test_colours_pass_and_end_with_their_line():
    saved(("worker-0", b"\x1b[31mred \x1b[2J"), state=State.SUCCEEDED)
    assert on_terminal("logs", "r1") == b"[worker-0] \x1b[31mred \\x1b[2J\x1b[0m\n"


def test_elsewhere_lines_are_as_they_were_printed():
    saved(("worker-0", EVIL), state=State.SUCCEEDED)
    shown = subprocess.run([COMMAND, "logs", "r1"], capture_output=True, check=True).stdout
    assert shown == b"[worker-0] " + EVIL + b"\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("out", "shown"), [(Terminal(), "last \\u202e"), (io.StringIO(), EVIL.decode())])
def test_a_launcher_escapes_on_a_terminal_too(out, shown):
    Printer(out).lines(LogLines(0, ReplicaName("worker", 0), [EVIL]))
    assert out.getvalue() == f"[worker-0] {shown}\n"


def test_the_message_of_a_platform_has_no_escape_sequences():
    out = io.StringIO()
    Printer(out).changed(status(state=State.PENDING, message="\x1b[2Jtwo\nlines\r", task="t"))
    assert out.getvalue() == "t: pending: \\x1b[2Jtwo\nlines\\r\n"


def test_the_usage_of_each_role_is_a_result():
    usage = {
        "worker": UsageSummary(
            cpu_mean=0.98, cpu_peak=1.04, memory_mean=1.5 * 2**30, memory_peak=2**31, gpu_mean=0.5, gpu_peak=1
        ),
        "ps": UsageSummary(),
    }
    line = "usage        worker 0.98 cores (peak 1), 1.5 GiB (peak 2.0 GiB), 0.5 GPUs (peak 1)"
    assert results(status(state=State.SUCCEEDED, usage=usage))[0] == line
    assert not results(status(state=State.SUCCEEDED))[0].startswith("usage")


def test_what_a_job_did_not_write_is_said_with_the_line_that_does(tmp_path):
    ended = status(state=State.SUCCEEDED, logs=str(tmp_path / "logs"), model=str(tmp_path / "model"))
    for folder in ("logs", "model"):
        (tmp_path / folder).mkdir()
    text = "\n".join(results(ended))
    assert 'none: no model in TFSTEPS_MODEL_DIR; in Keras: model.export(os.environ["TFSTEPS_MODEL_DIR"])' in text
    assert "none: no event files in TFSTEPS_LOG_DIR" in text
    (tmp_path / "logs/events.out.tfevents.1").touch()
    ended.state = State.FAILED
    assert "none: no" not in "\n".join(results(ended))

"""`tfsteps debug` of runs on this machine; those on a cluster are in backends/test_kubernetes.py."""

import pathlib

import pytest

from tests.support import finished
from tests.unit.cli.command import output_lines, tfsteps
from tests.unit.cli.statuses import FAILURE, saved
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.events import State


def below(lines, title):
    """Return the indented lines below a title."""
    rest = lines[lines.index(title) + 1 :]
    return rest[: next((i for i, line in enumerate(rest) if not line.startswith("  ")), len(rest))]


def test_a_failed_run_with_its_places_changes_digest_and_report():
    attempt = finished.failed()
    output_lines("report", "latest")
    lines = output_lines("debug", "latest")
    assert [line.split()[2] for line in below(lines, "changes")] == [
        *("pending", "running", "restarting", "running", "restarting", "running", "failed")
    ]
    assert any("pid 4713 port 40102" in line for line in lines)
    assert "  | ValueError: batch 311 holds <nan>" in lines
    assert f"report       {attempt.report}" in lines
    assert "last lines" not in lines, "the digest has those that matter"
    assert below(lines, "look further") == ["  tfsteps logs k7c2m9x4qp", f"  less {attempt.log}"]


def test_a_running_run_with_its_last_lines_and_where_to_look():
    attempt, lock = saved(*[("worker-1", f"line {i}".encode()) for i in range(30)], hold=True)
    with lock:
        lines = output_lines("debug", "r1")
    assert below(lines, "last lines") == [f"  [worker-1]  line {i}" for i in range(10, 30)]
    logs, less, environment = below(lines, "look further")
    assert (logs, less) == ("  tfsteps logs r1 --follow", f"  less {attempt.log}")
    assert environment.startswith("  tr '\\0' '\\n' < /proc/1/environ")


@pytest.mark.parametrize(
    ("namespace", "rest"), [("", "its replicas were stopped too."), ("ml", "the job may go on in namespace ml.")]
)
def test_a_launcher_that_died_leaves_what_it_started_on_a_cluster(namespace, rest):
    saved(namespace=namespace, system="kubeflow" if namespace else "local").replicas_ended.touch()
    line = next(line for line in output_lines("debug", "r1") if line.startswith("mnist lost"))
    assert line.endswith(f": The launcher was killed; {rest}")


def test_foreign_text_harms_no_terminal():
    saved(state=State.FAILED, failure=FAILURE, message="\x1b[2J")
    saved(("worker-0", b"\x1b[2Jloud"), run="r2")
    lines = output_lines("debug", "r1") + output_lines("debug", "r2")
    assert "  [worker-0]  loud" in lines
    assert not [line for line in lines if "\x1b" in line]


@pytest.mark.parametrize("command", ["show", "logs", "stop", "debug", "report"])
def test_an_unreadable_status_is_an_error_that_names_the_log(command):
    attempt = saved(("worker-0", b"x"))
    pathlib.Path(attempt.folder, "status.json").write_text("{")
    code, out, err = tfsteps(command, "r1")
    assert (code, out) == (ExitCode.PLATFORM, "")
    assert f"error: {attempt.folder} has no status that can be read; look at {attempt.log}" in err

"""What `tfsteps check` says of a job that could not be run; tests/local and tests/hai run its jobs."""

import pytest

from tests.unit.cli.command import tfsteps
from tfsteps.cli.commands import check
from tfsteps.console.errors import CommandError
from tfsteps.launcher.exit_codes import ExitCode


def test_an_image_without_a_registry_is_refused(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere/at/all")
    code, out, err = tfsteps("check", "--on", "kubernetes")
    assert (code, out) == (2, "")
    assert "image tfsteps/launcher:" in err
    assert "; or give --image" in err
    assert "there is no kubeconfig" in tfsteps("check", "--on", "kubernetes", "--image", "python:3.11")[2]


@pytest.mark.parametrize(
    ("code", "message"),
    [(ExitCode.PLATFORM, "local: not known: no answer"), (ExitCode.USAGE, "local: fails: no answer")],
)
def test_a_server_without_an_answer_is_no_failure(code, message, monkeypatch):
    def without_answer(*_):
        raise CommandError("no answer", code)

    monkeypatch.setattr(check, "launch_plan", without_answer)
    ended, out, err = tfsteps("check")
    assert (message in out, err) == (True, ""), "no command shows more of a job that was not launched"
    assert ended == (ExitCode.PLATFORM if code == ExitCode.PLATFORM else ExitCode.FAILED)

"""The options of the janitor and their environment variables."""

import pytest

from tfsteps.janitor.options import VARIABLES, parse
from tfsteps.janitor.rules import DefaultRetention


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)


MONTH = 30 * 86_400


def test_by_default_failed_jobs_are_kept_for_a_month_and_there_are_no_metrics():
    chosen = parse([])
    assert (chosen.default, chosen.metrics_port) == (DefaultRetention(succeeded=None, failed=MONTH), 0)


RETENTIONS = {
    "each": (["--keep-succeeded", "3h", "--keep-failed", "7d"], {}, (10800, 604800)),
    "one": (["--keep-failed", "1h"], {}, (None, 3600)),
    "none at all": (["--keep-succeeded", "0s"], {}, (0, MONTH)),
    "for ever": (["--keep-failed", "forever"], {}, (None, None)),
    "by variables": ([], {"keep_succeeded": "1h", "keep_failed": "2h"}, (3600, 7200)),
    "an option wins over its variable": (["--keep-failed", "1h"], {"keep_failed": "2h"}, (None, 3600)),
    "an empty variable is none": ([], {"keep_failed": "", "preset": ""}, (None, MONTH)),
    "a preset": (["--preset", "cube-studio"], {}, (10800, 10800)),
    "a preset by its variable": ([], {"preset": "cube-studio"}, (10800, 10800)),
    "a preset and one time": (["--preset", "cube-studio", "--keep-failed", "7d"], {}, (10800, 604800)),
    "a preset and one variable": (["--preset", "cube-studio"], {"keep_failed": "7d"}, (10800, 604800)),
    "a preset, and for ever": (["--preset", "cube-studio", "--keep-failed", "forever"], {}, (10800, None)),
}


@pytest.mark.parametrize(("arguments", "variables", "expected"), RETENTIONS.values(), ids=RETENTIONS)
def test_retention(arguments, variables, expected, monkeypatch):
    for name, text in variables.items():
        monkeypatch.setenv(VARIABLES[name], text)
    default = parse(arguments).default
    assert (default.succeeded, default.failed) == expected


def test_the_port_of_the_metrics(monkeypatch):
    assert parse(["--metrics-port", "9090"]).metrics_port == 9090
    monkeypatch.setenv(VARIABLES["metrics_port"], "9091")
    assert parse([]).metrics_port == 9091
    assert parse(["--metrics-port", "0"]).metrics_port == 0


TIMES = "is not forever or a time from 0s to 3650d, such as 3h or 7d"
PORTS = "is not a port from 1 to 65535, or 0 for none"
BAD = [
    ("keep_succeeded", "soon", TIMES),
    ("keep_failed", "1w", TIMES),
    ("keep_failed", "3651d", TIMES),
    ("keep_failed", "-1", TIMES),
    ("keep_failed", "inf", TIMES),
    ("preset", "kubeflow", "is not a preset; choose cube-studio"),
    ("metrics_port", "65536", PORTS),
    ("metrics_port", "-1", PORTS),
    ("metrics_port", "http", PORTS),
    ("metrics_port", "\u0661", PORTS),
]


@pytest.mark.parametrize(("name", "text", "says"), BAD)
def test_a_bad_value_is_one_error_with_option_value_and_what_is_allowed(name, text, says, monkeypatch, capsys):
    option = f"--{name.replace('_', '-')}"
    with pytest.raises(SystemExit, match="2"):
        parse([f"{option}={text}"])
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: argument {option}: {text!r} {says}")
    monkeypatch.setenv(VARIABLES[name], text)
    with pytest.raises(SystemExit, match="2"):
        parse([])
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.endswith(f"error: environment variable {VARIABLES[name]}: {text!r} {says}")

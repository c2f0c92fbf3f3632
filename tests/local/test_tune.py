"""`tfsteps tune` by the use of real runs: eleven good ones, and one that ran out of memory."""

import contextlib
import json
import subprocess

import pytest

from tests.support.processes import started
from tests.unit.cli.command import COMMAND, output_lines

JOB = """\
name: fit
resources: {{cpu: 4, memory: 2Gi}}  # a guess
command:  # holds as much as the data has, and burns no CPU
  - python3
  - -c
  - "import time; hold = bytearray(b'x') * (int(open('{size}').read()) << 20); time.sleep(2.5)"
roles: {{worker: {{}}}}
"""


def launched(file, run, *options):
    command = [COMMAND, "run", str(file), "--run-id", run, *options]
    return started(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.shows("usage", "local")
def test_eleven_runs_and_one_out_of_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_USAGE_INTERVAL", "1s")
    file, size = tmp_path / "job.yaml", tmp_path / "size"
    text = JOB.format(size=size)
    file.write_text(text)
    size.write_text("60")
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(launched(file, f"r{number}")) for number in range(11)]
        assert [run.wait(200) for run in runs] == [0] * 11
    (tuning,) = json.loads("\n".join(output_lines("tune", "-f", file, "--output", "json")))
    assert len(tuning["runs"]) == 11
    assert tuning["good_runs"] >= 10, "on a busy machine, one may have too few samples"
    cpu, memory = tuning["recommendations"]
    assert 60 << 20 < memory["most"] < 90 << 20
    assert memory["new"] == {"request": 128 << 20, "limit": 128 << 20}
    assert cpu["new"]["limit"] < 2

    size.write_text("220")
    with launched(file, "large", "--set", "resources.memory=150Mi") as run:
        assert run.wait(100) == 10
    lines = output_lines("tune", "fit", "-f", file)
    assert "  not counted: large: failed" in lines
    (row,) = (line for line in lines if line.startswith("worker  memory"))
    assert "256Mi        out of memory at 150 MiB in large; + 40%" in row, "210 MiB"
    assert sum(line.endswith("MiB") and "█" in line for line in lines) == 11, "a bar for each run"

    difference = output_lines("tune", "-f", file, "--diff")
    assert difference[:2] == [f"--- {file}", f"+++ {file} (tuned)"]
    assert file.read_text() == text
    assert output_lines("tune", "-f", file, "--write") == [f"{file}: written"]
    (before,), (after,) = ([line for line in difference if line[:1] == sign and line[1:2] != sign] for sign in "-+")
    assert file.read_text() == text.replace(before[1:], after[1:])
    assert "memory: 256Mi}  # a guess" in after
    assert output_lines("tune", "-f", file, "--write") == [f"{file}: nothing to change"]

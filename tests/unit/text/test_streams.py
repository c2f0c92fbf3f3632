"""A process whose parent has closed its standard streams."""

import subprocess
import sys

import pytest

PROGRAM = """
from tfsteps.text import streams
streams.ensure()
import os, sys
with open(sys.argv[1], "wb") as file:
    print("to nobody", flush=True)
    os.write(1, b"to nobody")
    os.write(2, b"to nobody")
    os.read(0, 1)
    file.write(b"whole")
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_is_printed_goes_into_no_file(closed, tmp_path):
    command = ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-c", PROGRAM, tmp_path / "file"]
    assert subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode == 0
    assert (tmp_path / "file").read_bytes() == b"whole"

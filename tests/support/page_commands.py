"""The shell commands of a page of docs/, run as its reader would run them."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
_FENCE = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(page):
    """Return the `sh` blocks of a page of docs/, in order."""
    return _FENCE.findall((ROOT / "docs" / page).read_text())


def run(script, folder, bin_folder):
    """Run one block in a folder, with the programs of `bin_folder` first; fail if any command fails.

    Returns what it printed on both streams.
    """
    path = f"{bin_folder}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}"
    return done.stdout

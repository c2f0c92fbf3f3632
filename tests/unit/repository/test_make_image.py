"""`make image` needs docker or podman: without one that works it fails before it removes anything."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).parents[3]


def test_a_client_without_its_daemon_is_one_sentence_and_leaves_what_was_built(tmp_path):
    for name in ("docker", "podman"):
        client = tmp_path / "bin" / name
        client.parent.mkdir(exist_ok=True)
        client.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
        client.chmod(0o755)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "wheel").touch()
    command = ["make", "-C", str(tmp_path), "-f", str(ROOT / "Makefile"), "-o", ".venv/.complete", "image"]
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    first, *rest = [line for line in done.stderr.splitlines() if not line.startswith("make: ")]
    assert first.startswith("error: neither docker nor podman can build here: run `docker info`")
    assert [line for line in rest if not line.startswith("make[")] == []
    assert (tmp_path / "dist" / "wheel").exists()

"""`make image` and `make official`: what they pass to docker, and that they leave a release in dist/ as it is."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
DOCKER = """#!/bin/sh
echo "$@" >> {log}
"""
PYTHON = """#!/bin/sh
if [ "$2" = build ]; then mkdir -p build/image; touch build/image/tfsteps.whl; else exec {python} "$@"; fi
"""


def make(folder, docker, *arguments):
    """Run make in a folder that has a finished release in dist/, with a docker of its own."""
    programs = {"docker": docker, "podman": "#!/bin/sh\nexit 1\n", "python": PYTHON.format(python=sys.executable)}
    for name, text in programs.items():
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    for name in ("dist/SHA256SUMS", "images/launcher/requirements.txt", "images/tensorboard/requirements.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    command = ["make", "-C", str(folder), "-f", str(ROOT / "Makefile"), "-o", ".venv/.complete", *arguments]
    environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run([*command, f"BIN={folder}/bin"], env=environment, check=False, capture_output=True, text=True)
    assert (folder / "dist/SHA256SUMS").exists(), "make release alone changes dist/"
    return done


def test_a_client_without_its_daemon_is_one_sentence(tmp_path):
    done = make(tmp_path, "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n", "image")
    assert done.returncode == 2
    first, *rest = [line for line in done.stderr.splitlines() if not line.startswith("make: ")]
    assert first.startswith("error: neither docker nor podman can build here: run `docker info`")
    assert [line for line in rest if not line.startswith("make[")] == []


@pytest.mark.parametrize("digest", ["", "sha256:00ff"])
def test_a_base_without_a_digest_is_a_warning_and_one_with_it_a_label(tmp_path, digest):
    base = f"registry.example/python:3.11{digest and '@'}{digest}"
    done = make(tmp_path, DOCKER.format(log=tmp_path / "log"), "image", f"BASE={base}")
    assert done.returncode == 0, done.stderr
    warning = f"warning: BASE is {base}, a tag, which may name another image tomorrow: set BASE={base}@sha256:...\n"
    assert done.stderr == ("" if digest else warning)
    builds = [line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("build ")]
    assert [line.split()[-1] for line in builds] == ["build/image"] * 2
    label = f" --label org.opencontainers.image.base.digest={digest} "
    assert [label in line for line in builds] == [bool(digest)] * 2
    files = {path.name for path in (tmp_path / "build/image").iterdir()}
    assert files == {"tfsteps.whl", "requirements.txt", "requirements-tensorboard.txt"}


def test_components_are_written_beside_a_release(tmp_path):
    done = make(tmp_path, DOCKER, "--dry-run", "official", "OWNERS=ada")
    assert "official.py build/official " in done.stdout

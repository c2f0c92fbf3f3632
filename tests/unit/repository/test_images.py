"""An image of parts of this tree has all modules that its programs import."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

from tests.cluster import images
from tests.cluster.images import copied

ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("dockerfile", "place", "program"),
    [
        ("images/standin/Dockerfile", "/opt/standin", "import event_writer"),
        ("tests/controllers/Dockerfile", "/opt/controllers", "import tests.controllers.__main__"),
    ],
)
def test_a_program_finds_what_it_imports(tmp_path, dockerfile, place, program):
    for line in re.findall(rf"(?m)^COPY (.* {place}/.*)$", (ROOT / dockerfile).read_text()):
        *sources, target = line.split()
        folder = tmp_path / target.removeprefix(f"{place}/")
        folder.mkdir(parents=True, exist_ok=True)
        for source in (path for name in sources for path in ROOT.glob(name.rstrip("/"))):
            if source.is_dir():
                shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'lib'}:{tmp_path / 'support'}"}
    code = f"{program}; import tfsteps; assert tfsteps.__file__.startswith({str(tmp_path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_content_of_an_image_is_every_file_that_it_has():
    files = {str(file.relative_to(ROOT)) for file in copied(ROOT / "tests/controllers/Dockerfile", ROOT)}
    assert {"images/launcher/requirements.txt", "components/tfsteps/kube/client.py", "tests/__init__.py"} <= files
    assert {file for file in files if file.startswith("tests/controllers/crds/")}


def test_the_cluster_prints_the_digest_of_an_image_that_it_writes(monkeypatch, tmp_path, capfd):
    def load_archive(path):
        with tarfile.open(path) as archive:
            [name] = [member.name for member in archive if member.name.endswith(".json") and len(member.name) > 64]
            loaded.append(hashlib.sha256(archive.extractfile(name).read()).hexdigest())

    loaded = []
    monkeypatch.setattr(images, "load_archive", load_archive)
    program = tmp_path / "program"
    program.touch()
    images.load_programs("localhost/a:1", {"program": program}, ["/program"], busybox=False)
    assert capfd.readouterr().out == f"localhost/a:1 sha256:{loaded[0]}\n"

"""What the pod does that stores code on a claim, as a process: whole or not at all, and old archives are removed."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

from tfsteps.runs import code_archive
from tfsteps.systems.kubernetes import store_code


@pytest.fixture
def digest(tmp_path):
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "weights").write_bytes(os.urandom(5000))
    return code_archive.pack(tmp_path / "program").digest


@pytest.fixture
def parts(tmp_path, digest):
    archive = code_archive.read(digest)
    for number in range(2):
        (tmp_path / str(number)).write_bytes(archive[number * 3000 : number * 3000 + 3000])
    return [tmp_path / "0", tmp_path / "1"]


def store(*arguments, before=""):
    """Run the program as the pod does; return (exit code, output)."""
    program = before + pathlib.Path(store_code.__file__).read_text()
    words = [sys.executable, "-I", "-S", "-c", program, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def aged(path, days):
    os.utime(path, (time.time() - days * 86400,) * 2)
    return path


def test_an_archive_is_put_together_and_kept(digest, parts, tmp_path):
    claim = tmp_path / "claim"
    assert store(claim / "team", digest, 90, *parts) == (0, "")
    [stored] = (claim / "team").iterdir()
    assert (stored.name, stored.read_bytes()) == (f"{digest}.tar.gz", code_archive.read(digest))
    assert stored.stat().st_mode & 0o777 == 0o644
    inode = aged(stored, 80).stat().st_ino
    assert store(claim / "team", digest, 90) == (0, ""), "it is there: nothing is sent"
    assert (stored.stat().st_ino, time.time() - stored.stat().st_mtime < 60) == (inode, True)


def test_a_damaged_archive_is_replaced(digest, parts, tmp_path):
    path = tmp_path / "claim" / f"{digest}.tar.gz"
    path.parent.mkdir()
    for content in (b"", b"no archive", code_archive.read(digest)[:-9]):
        path.write_bytes(content)
        assert store(path.parent, digest, 90)[0] == 1
        assert store(path.parent, digest, 90, *parts) == (0, "")
        assert path.read_bytes() == code_archive.read(digest)


def test_what_is_not_whole_leaves_nothing(digest, parts, tmp_path):
    claim = tmp_path / "claim"
    assert "the machine that launches does not have it" in store(claim, digest, 90)[1]
    assert "another hash" in store(claim, digest, 90, parts[0])[1]
    full = "import os\ndef fsync(number): raise OSError(28, 'No space left on device')\nos.fsync = fsync\n"
    exit_code, output = store(claim, digest, 90, *parts, before=full)
    assert (exit_code, "No space left on device" in output, "Traceback" in output) == (1, True, False)
    assert [*claim.iterdir()] == []


def test_what_no_launch_has_used_is_removed_and_nothing_else(digest, parts, tmp_path):
    claim = tmp_path / "claim"
    claim.mkdir()
    names = [f"{'a' * 64}.tar.gz", f"{'b' * 64}.x_1.part", "data.tar.gz", f"{'c' * 64}"]
    for name in names:
        aged(claim / name, 91) if (claim / name).write_text("") == 0 else None
    (claim / f"{'d' * 64}.tar.gz").write_text("")
    aged(claim / f"{'d' * 64}.tar.gz", 89)
    assert store(claim, digest, 90, *parts) == (0, "")
    left = {path.name for path in claim.iterdir()}
    assert left == {*names[2:], f"{'d' * 64}.tar.gz", f"{digest}.tar.gz"}

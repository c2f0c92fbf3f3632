"""The wheel of this tree, built once for its content, however many test processes ask for it."""

import fcntl
import hashlib
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
_FILES = ("pyproject.toml", "page_links.py", "README.md", "LICENSE")


def wheel() -> pathlib.Path:
    """Return the wheel's file, alone in its folder."""
    files = [*(ROOT / name for name in _FILES), *sorted((ROOT / "components").rglob("*"))]
    content = hashlib.sha256()
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            content.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    folder = ROOT / "build/wheels" / content.hexdigest()[:12]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (built,) = folder.glob("*.whl")
    return built

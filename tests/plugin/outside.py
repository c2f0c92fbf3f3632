"""Packages outside of tfsteps: installed into a folder, and used by the command there."""

import os
import pathlib
import shutil
import subprocess
import sys

COMMAND = [sys.executable, "-c", "from tfsteps.cli import main; main()"]


def installed(package, folder):
    build = folder / "build"
    shutil.copytree(package, build)
    uv = pathlib.Path(sys.executable).with_name("uv")
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*command, "--target", folder / "install_dir", build], check=True, stdin=subprocess.DEVNULL)
    return folder / "install_dir"


def tfsteps(install_dir, folder, *args):
    env = environment(install_dir)
    done = subprocess.run([*COMMAND, *args], cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def environment(install_dir):
    """Return the variables with which the package is found."""
    return {**os.environ, "PYTHONPATH": str(install_dir), "PYTHONDONTWRITEBYTECODE": "1"}

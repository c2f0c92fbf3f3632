"""Calls the function of function.py with the parameters in the arguments, each `--NAME=VALUE`; prints its result.

It runs in the replicas of `tfsteps.train_function`, with the Python of their image, 3.7 or newer.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import site
import subprocess
import sys
import sysconfig
import tempfile
import venv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
INSTALLED = "TFSTEPS_FUNCTION_INSTALLED"
MARK = "tfsteps result "
MOST_BYTES = 1 << 16


def install() -> None:
    """Continue with the packages of requirements.txt, in an environment of this process above that of the image."""
    requirements = HERE / "requirements.txt"
    if not requirements.exists() or os.environ.get(INSTALLED):
        return
    folder = tempfile.mkdtemp(prefix="packages-", dir=str(HERE))  # replicas of one machine may share the code
    venv.create(folder, symlinks=True)
    packages = sysconfig.get_path("purelib", vars={"base": folder, "platbase": folder})
    inherited = [*site.getsitepackages(), site.getusersitepackages()]
    pathlib.Path(packages, "image.pth").write_text("\n".join(inherited), encoding="utf-8")
    python = f"{folder}/bin/python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(requirements)], check=True)
    os.execve(python, [python, *sys.argv], {**os.environ, INSTALLED: "1"})  # noqa: S606


def decides() -> bool:
    """Return whether this replica is the one whose result counts: the chief, or worker 0 if there is none."""
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    task = config.get("task", {})
    chiefs = {"chief", "master"} & set(config.get("cluster", {}))
    return not task or (task["type"] in chiefs if chiefs else task["type"] == "worker" and task["index"] == 0)


def write_metrics(result: Any) -> None:
    """Write the numbers of a result as scalars, if the function has imported TensorFlow."""
    tensorflow, folder = sys.modules.get("tensorflow"), os.environ.get("TFSTEPS_LOG_DIR")
    if tensorflow is None or not folder or not isinstance(result, dict):
        return
    with tensorflow.summary.create_file_writer(f"{folder}/result").as_default():
        for name, value in result.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                tensorflow.summary.scalar(name, value, step=0)


def number(value: Any) -> Any:
    """Return the number that a value of NumPy or TensorFlow is. TypeError if it is none."""
    try:
        return value.item() if hasattr(value, "item") else value.numpy().item()
    except (AttributeError, TypeError, ValueError) as error:
        raise TypeError(f"the result contains a {type(value).__name__}, which is not JSON") from error


def main() -> None:
    """Run the function."""
    install()
    described = json.loads((HERE / "function.json").read_text(encoding="utf-8"))
    values = {}
    for word in sys.argv[1:]:
        name, _, text = word[2:].partition("=")  # engines fill in True and False as Python writes them
        words = {"True": True, "False": False}
        values[name] = text if name in described["text"] else words[text] if text in words else json.loads(text)
    function = getattr(importlib.import_module("function"), described["name"])
    result = function(**values)
    if not decides():
        return
    encoded = json.dumps(result, default=number)
    if len(encoded) > MOST_BYTES:
        raise ValueError(f"the result has {len(encoded)} bytes; at most {MOST_BYTES}: write more to TFSTEPS_OUTPUT_DIR")
    write_metrics(json.loads(encoded))
    print(f"\n{MARK}{encoded}", flush=True)  # noqa: T201  a progress bar may have left its line open


if __name__ == "__main__":
    main()

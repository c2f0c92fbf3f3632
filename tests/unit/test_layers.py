"""What a launcher's process imports: never an engine's SDK, a Kubernetes client, or what trains."""

import json
import pathlib
import subprocess
import sys

import pytest

import tfsteps

PACKAGE = pathlib.Path(tfsteps.__file__).parent
LAUNCHERS = sorted(f"tfsteps.{file.parent.name}.launcher" for file in PACKAGE.glob("*/launcher.py"))
HEAVY = {
    "kfp",
    "hera",
    "kubernetes",
    "yaml",
    "tensorflow",
    "tensorboard",
    "numpy",
    "typer",
    "rich",
    "psutil",
    "urllib3",
}
PROGRAM = """
import json, sys
from {module} import main
code = main(["--executor_input", "{{}}"])
json.dump([code, sorted({{name.partition(".")[0] for name in sys.modules}})], sys.stderr)
"""


def test_there_is_one():
    assert "tfsteps.train.launcher" in LAUNCHERS


@pytest.mark.parametrize("module", LAUNCHERS)
def test_launcher_imports(module):
    program = PROGRAM.format(module=module)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    code, imported = json.loads(done.stderr)
    assert code == 2, "it refused an input that is not the back end's"
    assert HEAVY.isdisjoint(imported), HEAVY & set(imported)

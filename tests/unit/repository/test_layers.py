"""What a launcher's process imports: never an engine's SDK, a Kubernetes client, or what trains."""

import json
import pathlib
import subprocess
import sys

import pytest

import tfsteps
from tests.wire.scripted import refusal, serve

PACKAGE = pathlib.Path(tfsteps.__file__).parent
LAUNCHERS = sorted(f"tfsteps.steps.{file.parent.name}.launcher" for file in PACKAGE.glob("steps/*/launcher.py"))
HEAVY = {
    "kfp",
    "hera",
    "kubernetes",
    "yaml",
    "tensorflow",
    "tensorboard",
    "numpy",
    "obstore",
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
ON_KUBERNETES = """
import json, sys
from tfsteps.kube import access, credentials
access.find = lambda _context: credentials.Access("{server}", "ns", None, lambda _refused: "", "the test's cluster")
from tfsteps.steps.train.launcher import main
job = {{"name": "a", "image": "i", "roles": {{"worker": {{}}}}}}
inputs = {{"parameterValues": {{"spec": job, "system": "kubeflow"}}}}
code = main(["--executor_input", json.dumps({{"inputs": inputs, "outputs": {{"outputFile": "/a/b/c/d"}}}})])
json.dump([code, sorted({{name.partition(".")[0] for name in sys.modules}})], sys.stderr)
"""


def test_there_is_one():
    assert "tfsteps.steps.train.launcher" in LAUNCHERS


@pytest.mark.parametrize("module", LAUNCHERS)
def test_launcher_imports(module):
    program = PROGRAM.format(module=module)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    code, imported = json.loads(done.stderr)
    assert code == 2, "it refused an input that is not the back end's"
    assert HEAVY.isdisjoint(imported), HEAVY & set(imported)


def test_a_launcher_on_kubernetes_imports_an_http_client_and_no_more():
    with serve([refusal(403, "Forbidden")]) as server:
        program = ON_KUBERNETES.format(server=f"http://127.0.0.1:{server.server_port}")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        asked = {item.method for item in server.asked}
    code, imported = json.loads(done.stderr)
    assert code == 2, done.stdout
    assert asked == {"GET", "POST"}, "it went as far as to create a job"
    assert set(imported) & HEAVY == {"urllib3"}

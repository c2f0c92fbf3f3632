"""The module that the fork server of local pipelines imports: multiprocessing hides it if that import fails."""

import subprocess
import sys

PROGRAM = """
import sys, tfsteps.engines.local.preloaded
from tfsteps.engines import registry as engines
from tfsteps.systems import registry
assert "tfsteps.report" in sys.modules
before = set(sys.modules)
registry.plugins()
engines.step_task(["--executor_input", '{"outputs": {"outputFile": "/o/executor_output.json"}}']).pod_settings()
print(sorted(set(sys.modules) - before))
"""


def test_everything_that_a_launcher_needs_is_loaded_before_it_is_forked():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")

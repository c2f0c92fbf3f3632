"""The module that the fork server of local pipelines imports: multiprocessing hides it if that import fails."""

import subprocess
import sys


def test_everything_that_a_launcher_needs_is_loaded_before_it_is_forked():
    program = "import sys, tfsteps.engines.local.preloaded; sys.exit('tfsteps.report' not in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

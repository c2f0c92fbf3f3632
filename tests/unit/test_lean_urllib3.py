"""What a launcher imports of urllib3, and that nothing is missing for others in its process."""

import subprocess
import sys

PROGRAM = """
import sys
before = {name for name in sys.modules if name.startswith("importlib.metadata")}
import tfsteps.kube.client
assert {name for name in sys.modules if name.startswith("importlib.metadata")} == before == set()
import importlib.metadata, urllib3.http2
assert urllib3.http2.version("urllib3") == urllib3.__version__ == importlib.metadata.version("urllib3")
"""
NEEDS_MORE = """
import importlib.abc, importlib.machinery, sys

class Newer(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "urllib3.http2":
            from importlib.metadata import distribution  # as a later version might
        return None

sys.meta_path.insert(0, Newer())
sys.modules.pop("importlib.metadata", None)
import tfsteps.kube.client
assert tfsteps.kube.client.urllib3.HTTPSConnectionPool
"""


def run(program):
    # -S: the virtual environment's own start may import anything, a launcher's image has none of it
    paths = repr(sys.path)
    done = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:] = {paths}\n{program}"], check=False)
    assert done.returncode == 0


def test_it_is_left_out_and_nothing_is_missing():
    run(PROGRAM)


def test_a_urllib3_that_needs_more_of_it():
    run(NEEDS_MORE)

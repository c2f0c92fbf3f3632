"""Programs end without the shutdown in which OpenSSL frees its memory under running threads."""

import subprocess
import sys

import pytest

ABORTING = """
import atexit, ctypes, sys
libc = ctypes.CDLL(None)
libc.on_exit(ctypes.cast(libc.abort, ctypes.c_void_p), None)  # as OpenSSL's own handler, at its worst
"""


def run(program, *args):
    command = [sys.executable, "-c", ABORTING + program, *args]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_output_and_exit_handlers_come_before_the_exit():
    program = "from tfsteps.text import streams; atexit.register(print, 'ended'); print('begun'); "
    ended = run(program + "streams.flush_and_exit(7)")
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "begun\nended\n", "")
    assert run(program + "sys.exit(7)").returncode < 0, "a usual exit is seen"


@pytest.mark.parametrize(
    ("args", "code"), [(["--version"], 0), (["runs", "--sort", "nothing"], 2), (["no-command"], 2)]
)
def test_the_command(args, code):
    ended = run("from tfsteps.cli import main; main()", *args)
    assert ended.returncode == code, ended.stderr


INTERRUPTED = """
import sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == MODULE:
            raise KeyboardInterrupt

from tfsteps.cli import main
for name in (MODULE, "tfsteps.cli"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Interrupt())
from tfsteps.cli import main
main()
"""


@pytest.mark.parametrize("module", ["importlib.util", "tfsteps.text.streams", "typer", "tfsteps.cli.app"])
def test_ctrl_c_while_a_module_is_imported_is_no_traceback(module):
    program = f"MODULE = {module!r}\n{INTERRUPTED}"
    ended = subprocess.run([sys.executable, "-c", program, "runs"], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "")

"""Types are built before threads use them: msgspec lets a thread use what another one has half-built."""

import subprocess
import sys

PROGRAM = """
import sys, threading, msgspec
from tfsteps import typed_json

sys.setswitchinterval(1e-6)
start = threading.Barrier(6)


def work(shape, content):
    start.wait()
    for _ in range(20):
        assert typed_json.decode(content, shape) == typed_json.convert(typed_json.decode(content, dict), shape)


for number in range(200):
    inner = [msgspec.defstruct(f"Inner{number}x{i}", [("a", int, 1), ("b", list[str], [])]) for i in range(8)]
    fields = [(f"f{i}", kind, msgspec.field(default_factory=kind)) for i, kind in enumerate(inner)]
    shape = msgspec.defstruct(f"Outer{number}", fields)
    content = b'{"f0": {"a": 2}, "f7": {"b": ["c"]}}'
    threads = [threading.Thread(target=work, args=(shape, content)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("no crash")
"""


def test_threads_that_begin_with_a_type_at_once():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "no crash\n", "")

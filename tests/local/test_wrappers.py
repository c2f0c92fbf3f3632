"""The wrappers on the page about programs that do not read TF_CONFIG, as a user would run them."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs/guides/programs.md"
_BLOCK = re.compile(r'^```python title="([^"]+)"\n(.*?)^```', re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^    (tfsteps run .*)$", re.MULTILINE)

FLAGS = """
import os, time
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
for name in ("ps_hosts", "worker_hosts", "job_name"):
    v1.flags.DEFINE_string(name, "", "")
v1.flags.DEFINE_integer("task_index", 0, "")


def main(_):
    flags = v1.flags.FLAGS
    cluster = {"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")}
    server = tf.distribute.Server(cluster, job_name=flags.job_name, task_index=flags.task_index, protocol="grpc")
    if flags.job_name == "ps":
        server.join()
    with tf.device("/job:ps/task:0"):
        total = v1.get_variable("total", shape=[], initializer=v1.zeros_initializer(), use_resource=False)
        step, missing = total.assign_add(2.0), v1.report_uninitialized_variables()
    mine = v1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{flags.task_index}"])
    with v1.Session(server.target, config=mine) as session:
        if flags.task_index == 0:
            session.run(v1.global_variables_initializer())
        while session.run(missing).size:
            time.sleep(0.1)
        session.run(step)
        while (seen := session.run(total)) < 2.0 * len(cluster["worker"]):  # until every worker has added its own
            time.sleep(0.1)
        print("total", seen, flush=True)
    os._exit(0)  # servers do not end


v1.app.run(main)
"""
TORCHRUN = """#!{python}
import sys, time
print("got", *sys.argv[1:], flush=True)
time.sleep(2)  # both workers are seen
"""
HOROVOD = """
import json, os, time, urllib.error, urllib.request
rank, size = (os.environ[f"HOROVOD_{name}"] for name in ("RANK", "SIZE"))
address = "{}:{}".format(*(os.environ[f"HOROVOD_GLOO_RENDEZVOUS_{name}"] for name in ("ADDR", "PORT")))
assert address == json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"][0]


def kept(other, method, data=None):
    # as Horovod 0.28 does: it gives up after three tries half a second apart, unless a key is missing
    request = urllib.request.Request(f"http://{address}/global/{other}", method=method, data=data)
    tries = 3
    while tries:
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.read()
        except urllib.error.HTTPError:
            time.sleep(0.01)
        except OSError:
            tries -= 1
            time.sleep(0.5)
    raise SystemExit("HTTP request failed.")


kept(rank, "PUT", rank.encode())
print("met", *(kept(other, "GET").decode() for other in range(int(size))), flush=True)
time.sleep(2)  # the other one asks, too
"""
RENDEZVOUS = """
import http.server, time

time.sleep(2)  # worker 0 is the last one: its image has to be pulled, for example
KEPT = {}


class RendezvousHandler(http.server.BaseHTTPRequestHandler):
    def do_PUT(self):
        KEPT[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, b"")

    def do_GET(self):
        self.answer(200 if self.path in KEPT else 404, KEPT.get(self.path, b""))

    def answer(self, status, content):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class RendezvousHTTPServer(http.server.ThreadingHTTPServer):
    def __init__(self, address, handler, verbose):
        super().__init__(address, handler)
"""


@pytest.fixture
def ran(tmp_path):
    """Return what the command of the page prints that runs a wrapper, beside the files that a case adds."""
    for name, text in _BLOCK.findall(PAGE.read_text()):
        (tmp_path / name).write_text(text)

    def run(wrapper, files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        (line,) = [line for line in _COMMAND.findall(PAGE.read_text()) if wrapper in line]
        env = {**os.environ, "PATH": f"{tmp_path}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        env |= {"PYTHONPATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
        done = subprocess.run(shlex.split(line), cwd=tmp_path, env=env, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.tensorflow
def test_flags(ran):
    out = ran("flags.py", {"train.py": FLAGS})
    assert "[worker-0] total 4.0" in out.splitlines(), out


def test_torchrun(ran):
    out = ran("with_torchrun.py", {"torchrun": TORCHRUN.format(python=sys.executable), "train.py": ""})
    for rank in (0, 1):
        address = rf"--nnodes 2 --node-rank {rank} --master-addr \S+ --master-port \d+ --nproc-per-node 1 train.py"
        assert re.search(rf"\[worker-{rank}\] got {address}", out), out


def test_horovod(ran):
    packages = dict.fromkeys(
        ("horovod/__init__.py", "horovod/runner/__init__.py", "horovod/runner/http/__init__.py"), ""
    )
    out = ran("with_horovod.py", {**packages, "horovod/runner/http/http_server.py": RENDEZVOUS, "train.py": HOROVOD})
    assert {f"[worker-{rank}] met 0 1" for rank in (0, 1)} <= set(out.splitlines()), out

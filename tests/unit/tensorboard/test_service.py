"""The program of a TensorBoard on a cluster: when it exits, what counts as use, and what it passes on."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import pytest

from tests.support import gcs, s3
from tests.support.event_writer import ScalarWriter
from tests.support.waiting import until
from tfsteps.tensorboard.process import _free_port, arguments
from tfsteps.tensorboard.service import HEALTH, Frontend, Lifetime


def life(**times):
    return Lifetime(**{"idle": 10.0, "keep_for": 100.0, "requested": 0.0, "written": 0.0, **times})


@pytest.mark.parametrize(
    ("times", "now", "why"),
    [
        ({}, 9.9, ""),
        ({}, 10.0, "idle"),
        ({"requested": 5.0}, 14.9, ""),
        ({"written": 5.0}, 14.9, ""),
        ({"written": 5.0}, 15.0, "idle"),
        ({"requested": 99.0}, 100.0, "keep_for"),
        ({"requested": 99.0, "written": 50.0}, 100.0, ""),
    ],
)
def test_it_exits_when_it_is_idle_or_its_data_is_old(times, now, why):
    assert why in life(**times).why(now)
    assert bool(life(**times).why(now)) == bool(why)
    assert (life(**times).remaining(now) <= 0) == bool(why)


class Answers:
    """A WSGI application that records the paths that it is asked for."""

    def __init__(self, *headers):
        self.paths, self._headers, self.sent = [], list(headers), None

    def __call__(self, environ, start_response):
        self.paths.append(environ["PATH_INFO"])
        start_response("200 OK", self._headers)
        return [b"page"]

    def get(self, frontend, path):
        def start_response(status, headers, *_):
            self.sent = status, headers

        return b"".join(frontend({"PATH_INFO": path}, start_response))


def test_the_health_check_is_no_sign_of_use():
    app = Answers()
    frontend = Frontend(app, "")
    frontend.requested = 1.0
    assert app.get(frontend, HEALTH) == b"ok\n"
    assert (app.paths, frontend.requested) == ([], 1.0)
    assert app.get(frontend, "/data/runs") == b"page"
    assert frontend.requested > 1.0


def test_a_proxy_may_remove_the_prefix_or_leave_it():
    app = Answers()
    frontend = Frontend(app, "/tb/ml/x/")
    for path in ("/tb/ml/x/data/runs", "/data/runs", "/tb/ml/x/"):
        app.get(frontend, path)
    assert app.paths == ["/data/runs", "/data/runs", "/"]
    app.get(frontend, "/tb/ml/x")
    assert app.sent == ("301 Moved Permanently", [("Location", "/tb/ml/x/")])


def test_kubernetes_gets_no_encoding_that_it_does_not_know():
    app = Answers(("Content-Encoding", "identity"), ("Content-Type", "text/html"))
    app.get(Frontend(app, ""), "/")
    assert app.sent[1] == [("Content-Type", "text/html")]


def test_the_log_directories_of_several_runs(tmp_path):
    links = tmp_path / "links"
    assert arguments({"": "/data"}, links) == ["--logdir", "/data"]
    assert arguments({"": "s3://b/x"}, links) == ["--logdir", "s3://b/x", "--load_fast=false"]
    assert not links.exists()
    assert arguments({"r1": "/data/1", "r2/fit": "/data/2"}, links) == ["--logdir", str(links)]
    assert [str((links / name).readlink()) for name in ("r1", "r2/fit")] == ["/data/1", "/data/2"]
    assert arguments({"a": "s3://b/1", "b": "/x"}, links) == ["--logdir_spec", "a:s3://b/1,b:/x"]


@pytest.fixture
def started(tmp_path):
    """Return a function that starts the program, and waits until it serves."""
    processes = []

    def start(*options):
        port = _free_port("")
        command = [sys.executable, "-m", "tfsteps.tensorboard.service", *options, f"--port={port}"]
        # A process group of its own, as process 1 of a container has.
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, process_group=0
        )
        processes.append(process)
        assert "serves" in process.stdout.readline()
        return process, f"http://127.0.0.1:{port}"

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def test_it_exits_with_0_when_it_is_idle_and_stays_while_data_is_written(started, tmp_path):
    process, url = started(str(tmp_path), "--idle=6", "--keep-for=600")
    end = time.monotonic() + 7.5
    with ScalarWriter(tmp_path / "train") as writer:
        while time.monotonic() < end:
            writer.scalar("loss", 1.0, 1)
            with urllib.request.urlopen(url + HEALTH, timeout=10) as answer:
                assert answer.read() == b"ok\n"
            time.sleep(0.3)
    assert process.poll() is None
    assert process.wait(timeout=60) == 0
    assert "no request and no new event data for 6 s" in process.stdout.read()


def test_a_signal_and_a_lost_data_server_end_it_with_a_failure(started, tmp_path):
    process, _ = started(str(tmp_path))
    process.send_signal(signal.SIGTERM)  # else its Job would be complete after a drain
    assert process.wait(timeout=30) == 128 + signal.SIGTERM
    process, _ = started(str(tmp_path), "--idle=20", "--keep-for=20")
    children = until(lambda: children_of(process.pid))
    os.kill(children[0], signal.SIGKILL)
    assert process.wait(timeout=30) == 1


def test_without_a_server_it_exits_when_the_data_is_old(tmp_path):
    command = [sys.executable, "-m", "tfsteps.tensorboard.service", "--no-server", "--keep-for=1", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "There was no new event data for 1 s (keep_for)." in done.stdout
    assert "serves" not in done.stdout


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_event_files_in_an_object_store(scheme, started, tmp_path, monkeypatch):
    with ScalarWriter(tmp_path / "train") as writer:
        writer.scalar("loss", 0.5, step=7)
    (file,) = tmp_path.glob("train/*")
    with stored(scheme, file, monkeypatch):
        _, url = started(f"{scheme}://training/r1")
        runs = until(lambda: json.loads(read(f"{url}/data/runs")))
        assert runs == ["train"]
        (point,) = json.loads(read(f"{url}/data/plugin/scalars/scalars?run=train&tag=loss"))
        assert point[1:] == [7, 0.5]


@contextlib.contextmanager
def stored(scheme, file, monkeypatch):
    """Serve an object store with the file below `training/r1/train`, and set the variables of its clients."""
    key = f"r1/train/{file.name}"
    if scheme == "gs":
        with gcs.served_bucket("training") as endpoint:
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint)
            upload = f"{endpoint}/upload/storage/v1/b/training/o?uploadType=media&name={urllib.parse.quote(key, '')}"
            request = urllib.request.Request(upload, data=file.read_bytes(), method="POST")
            urllib.request.urlopen(request, timeout=10).close()
            yield
        return
    with s3.served_bucket("training", "127.0.0.1") as (bucket, endpoint):
        bucket.upload_file(str(file), key)
        for name, text in {"S3_ENDPOINT": endpoint, "S3_USE_HTTPS": "0", **s3.VARIABLES}.items():
            monkeypatch.setenv(name, text)
        yield


def read(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read()


def children_of(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def test_a_port_that_is_in_use_is_one_line(tmp_path):
    with socket.create_server(("", 0)) as taken:
        command = [sys.executable, "-m", "tfsteps.tensorboard.service", str(tmp_path), "--port"]
        port = taken.getsockname()[1]
        done = subprocess.run([*command, str(port)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, "an end that Kubernetes starts again"
    assert f"TensorBoard cannot start on port {port}: " in done.stdout
    assert "Traceback" not in done.stdout + done.stderr

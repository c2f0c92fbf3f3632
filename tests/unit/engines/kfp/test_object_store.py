"""Report and log of a step that failed, stored where Kubeflow Pipelines stores those of steps that succeed."""

import base64
import contextlib
import http.server
import itertools
import json
import socket
import ssl
import sys
import threading
import time
import urllib.parse

import boto3
import pytest
import trustme
from moto.server import ThreadedMotoServer

from tests.support.servers import KeepsErrors
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.engines.kfp import object_store
from tfsteps.engines.kfp.object_store import Upload, upload
from tfsteps.kube import access
from tfsteps.kube.credentials import Access
from tfsteps.runs.events import State
from tfsteps.steps import program
from tfsteps.steps.train import launcher

ROOT = "mlpipeline/v2/artifacts/p/11111111-2222-3333-4444-555555555555/train/0b9a5a3e-7f3b-4b53-9d47-1a2b3c4d5e6f"
KEY = ROOT.partition("/")[2]
FAILS = {"name": "fails", "command": ["sh", "-c", "echo a line; exit 3"], "roles": {"worker": {}}}
KEYS = {"accesskey": "minio", "secretkey": "minio123"}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(access, "in_cluster", lambda: True)


@pytest.fixture
def bucket():
    """Serve S3 and return its one bucket."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    try:
        bucket_resource = boto3.resource("s3", endpoint_url=f"http://{host}:{port}", **keys).Bucket("mlpipeline")
        bucket_resource.create()
        bucket_resource.endpoint = f"{host}:{port}"
        yield bucket_resource
        bucket_resource.objects.delete()
    finally:
        server.stop()


def provider(endpoint, scheme="minio", **credentials):
    secret = {"secretName": "keys", "accessKeyKey": "accesskey", "secretKeyKey": "secretkey", "tokenKey": "token"}
    default = {"endpoint": endpoint, "region": "minio", "disableSSL": True}
    return {scheme: {"default": {**default, "credentials": credentials or {"secretRef": secret}}}}


@pytest.fixture
def cluster(monkeypatch):
    """Return a function that serves a ConfigMap and a Secret for the block; what is None is not there."""

    @contextlib.contextmanager
    def served(providers, keys=KEYS, denied=()):
        encoded = {name: base64.b64encode(value.encode()).decode() for name, value in keys.items()}
        objects = {"kfp-launcher": {"providers": json.dumps(providers)}, "keys": encoded}

        def script(asked):
            name = asked.path.rpartition("/")[2]
            if name in denied:
                return refusal(403, "Forbidden")
            return Answer(body={"metadata": {"name": name}, "data": objects[name]})

        with serve(script) as server:
            monkeypatch.setattr(access, "find", lambda *_: server.access())
            yield server

    return served


@pytest.fixture
def train(tmp_path, monkeypatch, capfd):
    """Return a function that runs a `train` step on this machine: its exit code, its message, and all it printed."""
    message = tmp_path / "termination-log"
    message.touch()
    monkeypatch.setattr(program, "_TERMINATION_LOG", message)
    monkeypatch.setattr(launcher, "ignore_termination", lambda: None)  # the processes of later tests would inherit it

    def run(job, scheme="minio"):
        artifacts = {
            name: {
                "artifacts": [{"name": name, "uri": f"{scheme}://{ROOT}/{name}", "customPath": str(tmp_path / name)}]
            }
            for name in ("logs", "report", "model")
        }
        outputs = {"outputFile": str(tmp_path / ROOT / "output_metadata.json"), "artifacts": artifacts}
        executor_input = {"inputs": {"parameterValues": {"spec": job, "system": "local"}}, "outputs": outputs}
        code = launcher.main(["--executor_input", json.dumps(executor_input)])
        assert (tmp_path / ROOT / "output_metadata.json").exists(), "the outputs are written in any case"
        return code, message.read_text(), capfd.readouterr().out

    return run


def keys_of(bucket):
    return sorted(item.key for item in bucket.objects.all())


def test_a_failed_step_stores_its_report_and_log_and_prints_their_addresses(bucket, cluster, train):
    with cluster(provider(bucket.endpoint)):
        code, message, printed = train(FAILS)
    assert code == 10
    assert message.endswith(f"the job failed. report: minio://{ROOT}/report logs: minio://{ROOT}/logs")
    assert "warning" not in printed
    assert keys_of(bucket) == [f"{KEY}/logs", f"{KEY}/report"]
    report, log = (bucket.Object(f"{KEY}/{name}").get() for name in ("report", "logs"))
    assert report["ContentType"] == "text/html; charset=utf-8"
    assert report["Body"].read().startswith(b"<!DOCTYPE html>")
    assert log["ContentType"] == "text/plain; charset=utf-8"
    assert b"a line" in log["Body"].read()


def test_a_step_that_succeeded_leaves_that_to_the_engine(bucket, cluster, train):
    with cluster(provider(bucket.endpoint)) as server:
        code, message, _ = train({**FAILS, "command": ["true"]})
    assert (code, "report:" in message) == (0, False)
    assert (keys_of(bucket), server.asked) == ([], [])


def test_a_job_that_somebody_stopped_is_not_waited_for(bucket, cluster, train, monkeypatch):
    monkeypatch.setattr(launcher, "launch", stopped(launcher.launch))
    with cluster(provider(bucket.endpoint)) as server:
        code, _, _ = train(FAILS)
    assert (code, keys_of(bucket), server.asked) == (12, [], [])


def stopped(launch):
    def launched(*args, **kwargs):
        status = launch(*args, **kwargs)
        status.state = State.CANCELLED
        return status

    return launched


def test_credentials_of_the_environment(bucket, cluster, train, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with cluster(provider(bucket.endpoint, "s3", fromEnv=True), denied=["keys"]):
        code, message, _ = train(FAILS, "s3")
    assert (code, message.endswith(f"logs: s3://{ROOT}/logs")) == (10, True)
    assert keys_of(bucket) == [f"{KEY}/logs", f"{KEY}/report"]


@pytest.mark.parametrize("denied", ["kfp-launcher", "keys"])
def test_without_the_permission_the_outcome_is_unchanged_and_one_line_reports_it(bucket, cluster, train, denied):
    with cluster(provider(bucket.endpoint), denied=[denied]):
        code, message, printed = train(FAILS)
    assert code == 10
    assert message.endswith("the job failed.")
    (line,) = [line for line in printed.splitlines() if line.startswith("warning: ")]
    assert line.startswith("warning: 0 of 2 files (report, logs) were uploaded: ")
    assert f"{denied} cannot be read" in line


@pytest.mark.parametrize("keys", [{}, {"accesskey": "minio", "secretkey": ""}])
def test_a_secret_without_its_keys(bucket, cluster, train, keys):
    with cluster(provider(bucket.endpoint), keys=keys):
        code, message, printed = train(FAILS)
    assert (code, "report:" in message) == (10, False)
    assert "Secret keys has no usable value for the key" in printed


def test_without_the_library_one_line_names_the_extra_to_install(cluster, train, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with cluster(provider("127.0.0.1:1")):
        code, message, printed = train(FAILS)
    assert (code, "report:" in message) == (10, False)
    assert "pip install 'tfsteps[store]'" in printed


@pytest.mark.parametrize("listening", [True, False], ids=["answers nothing", "refuses"])
def test_a_store_that_is_away_costs_a_bounded_time(cluster, train, listening):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listening:
            silent.listen()
        with cluster(provider(f"127.0.0.1:{silent.getsockname()[1]}")):
            began = time.monotonic()
            code, message, printed = train(FAILS)
    assert (code, "report:" in message) == (10, False)
    assert "warning: 0 of 2 files (report, logs) were uploaded" in printed
    assert time.monotonic() - began < object_store.SECONDS + 2


def test_a_cluster_that_is_away_costs_a_bounded_time(train, monkeypatch):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(access, "find", lambda *_: Access(server, "ns", None, lambda _: "", "it"))
        began = time.monotonic()
        code, _, printed = train(FAILS)
    assert code == 10
    assert "it cannot be reached" in printed
    assert time.monotonic() - began < object_store.SECONDS + 2


def files(tmp_path, log_bytes):
    uploads = []
    for name, content in (("report", b"<!doctype html>"), ("logs", b"a line\n" * (log_bytes // 7))):
        (tmp_path / name).write_bytes(content)
        uploads.append(Upload(tmp_path / name, f"minio://mlpipeline/a/{name}", "text/plain"))
    return uploads


def test_a_large_log_is_uploaded_in_parts(bucket, cluster, tmp_path):
    uploads = files(tmp_path, 21 << 20)
    with cluster(provider(bucket.endpoint)):
        assert upload(uploads) == ([item.uri for item in uploads], "")
    assert bucket.Object("a/logs").get()["Body"].read() == uploads[1].file.read_bytes()
    assert bucket.Object("a/logs").e_tag.strip('"').endswith("-5"), "five parts"


def test_an_upload_that_takes_too_long_is_taken_back(bucket, cluster, tmp_path, monkeypatch):
    uploads = files(tmp_path, 30 << 20)
    ticks = itertools.count(step=object_store.SECONDS / 20)  # as if each MiB took that long
    monkeypatch.setattr(object_store.time, "monotonic", lambda: next(ticks))
    with cluster(provider(bucket.endpoint)):
        done, why = upload(uploads)
    assert done == [uploads[0].uri]
    assert why == "the upload of logs (29 MiB) would have taken more than 8 s"
    assert keys_of(bucket) == ["a/report"]
    assert list(bucket.multipart_uploads.all()) == []


def test_outside_of_pods_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "in_cluster", lambda: False)
    monkeypatch.delattr(access, "find")
    assert upload(files(tmp_path, 7)) == ([], "")


class GoogleServer(KeepsErrors, http.server.ThreadingHTTPServer):
    """Serves Google to one test."""


class Google(http.server.BaseHTTPRequestHandler):
    """Takes objects as Google's XML API does."""

    def do_PUT(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.objects[self.path] = self.headers["Content-Type"], content
        self.send_response(200)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Be quiet."""


def test_a_bucket_of_google(cluster, train, tmp_path, monkeypatch):
    """Over TLS by an authority that the back end hands on in SSL_CERT_FILE."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with GoogleServer(("127.0.0.1", 0), Google) as server:
        server.objects, server.socket = {}, tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever).start()
        token = {"gcs_base_url": f"https://127.0.0.1:{server.server_port}", "disable_oauth": True, "client_email": "a"}
        token |= {"private_key": "", "private_key_id": ""}
        with cluster(provider("", "gs"), keys={"token": json.dumps(token)}):
            code, message, printed = train(FAILS, "gs")
        server.shutdown()
    assert code == 10, printed
    assert message.endswith(f"logs: gs://{ROOT}/logs"), printed
    stored = {urllib.parse.unquote(path): content for path, content in server.objects.items()}
    assert stored[f"/{ROOT}/report"][0] == "text/html; charset=utf-8"
    assert b"a line" in stored[f"/{ROOT}/logs"][1]

"""A job whose outputs are in a bucket of an S3 server on this machine."""

import json
import pathlib
import subprocess
import sys
import urllib.parse
import urllib.request

import boto3
import pytest
import yaml
from moto.server import ThreadedMotoServer

from tests.support.waiting import until
from tests.unit.cli.command import COMMAND
from tfsteps.tensorboard.process import TensorBoard

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def bucket(monkeypatch):
    """Serve S3, and return its one bucket. What is started from here uses the same server and credentials."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name in ("AWS_ENDPOINT_URL", "S3_ENDPOINT"):  # boto3 reads the first, TensorBoard the second
        monkeypatch.setenv(name, f"http://{host}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    try:
        found = boto3.resource("s3").Bucket("runs")
        found.create()
        yield found
    finally:
        server.stop()


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def test_outputs_go_to_a_bucket_and_are_named_by_their_uri(bucket, tmp_path, monkeypatch):
    job = {
        "name": "mnist",
        "command": [sys.executable, "-m", "tests.programs.bucket"],
        "env": {"PYTHONPATH": str(ROOT)},
        "roles": {"worker": {}},
        "output_dir": "s3://runs/{name}/{run_id}/",
        "outputs": {"model": "export", "metrics": {"loss": "train/loss"}},
        "systems": {"local": {"started": "spawn"}},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    monkeypatch.chdir(tmp_path)
    ran = subprocess.run(
        [COMMAND, "run", "job.yaml", "--run-id", "r1", "--output", "json"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    outputs = json.loads(ran.stdout)
    place = "s3://runs/mnist/r1"
    assert (outputs["model"], outputs["logs"]) == (f"{place}/export", f"{place}/logs")
    keys = sorted(item.key for item in bucket.objects.all())
    assert [key.rpartition("/")[0] for key in keys] == ["mnist/r1/export", "mnist/r1/logs/train"]
    assert not list(tmp_path.rglob("s3:*")), "a folder was made of the URI"

    assert outputs["metrics"] == {}
    assert "`outputs.metrics` stays empty: event files at s3:// are not read." in ran.stderr
    assert f"No value of loss: the event files are at {place}/logs, which cannot be read from here." in ran.stderr
    report = pathlib.Path(outputs["report"]).read_text()
    assert f"Reports do not read {place}/logs" in report
    assert f"<code>{place}/export</code>" in report
    shown = subprocess.run([COMMAND, "show", "r1"], capture_output=True, text=True, check=True)
    assert f"{place}/export" in shown.stdout

    with TensorBoard(outputs["logs"]) as board:  # its own reader, which uses boto3, too
        assert until(lambda: get(f"{board.url}data/runs")) == ["train"]
        query = urllib.parse.urlencode({"run": "train", "tag": "loss"})
        points = get(f"{board.url}data/plugin/scalars/scalars?{query}")
    assert [step for _, step, _ in points] == [0, 1, 2]

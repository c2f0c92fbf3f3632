"""A job whose outputs are in a bucket of an object store on this machine."""

import contextlib
import json
import pathlib
import subprocess
import sys
import urllib.parse
import urllib.request

import pytest
import yaml

from tests.support import gcs, s3
from tests.support.waiting import until
from tests.unit.cli.command import COMMAND
from tfsteps.tensorboard.process import TensorBoard

ROOT = pathlib.Path(__file__).parents[2]


@contextlib.contextmanager
def object_store(scheme, monkeypatch):
    """Serve a bucket `runs`. What is started from here uses the same server and credentials."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    if scheme == "gs":
        with gcs.served_bucket("runs") as endpoint:
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint)
            monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
            yield
        return
    with s3.served_bucket("runs", "127.0.0.1") as (_, endpoint):
        for name, text in {"S3_ENDPOINT": f"http://{endpoint}", **s3.VARIABLES}.items():
            monkeypatch.setenv(name, text)
        yield


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def run(*options):
    command = [COMMAND, "run", "job.yaml", "--run-id", "r1", "--output", "json", *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout), ran.stderr


@pytest.mark.tensorflow
@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_metrics_and_curves_of_a_job_come_from_its_bucket(scheme, tmp_path, monkeypatch):
    job = {
        "name": "mnist",
        "command": [sys.executable, "-m", "tests.programs.bucket"],
        "args": ["3"],
        "env": {"PYTHONPATH": str(ROOT)},
        "roles": {"worker": {}},
        "output_dir": f"{scheme}://runs/{{name}}/{{run_id}}/",
        "outputs": {"model": "export", "metrics": {"loss": "train/loss"}},
        "systems": {"local": {"started": "spawn"}},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    monkeypatch.chdir(tmp_path)
    with object_store(scheme, monkeypatch):
        outputs, _ = run()
        place = f"{scheme}://runs/mnist/r1"
        assert (outputs["model"], outputs["logs"]) == (f"{place}/export", f"{place}/logs")
        assert not list(tmp_path.rglob(f"{scheme}:*")), "a folder was made of the URI"
        assert outputs["metrics"] == {"loss": pytest.approx(1 / 3)}
        assert outputs["metric_notes"] == {}
        report = pathlib.Path(outputs["report"]).read_text()
        assert "last value 0.3333" in report
        assert f"<code>{place}/export</code>" in report

        outputs, printed = run("--set", "args.0=0")
        assert outputs["metrics"] == {}
        assert "existed before attempt 1 (`outputs.earlier_attempts` counts them)." in outputs["metric_notes"]["loss"]
        assert outputs["metric_notes"]["loss"] in printed

        with TensorBoard(f"{place}/logs") as board:  # its own reader
            assert until(lambda: get(f"{board.url}data/runs")) == ["train"]
            query = urllib.parse.urlencode({"run": "train", "tag": "loss"})
            points = get(f"{board.url}data/plugin/scalars/scalars?{query}")
        assert [step for _, step, _ in points] == [0, 1, 2]

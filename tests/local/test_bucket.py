"""A job whose outputs are in a bucket of an object store on this machine; code that TensorFlow reads."""

import contextlib
import json
import pathlib
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml

from tests.support import gcs, s3
from tests.support.code_store import fetch
from tests.support.waiting import until
from tests.unit.cli.command import COMMAND
from tfsteps.runs import code_archive
from tfsteps.spec import CodeSource
from tfsteps.tensorboard.object_store import open_object
from tfsteps.tensorboard.process import TensorBoardProcess

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


def steps_shown(url, run, tag):
    """Return the steps of a tag that a TensorBoard shows; none while it has not read the tag: a run is shown first."""
    try:
        points = get(f"{url}data/plugin/scalars/scalars?{urllib.parse.urlencode({'run': run, 'tag': tag})}")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return []
    return [step for _, step, _ in points]


def run(*options):
    command = [COMMAND, "run", "job.yaml", "--run-id", "r1", "--output", "json", *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout), ran.stderr


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

        with TensorBoardProcess(f"{place}/logs") as board:  # its own reader
            until(lambda: get(f"{board.url}data/runs") == ["train"])
            until(lambda: steps_shown(board.url, "train", "loss") == [0, 1, 2])


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_code_is_uploaded_to_a_bucket(scheme, tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("print('shipped')")
    code = CodeSource(digest=code_archive.pack(tmp_path).digest, bucket=f"{scheme}://runs/code")
    with object_store(scheme, monkeypatch):
        assert code_archive.upload(code)
        file, _ = open_object(f"{scheme}://runs/code/{code.digest}.tar.gz")
        assert file.read() == code_archive.read(code.digest)


@pytest.mark.tensorflow
def test_replicas_read_code_of_other_buckets_by_tensorflow(tmp_path):
    for name in ("program", "it"):
        (tmp_path / name).mkdir()
    (tmp_path / "program" / "train.py").write_text("print('shipped')")
    code = CodeSource(
        digest=code_archive.pack(tmp_path / "program").digest, bucket=f"{tmp_path}/it"
    )  # TensorFlow opens what is no URL
    done = fetch(code, tmp_path / "none", "-I")
    assert "No such file or directory; if the bucket needs credentials" in done.stderr.splitlines()[-1]
    (tmp_path / "it" / f"{code.digest}.tar.gz").write_bytes(code_archive.read(code.digest))
    done = fetch(code, tmp_path / "new", "-I")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new" / "train.py").exists()

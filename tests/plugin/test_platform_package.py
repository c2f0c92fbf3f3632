"""A package outside this one adds a platform: its jobs outlive their launcher, and all commands find them there."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

from tests.plugin.outside import installed
from tests.support.processes import started
from tests.support.waiting import until
from tests.unit.janitor.api_server import FakeApiServer
from tests.wire.scripted import serve
from tfsteps.launcher.exit_codes import ExitCode

PACKAGE = pathlib.Path(__file__).with_name("toy_platform")
COMMAND = "import sys; from tfsteps.cli import main; main()"
JOB = """
name: greet
command: [sh, -c, 'echo "hi from $TFSTEPS_ROLE-$TFSTEPS_INDEX"; while [ ! -e go ]; do sleep 0.1; done']
roles: {worker: {replicas: 2}}
"""


@pytest.fixture(scope="module")
def install_dir(tmp_path_factory):
    """Return a folder with the package installed."""
    return installed(PACKAGE, tmp_path_factory.mktemp("install_dir"))


@pytest.fixture
def tfsteps(install_dir, tmp_path, monkeypatch):
    """Return what runs a command beside the package and a platform, and returns its exit code and what it printed."""
    (tmp_path / "job.yaml").write_text(JOB)
    for name, value in {"PYTHONPATH": install_dir, "PYTHONDONTWRITEBYTECODE": "1", "TOYBOX": tmp_path / "box"}.items():
        monkeypatch.setenv(name, str(value))

    def run(*args, python=("-c", COMMAND)):
        command = [sys.executable, *python, *args]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    yield run
    (tmp_path / "go").touch()
    until(lambda: not any(running(pid) for pid in pids(tmp_path)))


def pids(folder):
    return [int(file.read_text()) for file in (folder / "box").glob("*/pid")]


def running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def launched(folder, *args):
    """Start a launcher, kill it once the job's replicas run."""
    command = [sys.executable, "-c", COMMAND, "run", "job.yaml", "--on", "toybox", *args]
    with started(command, cwd=folder, stdout=subprocess.PIPE, text=True) as launcher:
        until(lambda: all(f"hi from worker-{i}" in file.read_text() for file in events(folder) for i in (0, 1)))
        launcher.kill()


def events(folder):
    return [*(folder / "box").glob("*/events")] or [pathlib.Path("/dev/null")]


def states(tfsteps, *args):
    code, printed = tfsteps("runs", "--output", "json", *args)
    assert code == 0, printed
    return {item["run"]: item["state"] for item in json.loads(printed)}


def test_a_job_whose_launcher_was_killed_is_found_followed_and_stopped(tfsteps, tmp_path):
    launched(tmp_path, "--run-id", "r1")
    (pid,) = pids(tmp_path)
    assert running(pid)
    assert states(tfsteps) == states(tfsteps, "--on", "toybox") == {"r1": "running"}
    code, printed = tfsteps("show", "r1")
    assert (code, "running" in printed) == (0, True), printed
    code, printed = tfsteps("logs", "r1")
    assert (code, set(re.findall(r"hi from worker-\d", printed))) == (0, {"hi from worker-0", "hi from worker-1"})
    code, printed = tfsteps("stop", "r1")
    assert code == 0, printed
    assert "stopping greet: waiting for Toybox to end its replicas\ngreet cancelled" in printed
    until(lambda: not running(pid))
    assert states(tfsteps, "--on", "toybox") == {"r1": "cancelled"}


@pytest.mark.parametrize("command", ["attach r1", "run job.yaml --on toybox --run-id r1 --adopt"])
def test_a_job_whose_launcher_was_killed_is_adopted(tfsteps, tmp_path, command):
    launched(tmp_path, "--run-id", "r1")
    (tmp_path / "go").touch()
    code, printed = tfsteps(*command.split())
    assert (code, "greet succeeded after " in printed) == (0, True), printed
    assert len(pids(tmp_path)) == 1
    assert states(tfsteps) == {"r1": "succeeded"}


def test_a_detached_job_is_cleared(tfsteps, tmp_path):
    for run in ("r1", "r2"):
        code, printed = tfsteps("run", "job.yaml", "--system", "toybox", "--run-id", run, "--detach")
        assert (code, f"follow it:  tfsteps attach {run} --on toybox" in printed) == (0, True), printed
    assert "only the janitor enforces `total`" in printed
    code, printed = tfsteps("clear", "r1", "--yes")
    assert (code, printed.endswith("run r1 cleared\n")) == (0, True), printed
    assert re.search(r"^  job greet-\w+ on Toybox$", printed, re.MULTILINE)
    assert states(tfsteps, "--on", "toybox") == {"r1": "cancelled", "r2": "running"}
    assert states(tfsteps) == {"r2": "running"}


def test_a_platform_that_does_not_answer_leaves_the_state_unknown(tfsteps, tmp_path, monkeypatch):
    launched(tmp_path, "--run-id", "r1")
    monkeypatch.delenv("TOYBOX")
    code, printed = tfsteps("runs")
    assert (code, "the states of 1 jobs on Toybox are not known: there is no toybox" in printed) == (0, True), printed
    assert re.search(r"^r1 .* unknown ", printed, re.MULTILINE)
    code, printed = tfsteps("stop", "r1")
    assert (code, "there is no toybox; set TOYBOX to its folder" in printed) == (2, True), printed


def test_what_cannot_be_done_there_is_said(tfsteps):
    assert tfsteps("run", "job.yaml", "--on", "toybox", "--run-id", "r1", "--detach")[0] == 0
    for command, why in {
        "shell r1 worker-0 --on toybox": "Toybox has no request that starts a command in a replica",
        "pause r1 --on toybox": "toybox runs cannot be paused; `tfsteps stop r1 --on toybox` ends them",
    }.items():
        code, printed = tfsteps(*command.split())
        assert (code, why in printed) == (2, True), printed


def test_the_janitor_makes_its_pass(tfsteps, tmp_path, monkeypatch):
    job = JOB + "deadlines: {total: 1s}\n"
    (tmp_path / "job.yaml").write_text(job)
    assert tfsteps("run", "job.yaml", "--on", "toybox", "--run-id", "r1", "--detach")[0] == 0
    (request,) = (tmp_path / "box").glob("*/request.json")
    late = {**json.loads(request.read_text()), "created": time.time() - 3600}
    janitor = {"python": ("-m", "tfsteps.janitor")}
    with serve(FakeApiServer({("kubeflow.org/v1", "tfjobs"): [], ("v1", "pods"): []}).answer) as server:
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "namespace": "ml"}}],
            "current-context": "c",
        }
        (tmp_path / "config").write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        code, printed = tfsteps("--once", **janitor)
        assert (code, "1 jobs in the toybox looked at, 0 stops due" in printed) == (0, True), printed
        request.write_text(json.dumps(late))
        code, printed = tfsteps("--once", "--dry-run", **janitor)
        assert (code, "in the toybox would be stopped" in printed) == (0, True), printed
        assert states(tfsteps, "--on", "toybox") == {"r1": "running"}
        code, printed = tfsteps("--once", **janitor)
        assert (code, "1 jobs in the toybox looked at, 1 stops due" in printed) == (0, True), printed
        until(lambda: states(tfsteps, "--on", "toybox") == {"r1": "cancelled"})
        request.write_text("{")  # a fault of the package must not end the janitor
        code, printed = tfsteps("--once", **janitor)
        assert (code, "Toybox: the pass failed: DecodeError" in printed) == (ExitCode.PLATFORM, True), printed


def test_its_manifests_are_imported(tfsteps, tmp_path):
    manifest = {
        "apiVersion": "toy.example/v1",
        "kind": "ToyJob",
        "metadata": {"name": "old"},
        "spec": {"command": ["python", "train.py"], "workers": 3, "color": "red"},
    }
    (tmp_path / "toy.json").write_text(json.dumps(manifest))
    code, printed = tfsteps("import", "toy.json", "-o", "old.yaml")
    assert (code, "spec.color" in printed) == (0, True), printed
    assert "worker: {replicas: 3}" in (tmp_path / "old.yaml").read_text()
    (tmp_path / "pod.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old"}}))
    code, printed = tfsteps("import", "pod.json")
    assert (code, "ToyJob, or an Argo Workflow" in printed) == (2, True), printed


def test_its_pipelines_are_imported_and_its_retention_is_a_preset(tfsteps, tmp_path):
    (tmp_path / "pipeline.json").write_text('{"name": "nightly", "toys": ["ball"]}')
    code, printed = tfsteps("import", "pipeline.json", "-o", "nightly.yaml")
    assert code == 0, printed
    assert '"command": ["play", "ball"]' in (tmp_path / "nightly.yaml").read_text()
    code, printed = tfsteps("--preset", "nothing", python=("-m", "tfsteps.janitor"))
    assert (code, "'nothing' is not a preset; choose cube-studio or toybox" in printed) == (2, True), printed
    chosen = "from tfsteps.janitor.options import parse; print(parse(['--preset', 'toybox']).default)"
    assert tfsteps(python=("-c", chosen)) == (0, "DefaultRetention(succeeded=3600.0, failed=86400.0)\n")


def test_on_takes_its_name_only_if_the_package_is_installed(tfsteps, monkeypatch):
    code, printed = tfsteps("runs", "--on", "nowhere")
    assert (code, "'nowhere' is not one of 'local', 'kubernetes', 'hai', 'toybox'" in printed) == (2, True), printed
    complete = {"_TFSTEPS_COMPLETE": "complete_bash", "COMP_WORDS": "tfsteps runs --on ", "COMP_CWORD": "3"}
    for name, value in complete.items():
        monkeypatch.setenv(name, value)
    assert tfsteps()[1].split() == ["local", "kubernetes", "hai", "toybox"]
    for name in (*complete, "PYTHONPATH"):
        monkeypatch.delenv(name)
    code, printed = tfsteps("runs", "--on", "toybox")
    assert (code, "'toybox' is not one of 'local', 'kubernetes', 'hai'" in printed) == (2, True), printed


WRONG = {
    "the name of a place": ('name="toybox"', 'name="kubernetes"', "its job system's name 'kubernetes' is taken"),
    "a platform and kinds": (
        "    system=system,\n",
        "    system=system,\n    kinds=list,\n",
        "kinds of a cluster, and",
    ),
}


@pytest.mark.parametrize(("old", "new", "wrong"), WRONG.values(), ids=WRONG)
def test_a_package_that_contradicts_itself_is_refused(tmp_path, old, new, wrong):
    shutil.copytree(PACKAGE, tmp_path / "package")
    file = tmp_path / "package/toybox/__init__.py"
    file.write_text(file.read_text().replace(old, new))
    env = {**os.environ, "PYTHONPATH": str(installed(tmp_path / "package", tmp_path))}
    command = [sys.executable, "-c", COMMAND, "runs", "--on", "toybox"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, wrong in done.stderr) == (2, True), done.stderr

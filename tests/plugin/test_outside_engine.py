"""A package outside this one adds an engine by an entry point: the steps of docs/contribute/engine.md."""

import os
import pathlib
import re
import shutil
import signal
import subprocess

import msgspec
import pytest

from tests.plugin.outside import COMMAND, environment, installed, tfsteps
from tests.support.processes import started
from tests.support.waiting import until
from tests.unit.cli.jobs_on_cluster import write_kubeconfig
from tests.unit.imports.test_read import TFJOB
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.pipeline_record import PipelineRecord

ROOT = pathlib.Path(__file__).parents[2]
TOY = pathlib.Path(__file__).with_name("toy_engine")
PAGE = ROOT / "docs" / "contribute" / "engine.md"
PIPELINE = """
toy: nightly
steps:
- {name: fit, program: train, tries: 2, inputs: {system: SYSTEM, spec: {name: fit, SPEC}}}
- {name: tidy, program: cleanup, finalizer: true, inputs: {system: SYSTEM}}
"""
WORKERS = "command: [sh, -c, 'SCRIPT'], roles: {worker: {replicas: 2}}"
BLOCKED = "touch up-$TFSTEPS_INDEX; [ -e go ] || sleep 600"


@pytest.fixture(scope="module")
def install_dir(tmp_path_factory):
    """Return a folder with the package installed."""
    return installed(TOY, tmp_path_factory.mktemp("install_dir"))


def write(folder, script, system="local"):
    text = PIPELINE.replace("SPEC", WORKERS.replace("SCRIPT", script)).replace("SYSTEM", system)
    (folder / "nightly.yaml").write_text(text)


def submitted(install_dir, folder):
    command = [*COMMAND, "submit", "nightly.yaml", "--name", "n"]
    return started(command, cwd=folder, env=environment(install_dir), stdout=subprocess.PIPE, text=True)


def states(run="n"):
    return [(step.name, str(step.state)) for step in PipelineRecord.read(run).steps]


def test_a_pipeline_runs_on_it_by_the_commands_of_the_page(install_dir, tmp_path):
    page = PAGE.read_text()
    (tmp_path / "nightly.py").write_text(re.search(r"```python\n(# nightly\.py\n.*?)```", page, re.DOTALL)[1])
    commands = re.findall(r"^tfsteps (.*)$", page, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["compile", "lint", "submit", "runs", "show", "stop"]
    printed = {}
    for command in commands:
        code, printed[command.split()[0]] = tfsteps(install_dir, tmp_path, *command.split())
        assert code == 0, printed
    assert printed["lint"] == "nightly.yaml: nightly for toy is fine\n"
    assert set(re.findall(r"hi from worker-\d", printed["submit"])) == {"hi from worker-0", "hi from worker-1"}
    assert re.search("^nightly-1 +nightly +- +- +succeeded +- ", printed["runs"], re.MULTILINE)
    assert "pipeline nightly: succeeded" in printed["show"]
    assert "step tidy: succeeded" in printed["show"]
    assert printed["stop"].startswith("already ended: fit succeeded")
    outputs = msgspec.json.decode((store.pipeline_folder("nightly-1") / "fit.outputs.json").read_bytes())
    assert outputs["job"]["state"] == "succeeded"


def test_a_try_after_a_killed_launcher_is_of_the_same_task(install_dir, tmp_path):
    write(tmp_path, BLOCKED)
    with submitted(install_dir, tmp_path) as process:
        until((tmp_path / "up-1").exists)
        (first,) = store.attempts("n")
        (tmp_path / "go").touch()
        os.kill(first.launcher.pid, signal.SIGKILL)
        printed = process.communicate(timeout=60)[0]
        assert process.returncode == 0, printed
    assert states() == [("fit", "failed"), ("fit", "succeeded"), ("tidy", "succeeded")]
    assert [str(attempt.status().state) for attempt in store.attempts("n", "fit")] == ["lost", "succeeded"]


class Cluster:
    """A server of TFJobs: what is created stays as it is until `end` is called."""

    def __init__(self):
        self.jobs = []
        self.created = 0
        self.followed = False

    def answer(self, asked):
        if asked.method == "POST" and asked.path.endswith("/tfjobs"):
            body = {**asked.body, "metadata": {**asked.body["metadata"], "uid": "u1", "resourceVersion": "1"}}
            body["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
            if "dryRun" not in asked.query:
                self.created += 1
                self.jobs.append(body)
            return Answer(201, body)
        if asked.method == "PATCH":
            return Answer(body=self.jobs[0])
        if asked.method == "GET" and asked.path.endswith(("/tfjobs", "/pods")):
            if "watch" in asked.query:
                self.followed = self.followed or bool(self.jobs)
                return Answer(parts=["hang"])
            items = self.jobs if asked.path.endswith("/tfjobs") else []
            return Answer(body={"metadata": {"resourceVersion": "1"}, "items": items})
        if asked.method == "GET" and "/tfjobs/" in asked.path and self.jobs:
            return Answer(body=self.jobs[0])
        return (
            refusal(403, "Forbidden")
            if asked.method == "POST"
            else refusal(404, "NotFound", about=asked.path.rpartition("/")[2])
        )

    def end(self):
        self.jobs[0]["status"] = {"conditions": [{"type": "Succeeded", "status": "True"}]}


def test_a_try_after_a_killed_launcher_adopts_its_job_on_a_cluster(install_dir, tmp_path, monkeypatch):
    cluster = Cluster()
    text = PIPELINE.replace("SPEC", "image: 'trainer:1', roles: {worker: {}}").replace("SYSTEM", "kubeflow")
    (tmp_path / "nightly.yaml").write_text(text)
    with serve(cluster.answer) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        with submitted(install_dir, tmp_path) as process:
            until(lambda: cluster.followed and store.attempts("n"))
            (attempt,) = store.attempts("n")
            cluster.end()
            os.kill(attempt.launcher.pid, signal.SIGKILL)
            printed = process.communicate(timeout=60)[0]
    assert [name for name, _ in states()][:2] == ["fit", "fit"], printed
    assert states()[1] == ("fit", "succeeded"), printed
    assert cluster.created == 1, "the second try has adopted the job"
    (attempt,) = store.attempts("n", "fit")
    assert attempt.status().state is State.SUCCEEDED


def test_stop_ends_it_and_its_finalizer_runs(install_dir, tmp_path):
    write(tmp_path, BLOCKED)
    with submitted(install_dir, tmp_path) as process:
        until((tmp_path / "up-1").exists)
        code, printed = tfsteps(install_dir, tmp_path, "stop", "n")
        assert (code, "nightly cancelled" in printed) == (0, True), printed
        assert process.wait(timeout=60) == 12
    assert states()[-1] == ("tidy", "succeeded")
    assert re.search("^n .* cancelled", tfsteps(install_dir, tmp_path, "runs")[1], re.MULTILINE)


def test_its_jobs_end_with_it_if_it_is_killed(install_dir, tmp_path):
    write(tmp_path, BLOCKED)
    with submitted(install_dir, tmp_path) as process:
        until((tmp_path / "up-1").exists)
        (attempt,) = store.attempts("n")
        process.kill()
        until(lambda: attempt.alive().no and attempt.replicas_ended.exists())
    code, printed = tfsteps(install_dir, tmp_path, "show", "n")
    assert (code, "the process of the pipeline was killed" in printed) == (0, True), printed


def test_wrong_pipelines_and_options_are_refused(install_dir, tmp_path):
    write(tmp_path, "true")
    text = (tmp_path / "nightly.yaml").read_text()
    (tmp_path / "wrong.yaml").write_text(text.replace("tidy, program: cleanup", "fit, program: clean"))
    code, printed = tfsteps(install_dir, tmp_path, "lint", "wrong.yaml")
    assert code == 2
    assert "wrong.yaml: step fit exists twice; rename one" in printed
    assert "wrong.yaml: step fit: program 'clean' is unknown" in printed
    code, printed = tfsteps(install_dir, tmp_path, "submit", "nightly.yaml", "--engine", "kfp")
    assert (code, printed) == (2, "error: nightly.yaml is for toy, not kfp; leave --engine out\n")
    code, printed = tfsteps(install_dir, tmp_path, "submit", "nightly.yaml", "--engine", "local")
    assert (code, "nightly.yaml is for toy, and such programs cannot run on this machine" in printed) == (2, True)
    code, printed = tfsteps(install_dir, tmp_path, "submit", "nightly.yaml", "--every", "1h")
    assert (code, "runs of the toy engine cannot be scheduled" in printed) == (2, True)
    code, printed = tfsteps(install_dir, tmp_path, "submit", "nightly.yaml", "-p", "epochs=3")
    assert (code, "--param epochs: the pipeline has no such input" in printed) == (2, True)
    assert "--engine <kfp|argo|local|toy>" in tfsteps(install_dir, tmp_path, "submit", "--help")[1]


def test_without_the_package_its_pipelines_are_unknown(tmp_path):
    write(tmp_path, "true")
    code, printed = tfsteps("", tmp_path, "lint", "nightly.yaml")
    assert (code, "nightly.yaml is not a pipeline of Kubeflow Pipelines, or manifests of Argo" in printed) == (2, True)


BROKEN = {
    "no such module": ('"toy_engine:PLUGIN"', '"toy_engine.gone:PLUGIN"', "it cannot be loaded: ModuleNotFoundError("),
    "no plugin": ('"toy_engine:PLUGIN"', '"toy_engine:recognizes"', "it refers to a function, not an EnginePlugin"),
    "a name that is taken": ('name="toy"', 'name="argo"', "its engine's name 'argo' is taken"),
}


@pytest.mark.parametrize(("old", "new", "wrong"), BROKEN.values(), ids=BROKEN)
def test_a_package_that_is_wrong_is_named(tmp_path, old, new, wrong):
    shutil.copytree(TOY, tmp_path / "package")
    for file in (tmp_path / "package").rglob("*.*"):
        if file.suffix in (".py", ".toml"):
            file.write_text(file.read_text().replace(old, new))
    broken = installed(tmp_path / "package", tmp_path)
    write(tmp_path, "true")
    code, printed = tfsteps(broken, tmp_path, "lint", "nightly.yaml")
    assert code == 2
    assert printed.startswith("error: entry point 'toy' in tfsteps.engines of package toy-engine 1.0 (")
    assert wrong in printed
    assert printed.endswith("Correct or uninstall that package\n")


def test_an_imported_job_is_written_as_its_pipeline(install_dir, tmp_path):
    (tmp_path / "tfjob.yaml").write_text(TFJOB)
    code, printed = tfsteps(install_dir, tmp_path, "import", "tfjob.yaml", "--as", "toy", "-o", "toy.yaml")
    assert code == 0, printed
    assert (tmp_path / "toy.yaml").read_text().startswith("# TFJob flat (kubeflow.org/v1), imported by tfsteps\n")
    code, printed = tfsteps(install_dir, tmp_path, "lint", "toy.yaml")
    assert (code, printed) == (0, "toy.yaml: flat for toy is fine\n")

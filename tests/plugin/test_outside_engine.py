"""A package outside this one adds an engine by an entry point: the steps of docs/contribute/engine.md."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import msgspec
import pytest

from tests.plugin.outside import COMMAND, environment, installed, tfsteps
from tests.support.processes import started
from tests.support.waiting import until
from tests.support.webhook_receiver import receiver
from tests.unit.cli.jobs_on_cluster import tfjob, write_kubeconfig
from tests.unit.imports.test_read import TFJOB
from tests.unit.janitor.api_server import FakeApiServer
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


IN_POD = """
import pathlib, runpy, sys
from tfsteps.kube import access
access.SERVICE_ACCOUNT = pathlib.Path(sys.argv.pop(1))
module = sys.argv[1]
sys.argv[:2] = [module]
if module == "tfsteps.cli":
    from tfsteps.cli import main
    main()
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
TOY_RUN = {"apiVersion": "toy.example/v1", "kind": "ToyRun", "name": "nightly-7", "uid": "uid-nightly-7"}
JOBS, PODS, RUNS = ("kubeflow.org/v1", "tfjobs"), ("v1", "pods"), ("toy.example/v1", "toyruns")


def toy_run(name="nightly-7", phase="Running", uid=""):
    steps = [
        {"name": "prepare", "phase": "Succeeded", "started": "2026-11-21T07:00:00Z", "pod": f"{name}-prepare"},
        {"name": "fit", "phase": "Running", "started": "2026-11-21T07:01:00Z", "pod": f"{name}-fit"},
    ]
    created = "2026-11-21T07:00:00Z"
    identity = {"namespace": "ml", "name": name, "uid": uid or f"uid-{name}"}
    metadata = {**identity, "labels": {}, "creationTimestamp": created}
    return {**TOY_RUN, "metadata": metadata, "spec": {}, "status": {"phase": phase, "steps": steps}}


STEP_POD = {
    "kind": "Pod",
    "metadata": {
        "namespace": "ml",
        "name": "nightly-7-fit",
        "uid": "uid-fit",
        "creationTimestamp": "2026-11-21T07:01:00Z",
        "labels": {
            "toy.example/run": "nightly-7",
            "app.kubernetes.io/managed-by": "tfsteps",
            "tfsteps.dev/run-id": "r7",
            "tfsteps.dev/step": "train",
        },
        "annotations": {"toy.example/step": "fit"},
        "ownerReferences": [{**TOY_RUN, "controller": True}],
    },
    "spec": {"containers": [{"name": "log", "image": "log:1"}, {"name": "program", "image": "launcher:1"}]},
    "status": {
        "phase": "Running",
        "containerStatuses": [
            {"name": "log", "state": {"running": {}}, "restartCount": 7},
            {"name": "program", "state": {"running": {}}, "restartCount": 0},
        ],
    },
}


class ToyCluster(FakeApiServer):
    """An API server with TFJobs, pods and ToyRuns, which creates, annotates and deletes."""

    def __init__(self, *runs, jobs=(), pods=()):
        super().__init__({JOBS: [*jobs], PODS: [*pods], RUNS: [*runs]})
        self.created, self.watches = 0, 0
        self.removed = threading.Event()

    def answer(self, asked):
        jobs = self.objects[JOBS]
        if asked.path.endswith("/toyruns/unreadable"):
            return refusal(403, "Forbidden", "no access to it")
        if asked.method == "POST" and asked.path.endswith("/tfjobs"):
            metadata = {
                "uid": "u1",
                "resourceVersion": "1",
                "creationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }
            item = {**asked.body, "metadata": {"namespace": "ml", **asked.body["metadata"], **metadata}}
            if "dryRun" not in asked.query:
                self.created += 1
                jobs.append(item)
            return Answer(201, item)
        if asked.method == "POST":
            return refusal(403, "Forbidden")
        if "/configmaps/" in asked.path:
            return refusal(404, "NotFound", about=asked.path.rpartition("/")[2])
        if "watch" in asked.query:
            return Answer(parts=self._events(jobs) if asked.path.endswith("/tfjobs") else ["hang"])
        if asked.method == "PATCH":
            for item in jobs if "/tfjobs/" in asked.path else []:
                item["metadata"].setdefault("annotations", {}).update(asked.body["metadata"].get("annotations", {}))
                return Answer(body=item)
        return super().answer(asked)

    def _one(self, asked, item):
        answer = super()._one(asked, item) if item else refusal(404, "NotFound", about=asked.path.rpartition("/")[2])
        if asked.method == "DELETE" and item:
            for items in self.objects.values():
                items[:] = [left for left in items if left["metadata"]["uid"] not in self.deleted]
            self.removed.set()
        return answer

    def _events(self, jobs):
        self.watches += bool(jobs)
        last = list(jobs)
        self.removed.wait(60)
        yield from ({"type": "DELETED", "object": item} for item in last)
        yield "hang"


@pytest.fixture
def in_pod(install_dir, tmp_path):
    """Return what serves a cluster, and yields what starts a module in the step's pod there."""

    @contextlib.contextmanager
    def served(cluster):
        with serve(cluster.answer, tls="127.0.0.1") as server:
            server.authority.cert_pem.write_to_path(tmp_path / "ca.crt")
            (tmp_path / "namespace").write_text("ml")
            (tmp_path / "token").write_text("t0ken")
            api = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.server_port)}
            env = {**environment(install_dir), **api, "POD_NAME": "nightly-7-fit"}
            options = {"cwd": tmp_path, "env": env, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}

            def run(*arguments):
                return started([sys.executable, "-c", IN_POD, tmp_path, *arguments], text=True, **options)

            yield run
            cluster.removed.set()

    return served


def follows(cluster, launcher, times):
    """Wait until a launcher watches its job, which is the watch of this number."""
    until(lambda: cluster.watches == times or launcher.poll() is not None)
    assert launcher.poll() is None, launcher.communicate()[0]


def ended(process):
    with process as running:
        printed = running.communicate(timeout=60)[0]
    return running.returncode, printed


def test_a_step_in_a_pod_continues_its_job_which_commands_show_and_stop(in_pod, tmp_path):
    cluster = ToyCluster(toy_run(), pods=[STEP_POD])
    spec = {"name": "fit", "image": "trainer:1", "roles": {"worker": {}}}
    parameters = {"system": "kubeflow", "spec": spec}
    task = {"run": "r7", "pipeline": "nightly", "name": "fit", "parameters": parameters, "outputs": "outputs.json"}
    (tmp_path / "task.json").write_text(json.dumps(task))
    train = "tfsteps.steps.train.launcher", "--toy", "task.json"
    with in_pod(cluster) as run:
        with run(*train) as launcher:
            follows(cluster, launcher, 1)
            launcher.kill()
        (job,) = cluster.objects[JOBS]
        assert job["metadata"]["ownerReferences"] == [{**TOY_RUN, "blockOwnerDeletion": False}]
        with run(*train) as launcher:
            follows(cluster, launcher, 2)
            assert cluster.created == 1, "the second try has adopted the job"
            code, printed = ended(run("tfsteps.cli", "runs", "--on", "kubernetes"))
            assert (code, bool(re.search("^nightly-7 +r7 +nightly +fit ", printed, re.MULTILINE))) == (0, True), printed
            code, printed = ended(run("tfsteps.cli", "show", "nightly-7", "--on", "kubernetes"))
            assert code == 0, printed
            assert "pipeline nightly-7: running" in printed
            assert re.search(r"step prepare: succeeded", printed)
            assert re.search(r"launcher nightly-7-fit: running", printed)
            code, printed = ended(run("tfsteps.cli", "clear", "r7", "--on", "kubernetes", "--dry-run"))
            assert "Pod ml/nightly-7-fit" not in printed, "the pod of a step belongs to its engine"
            assert """patch toyrun nightly-7 --type merge --patch '{"spec":{"stop":true}}'""" in printed
            code, printed = ended(run("tfsteps.cli", "stop", "r7", "--on", "kubernetes"))
            assert (code, "fit cancelled" in printed) == (0, True), printed
            assert launcher.communicate(timeout=60)[0]
            assert launcher.returncode == 12
    assert cluster.deleted == ["u1"]


def test_a_run_that_failed_without_a_job_is_listed_as_one_of_the_engine(in_pod):
    ends = {"log": {"exitCode": 0, "message": "all is written"}, "program": {"exitCode": 10, "message": "it failed"}}
    containers = [{"name": name, "state": {"terminated": end}, "restartCount": 0} for name, end in ends.items()]
    failed = {**STEP_POD, "status": {"phase": "Failed", "containerStatuses": containers}}
    with in_pod(ToyCluster(pods=[failed])) as run:
        code, printed = ended(run("tfsteps.cli", "runs", "--on", "kubernetes", "--output", "json"))
    assert code == 0, printed
    (entry,) = json.loads(printed)
    assert (entry["run"], entry["engine"], entry["state"]) == ("r7", "toy", "failed")
    assert entry["message"] == "it failed", "of the container that runs the program"


def test_notify_knows_what_its_states_mean(install_dir, tmp_path):
    task = tmp_path / "task.json"
    command = [sys.executable, "-m", "tfsteps.steps.notify.launcher", "--toy", task]
    with receiver() as server:
        env = {**environment(install_dir), "TFSTEPS_WEBHOOK_URL": server.url}
        for state in ("Done", "Broken", "Melted"):
            inputs = {"state": state, "events": ["succeeded", "failed"]}
            values = {"run": "r7", "pipeline": "nightly", "name": "tell", "parameters": inputs}
            task.write_text(json.dumps({**values, "outputs": str(tmp_path / "outputs.json")}))
            subprocess.run(command, env=env, cwd=tmp_path, check=True, timeout=60)
    assert [request.body["event"] for request in server.requests] == ["succeeded", "failed", "unknown"]


def test_the_janitor_deletes_the_jobs_of_ended_runs(in_pod):
    def job(name):
        item = tfjob(name)
        item["metadata"]["ownerReferences"] = [{**TOY_RUN, "name": name, "uid": f"uid-{name}"}]
        item["metadata"]["uid"] = f"job-of-{name}"
        return item

    names = ["running", "ended", "gone", "replaced", "unreadable", "finishing"]
    runs = [toy_run("running"), toy_run("ended", "Failed"), toy_run("replaced", uid="another")]
    runs.append(toy_run("finishing", "Failed"))
    metadata = {
        **STEP_POD["metadata"],
        "labels": {"toy.example/run": "finishing"},
        "ownerReferences": [{**TOY_RUN, "name": "finishing", "uid": "uid-finishing"}],
    }
    jobs = [job(name) for name in names]
    jobs[-1]["metadata"].setdefault("annotations", {})["tfsteps.dev/launcher"] = "finishing/fit"
    cluster = ToyCluster(*runs, jobs=jobs, pods=[{**STEP_POD, "metadata": metadata}])
    with in_pod(cluster) as run:
        code, printed = ended(run("tfsteps.janitor", "--once"))
    assert cluster.deleted == ["job-of-ended", "job-of-gone", "job-of-replaced"], printed
    assert "its ToyRun ended has ended (Failed) and its launcher has no unfinished pod" in printed
    assert "no access to it" in printed
    assert (code, "6 jobs looked at, 3 deletions due, 1 failed" in printed) == (13, True), printed


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


FOR_ARGO = "{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: w}, spec: {}}"


def test_it_adds_options_to_submit(install_dir, tmp_path):
    write(tmp_path, "exit 3")
    code, printed = tfsteps(install_dir, tmp_path, "submit", "nightly.yaml", "--name", "n", "--tries", "3")
    assert code == 10, printed
    assert states() == [("fit", "failed")] * 3 + [("tidy", "succeeded")]
    described = "--tries N toy: Tries of each step. [default: (those of the pipeline)]"
    assert described in " ".join(tfsteps(install_dir, tmp_path, "submit", "--help")[1].split())
    code, printed = tfsteps(install_dir, tmp_path, "submit", "nightly.yaml", "--tries", "many")
    assert (code, "'many' is not a whole number; write one" in printed) == (2, True), printed
    code, printed = tfsteps(install_dir, tmp_path, "submit", "nightly.yaml", "--tries", "10")
    wrong = "--tries 10 is not allowed. Allowed: 0 to 9. Write another, or leave the option out"
    assert (code, printed) == (2, f"error: {wrong}\n")
    (tmp_path / "argo.yaml").write_text(FOR_ARGO)
    code, printed = tfsteps(install_dir, tmp_path, "submit", "argo.yaml", "--tries", "3")
    assert (code, printed) == (2, "error: --tries is for --engine toy, not for Argo Workflows; leave it out\n")
    code, printed = tfsteps(install_dir, tmp_path, "submit", "nightly.yaml", "--experiment", "e")
    assert (code, printed) == (2, "error: --experiment is for --engine kfp, not for the toy engine; leave it out\n")


def test_without_the_package_its_pipelines_are_unknown(tmp_path):
    write(tmp_path, "true")
    code, printed = tfsteps("", tmp_path, "lint", "nightly.yaml")
    assert (code, "nightly.yaml is not a pipeline of Kubeflow Pipelines, or manifests of Argo" in printed) == (2, True)


BROKEN = {
    "no such module": ('"toy_engine:PLUGIN"', '"toy_engine.gone:PLUGIN"', "it cannot be loaded: ModuleNotFoundError("),
    "no plugin": ('"toy_engine:PLUGIN"', '"toy_engine:recognizes"', "it refers to a function, not an EnginePlugin"),
    "a name that is taken": ('name="toy"', 'name="argo"', "its engine's name 'argo' is taken"),
    "an end that is none": (
        '"broken": "failed"',
        '"broken": "bad"',
        "its run_ends have 'broken: bad', which is",
    ),
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


def completed(install_dir, folder, line):
    """Return what the shell offers at the end of a command line."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_TFSTEPS_COMPLETE": "complete_bash"}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'tfsteps'; from tfsteps.cli import main; main()"]
    env = environment(install_dir) | words
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True).stdout.split()


def test_the_shell_completes_its_options(install_dir, tmp_path):
    assert completed(install_dir, tmp_path, "tfsteps submit n.yaml --tri") == ["--tries"]
    assert completed("", tmp_path, "tfsteps submit n.yaml --tri") == []
    assert completed(install_dir, tmp_path, "tfsteps submit n.yaml --tries 3 --dr") == ["--dry-run"]


_FIELD = "    tries: Annotated["
WRONG_OPTIONS = {
    "of the command": (_FIELD, "    wait: Annotated[", "--wait is one of `tfsteps submit` itself; rename"),
    "a short form": (_FIELD, "    param: Annotated[", "--param is one of `tfsteps submit` itself; rename"),
    "the help": (_FIELD, "    help: Annotated[", "--help is one of `tfsteps submit` itself; rename"),
    "no words": (_FIELD, "    tries_: Annotated[", "--tries- has the name 'tries_'; write lower-case words"),
    "of another engine": (_FIELD, "    image: Annotated[", "--image is one of engine argo, with another type; rename"),
    "without a default": ("    ] = 0\n", "    ]\n", "--tries has no SubmitOption, no default, or the type"),
    "None by default": ("    ] = 0\n", "    ] = None\n", "--tries has no SubmitOption, no default, or the type"),
    "of no type of options": ("        int,", "        dict,", "or the type <class 'dict'>"),
    "always on": ("        int,", "        bool,", "--tries is a flag whose default is True, so it has no effect"),
}
"""Texts of the module of the options, what takes their place, and the error."""


@pytest.mark.parametrize(("old", "new", "wrong"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_a_wrong_option_is_named(tmp_path, old, new, wrong):
    broken = changed_options(tmp_path, old, new)
    code, printed = tfsteps(broken, tmp_path, "submit", "nightly.yaml")
    assert (code, printed.startswith("error: engine toy: its option --"), wrong in printed) == (2, True, True), printed


def changed_options(folder, old, new):
    """Return a folder with the package installed, another text in the module of its options."""
    shutil.copytree(TOY, folder / "package")
    file = folder / "package" / "toy_engine" / "submit_options.py"
    assert old in file.read_text()
    text = file.read_text().replace(old, new)
    file.write_text(text.replace("] = 0", "] = True") if "bool," in new else text)
    return installed(folder / "package", folder)


BROKEN_OPTIONS = {
    "no such module": (
        "import msgspec\n",
        "import msgspec\nimport gone\n",
        "ToyOptions of an engine cannot be loaded: ModuleNotFoundError(\"No module named 'gone'\")",
    ),
    "no struct": (
        "(msgspec.Struct, frozen=True)",
        "",
        "<class 'toy_engine.submit_options.ToyOptions'> does not",
    ),
    "an unknown name": ("        int,", '        "Gone",', "does not declare options: name 'Gone' is not defined"),
}


@pytest.mark.parametrize(("old", "new", "wrong"), BROKEN_OPTIONS.values(), ids=BROKEN_OPTIONS)
def test_options_that_cannot_be_loaded_are_named(tmp_path, old, new, wrong):
    broken = changed_options(tmp_path, old, new)
    (tmp_path / "argo.yaml").write_text(FOR_ARGO)
    for words in (["argo.yaml", "--dry-run"], ["--help"]):
        code, printed = tfsteps(broken, tmp_path, "submit", *words)
        assert (code, printed.startswith("error: "), wrong in printed) == (2, True, True), printed
    assert completed(broken, tmp_path, "tfsteps submit argo.yaml --dr") == ["--dry-run"]


def test_engines_may_share_an_option(tmp_path):
    shared = "    experiment: Annotated[str, SubmitOption(help='Of toys.')] = ''\n    tries: Annotated["
    both = changed_options(tmp_path, _FIELD, shared)
    write(tmp_path, "true")
    code, printed = tfsteps(both, tmp_path, "submit", "nightly.yaml", "--experiment", "e")
    assert code == 0, printed
    (tmp_path / "argo.yaml").write_text(FOR_ARGO)
    code, printed = tfsteps(both, tmp_path, "submit", "argo.yaml", "--experiment", "e")
    assert "error: --experiment is for --engine kfp or toy, not for Argo Workflows" in printed


def test_an_imported_job_is_written_as_its_pipeline(install_dir, tmp_path):
    (tmp_path / "tfjob.yaml").write_text(TFJOB)
    code, printed = tfsteps(install_dir, tmp_path, "import", "tfjob.yaml", "--as", "toy", "-o", "toy.yaml")
    assert code == 0, printed
    assert (tmp_path / "toy.yaml").read_text().startswith("# TFJob flat (kubeflow.org/v1), imported by tfsteps\n")
    code, printed = tfsteps(install_dir, tmp_path, "lint", "toy.yaml")
    assert (code, printed) == (0, "toy.yaml: flat for toy is fine\n")


def test_jobs_that_its_steps_create_are_imported(install_dir, tmp_path):
    steps = [
        {"name": "fit", "program": "apply", "inputs": {"manifest": TFJOB}},
        {"name": "tidy", "program": "cleanup"},
    ]
    (tmp_path / "old.yaml").write_text(msgspec.yaml.encode({"toy": "old", "steps": steps}).decode())
    code, printed = tfsteps(install_dir, tmp_path, "import", "old.yaml", "-o", "job.yaml")
    assert code == 0, printed
    assert "only its jobs become job files. Left out: tidy, and the order" in printed
    assert "(kubeflow.org/v1) of step fit, imported by tfsteps" in (tmp_path / "job.yaml").read_text()
    code, printed = tfsteps(install_dir, tmp_path, "validate", "job.yaml")
    assert (code, printed) == (0, "job.yaml: flat is fine\n")


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([{"name": "fit"}], "is not a toy pipeline: Object missing required field `program` - at `$.steps[0]`"),
        (
            [{"name": "fit", "program": "apply", "inputs": {"manifest": "{"}}],
            "of step fit: line 1 is not YAML",
        ),
        ([{"name": "fit", "program": "train"}], "or a toy pipeline that creates one, or an Argo Workflow that"),
    ],
)
def test_what_its_reader_does_not_understand_is_an_error(install_dir, tmp_path, steps, problem):
    (tmp_path / "old.yaml").write_text(msgspec.yaml.encode({"toy": "old", "steps": steps}).decode())
    code, printed = tfsteps(install_dir, tmp_path, "import", "old.yaml")
    assert (code, problem in " ".join(printed.split())) == (2, True), printed

"""The last message of a step: what Kubernetes keeps of it, and what a person needs to read there."""

import json
import os
import re
import signal

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps.kube import access
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.steps import job_step, program
from tfsteps.steps.evaluate_gate import launcher as gate
from tfsteps.steps.program import StepResult
from tfsteps.steps.train import launcher
from tfsteps.steps.wait import launcher as wait
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.follow.job import KubernetesJob

OUTPUTS = {"outputFile": "/minio/bucket/root/pipeline/run/task/0b9a/output_metadata.json"}


@pytest.fixture
def message(tmp_path, monkeypatch, capsys):
    """Return a function that runs a step's program: its exit code, its termination message and its last line."""
    file = tmp_path / "termination-log"
    file.touch()
    monkeypatch.setattr(program, "_TERMINATION_LOG", file)

    def run(main, inputs):
        code = main(["--executor_input", json.dumps({"inputs": {"parameterValues": inputs}, "outputs": OUTPUTS})])
        last = capsys.readouterr().out.splitlines()[-1]
        assert last == file.read_text()
        return code, last

    return run


def test_a_single_problem_is_in_the_message(message):
    job = {"name": "a", "command": ["true"], "roles": {"worker": {"replicas": 0}}}
    code, text = message(launcher.main, {"spec": job})
    assert code == 2
    assert text.startswith("Nothing was created: roles.worker.replicas: 0 is out of range. Allowed: ")
    assert text.endswith(f"Step exit code 2: {ExitCode.USAGE.meaning}.")


def test_several_problems_are_all_in_the_message(message):
    code, text = message(launcher.main, {"spec": {"name": "A_b", "roles": {"worker": {"replicas": 0}}, "colour": 1}})
    assert code == 2
    for part in ("(1) ", "(2) ", "(3) ", "name: 'A_b'", "roles.worker.replicas: 0", "colour: "):
        assert part in text


def test_more_problems_than_a_message_holds_are_counted(message):
    env = {f"{i} ü{'x' * 40}": "" for i in range(200)}
    code, text = message(launcher.main, {"spec": {"name": "a", "roles": {"worker": {}}, "env": env}})
    assert (code, len(text.encode()) <= 4096) == (2, True)
    shown = text.count(") env")
    assert shown > 5
    assert f"... and {200 - shown} more. Step exit code 2: " in text


@pytest.mark.parametrize("character", ["x", "ü", "語", "😀"])
def test_a_long_message_is_cut_between_characters_and_keeps_the_exit_code(character):
    text = StepResult(f"{character * 5000}.", ExitCode.FAILED).message
    assert 4096 - 4 < len(text.encode()) <= 4096
    assert text.rstrip(character).startswith(character)
    assert text.endswith(f"{character} ... Step exit code 10: the job failed.")


def test_a_message_is_one_line_and_can_be_written_as_utf_8():
    assert StepResult("worker-0 failed:\n  \udcff.", ExitCode.PLATFORM).message == (
        "worker-0 failed: \\udcff. Step exit code 13: the platform's fault, not the job's; a retry is safe."
    )
    assert StepResult("a succeeded.", ExitCode.SUCCEEDED).message == "a succeeded."


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            OSError(30, "Read-only file system", "/out"),
            "[Errno 30] Read-only file system: '/out'; make its file system",
        ),
        (OSError(28, "No space left on device", "/out"), "No space left on device: '/out'; free some space there"),
        (OSError(5, "Input/output error", "/in"), "[Errno 5] Input/output error: '/in'; fix the cause and retry"),
    ],
)
def test_an_error_of_the_system_is_said_as_it_is(message, monkeypatch, error, expected):
    def fail(*_args):
        raise error

    monkeypatch.setattr(launcher, "_train", fail)
    code, text = message(launcher.main, {"spec": {}})
    assert code == 13
    assert text.startswith("The step cannot go on: ")
    assert expected in text


@pytest.mark.parametrize("created", [True, False])
def test_an_existing_job_is_not_reported_as_failed_to_launch(message, monkeypatch, created):
    job = {"name": "a", "image": "i", "command": ["true"], "roles": {"worker": {}}}

    def evicted(self):
        raise LaunchError("this pod is being evicted; the job goes on", retryable=True)

    def script(asked):
        if asked.path.endswith("reviews"):
            return Answer(201, {"status": {"resourceRules": [], "allowed": True}})
        if asked.method == "POST":
            if not created and "dryRun" not in asked.query:
                return refusal(422, "Invalid")
            return Answer(201, {**asked.body, "metadata": {**asked.body["metadata"], "uid": "u"}})
        return _none(asked)

    monkeypatch.setattr(KubernetesJob, "events", evicted)
    with serve(script) as server:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        code, text = message(launcher.main, {"spec": job, "system": "kubeflow"})
    if created:
        assert code == 13
        assert text.startswith("The job was launched, but its launcher did not follow it to its end: this pod is being")
    else:
        assert code == 2
        assert text.startswith("The job could not be launched: ")


INPUTS = {
    "run_id": (["r"], 2, "Nothing was created: run_id: "),
    "task_config": ([1], 2, "Nothing was created: task_config: "),
}


@pytest.mark.parametrize("name", INPUTS)
def test_an_odd_input_is_named(message, name):
    value, code, start = INPUTS[name]
    job = {"name": "a", "command": ["true"], "roles": {"worker": {}}}
    assert message(launcher.main, {"spec": job, "system": "local", name: value})[0] == code
    assert message(launcher.main, {"spec": job, "system": "local", name: value})[1].startswith(start)


@pytest.mark.parametrize("levels", [101, 500, 100_000])
@pytest.mark.parametrize("engine", ["kfp", "argo"])
def test_inputs_that_are_too_deep_are_refused(capsys, engine, levels):
    deep = "[" * levels + "]" * levels
    task = f'{{"inputs": {{"parameterValues": {{"args": {deep}}}}}, "outputs": {{"outputFile": "/a/b/c/d"}}}}'
    argv = ["--executor_input", task] if engine == "kfp" else ["--argo", "train", f"args={deep}"]
    assert launcher.main(argv) == 2
    assert "Nothing was created: " in capsys.readouterr().out


def test_a_fault_of_the_step_never_says_that_nothing_was_created(message):
    def step(_task):
        raise ValueError("of code that runs after the job has ended")

    code, text = message(lambda argv: program.run(step, argv, failed="It failed", creates="job"), {})
    assert code == 13
    assert text.startswith("The step cannot go on: ValueError: of code that runs after the job has ended")
    assert "Nothing was created" not in text
    assert "If there is a job, it is left as it is" in text


@pytest.mark.parametrize("main", [gate.main, wait.main], ids=["gate", "wait"])
def test_a_step_that_creates_nothing_says_what_could_not_be_done(message, main):
    code, text = message(main, {"metric": "accuracy", "threshold": "high", "timeout": -1})
    assert code == 2
    assert re.match(r"The (metric could not be compared|job could not be waited for): ", text)
    assert "created" not in text.partition(" Step exit code")[0]


def test_a_fault_of_a_step_that_creates_nothing_speaks_of_no_job(message):
    def step(_task):
        raise ValueError("text")

    code, text = message(lambda argv: program.run(step, argv, failed="It failed"), {})
    assert (code, "If there is a" in text) == (13, False)


def test_a_launcher_that_may_start_no_more_threads_leaves_the_job_and_says_so(message, monkeypatch):
    def no_more(self):
        raise RuntimeError("can't start new thread")

    job = {"name": "a", "image": "i", "command": ["true"], "roles": {"worker": {}}}
    with serve(_created) as server:
        monkeypatch.setattr(KubernetesJob, "events", no_more)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        code, text = message(launcher.main, {"spec": job, "system": "kubeflow"})
        asked = {request.method for request in server.asked}
    assert (code, "DELETE" in asked) == (13, False)
    assert text.startswith(
        "The job was launched, but its launcher did not follow it to its end: RuntimeError: can't start new thread"
    )


def test_a_sigterm_that_comes_while_earlier_attempts_are_looked_for(message, monkeypatch):
    """A job of an earlier launcher stays: nothing was found out about it."""

    def script(_asked):
        os.kill(os.getpid(), signal.SIGTERM)
        return refusal(503)

    job = {"name": "a", "image": "i", "command": ["true"], "roles": {"worker": {}}}
    with serve(script) as server:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        code, text = message(launcher.main, {"spec": job, "system": "kubeflow"})
        assert {asked.method for asked in server.asked} == {"GET"}
    assert code == 13
    assert text.startswith(
        "The step cannot go on: it got SIGTERM. If there is a job, it is left as it is, and a retry of"
    )
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def _created(asked):
    if asked.path.endswith("reviews"):
        return Answer(201, {"status": {"resourceRules": [], "allowed": True}})
    if asked.method == "POST":
        return Answer(201, {**asked.body, "metadata": {**asked.body["metadata"], "uid": "u"}})
    return _none(asked)


def _none(asked):
    """Answer that there is no such object, or none in the list."""
    is_object = any(kind in asked.path for kind in ("tfjobs/", "configmaps/"))
    return refusal(404, "NotFound") if is_object else Answer(body={"items": []})


META = {"name": "pod", "namespace": "ns", "uid": "u", "labels": {"pipelines.kubeflow.org/v2_component": "true"}}
OWNER = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "flow", "uid": "w", "controller": True}


@pytest.mark.parametrize(
    ("pod", "patched"),
    [
        (Answer(body={"metadata": {**META, "ownerReferences": [OWNER]}}), {"tfsteps.dev/step": "train"}),
        (Answer(body={"metadata": META}), None),
        (Answer(body=b'{"kind": "Pod", "metadata": 7}'), None),
        (refusal(403, "Forbidden"), None),
        (refusal(503), None),
    ],
    ids=["a step", "no step", "malformed", "forbidden", "away"],
)
def test_a_step_that_fails_without_a_job_labels_its_pod_and_reports_its_own_failure(message, monkeypatch, pod, patched):
    def script(asked):
        if asked.method == "PATCH":
            return refusal(403, "Forbidden")
        return pod if "/pods/" in asked.path else Answer(body={"metadata": {"resourceVersion": "1"}, "items": []})

    monkeypatch.setattr(job_step, "_LABEL_SECONDS", 0.3)
    with serve(script) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("KFP_POD_NAME", "pod")
        monkeypatch.setattr(access, "find", server.access)
        code, text = message(launcher.main, {"spec": {"name": "a", "roles": {}}, "run_id": "r1"})
    assert code == 2
    assert text.startswith("Nothing was created: roles")
    sent = [asked.body["metadata"]["labels"] for asked in server.asked if asked.method == "PATCH"]
    assert bool(sent) is bool(patched)
    assert not patched or sent[0].items() >= {**patched, "tfsteps.dev/run-id": "r1"}.items()

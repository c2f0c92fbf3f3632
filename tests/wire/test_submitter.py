"""What submits in the pod of a CronJob: one Workflow a Job, followed to its end, whatever the API server does."""

import json

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps.engines.argo import submitter

WORKFLOW = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"generateName": "a-", "namespace": "elsewhere", "labels": {"team": "vision"}},
    "spec": {"entrypoint": "main"},
}
JOB, UID = "nightly-29", "j-1"
META = {"name": JOB, "namespace": "ns", "uid": "w-1", "ownerReferences": [{"uid": UID}]}


def standing(phase, uid="w-1", message=""):
    return {"metadata": {**META, "uid": uid, "resourceVersion": "2"}, "status": {"phase": phase, "message": message}}


def listed(*items):
    return Answer(body={"metadata": {"resourceVersion": "1"}, "items": list(items)})


def watched(*events):
    return Answer(parts=[*({"type": kind, "object": item} for kind, item in events), "hang"])


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs the program against scripted answers: its exit code, its lines, what was asked."""
    file = tmp_path / "workflow.json"
    file.write_text(json.dumps(WORKFLOW))
    monkeypatch.setenv(submitter.JOB_NAME, JOB)
    monkeypatch.setenv(submitter.JOB_UID, UID)
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def ran(created, *, got=None, lists=None, watches="reset"):
        def script(asked):
            if asked.method == "POST":
                return created
            if asked.path.endswith(JOB):
                return got or refusal(404, "NotFound", about=JOB)
            if "watch" in asked.query:
                return watches
            return lists() if callable(lists) else lists

        with serve(script) as server:
            monkeypatch.setattr(submitter, "find", server.access)
            code = submitter.main([str(file)])
        return code, capsys.readouterr().out.splitlines(), server.asked

    return ran


ENDS = {"Succeeded": 0, "Failed": 10, "Error": 10}


@pytest.mark.parametrize("phase", ENDS)
def test_the_exit_code_is_the_workflows_end(run, phase):
    events = watched(("MODIFIED", standing("Running")), ("MODIFIED", standing(phase, message="so it was")))
    code, lines, asked = run(Answer(201, {"metadata": META}), lists=listed(standing("")), watches=events)
    assert (code, lines[-2:]) == (ENDS[phase], [f"Workflow {JOB} Running", f"Workflow {JOB} {phase}: so it was"])
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": JOB, "uid": UID}
    assert asked[0].body["metadata"] == {"name": JOB, "labels": {"team": "vision"}, "ownerReferences": [owner]}
    assert asked[0].path.split("/")[-2:] == ["ns", "workflows"], "it is made where the Job is"


def test_a_second_try_finds_the_workflow_of_the_first(run):
    there = Answer(body={"metadata": META})
    code, lines, _ = run(refusal(409, "AlreadyExists"), got=there, lists=listed(standing("Succeeded")))
    assert (code, lines[-1]) == (0, f"Workflow {JOB} Succeeded")


def test_a_workflow_of_somebody_else_is_left_alone(run):
    there = Answer(body={"metadata": {**META, "ownerReferences": [{"uid": "j-2"}]}})
    code, lines, asked = run(refusal(409, "AlreadyExists"), got=there)
    assert (code, lines) == (2, [f"a Workflow {JOB} already exists in ns; delete it or choose another name"])
    assert {item.method for item in asked} == {"POST", "GET"}


@pytest.mark.parametrize(
    ("lists", "watches"),
    [
        (listed(), "reset"),
        (listed(standing("Running", uid="w-2")), "reset"),
        (listed(standing("Running")), watched(("DELETED", standing("Running")))),
    ],
    ids=["gone", "another", "deleted"],
)
def test_a_workflow_that_is_gone_has_failed(run, lists, watches):
    code, lines, _ = run(Answer(201, {"metadata": META}), lists=lists, watches=watches)
    assert (code, lines[-1]) == (10, f"Workflow {JOB} was deleted")


def test_a_list_that_is_no_list_does_not_end_the_wait(run):
    wrong = iter([Answer(body=b"{}"), Answer(body=b"<html>log in</html>"), listed(), Answer(body=b"null")])
    right, there = listed(standing("Succeeded")), Answer(body=standing("Running"))
    code, lines, asked = run(Answer(201, {"metadata": META}), lists=lambda: next(wrong, right), got=there)
    assert (code, lines[-1]) == (0, f"Workflow {JOB} Succeeded")
    assert len(asked) > 5


def test_what_is_refused_is_not_tried_again(run):
    code, lines, _ = run(refusal(403, "Forbidden", "no rights"))
    assert (code, lines) == (2, ["the Workflow cannot be created in ns: no rights"])
    code, lines, _ = run(Answer(201, {"metadata": META}), lists=refusal(403, "Forbidden", "no rights"))
    assert (code, lines[-1]) == (2, "no permission to watch Workflows in ns: no rights; grant get, list and watch")


UNUSABLE = {
    "no argument": ([], {}, "expected one argument, the file of a Workflow; got 0"),
    "two arguments": (["a", "b"], {}, "got 2"),
    "no file": (["{folder}/none"], {}, "none cannot be read: No such file or directory; create the schedule again"),
    "a folder": (["{folder}"], {}, "cannot be read: Is a directory"),
    "no JSON": (["{folder}/text"], {}, "text has no Workflow in JSON: JSON is malformed"),
    "no object": (["{folder}/list"], {}, "list has no Workflow in JSON: Expected `object`, got `array`"),
    "no metadata": (["{folder}/empty"], {}, "empty has no Workflow in JSON: Object missing required field `metadata`"),
    "no name": (["{folder}/good"], {submitter.JOB_NAME: ""}, "the environment variable TFSTEPS_JOB_NAME is not set"),
    "no uid": (["{folder}/good"], {submitter.JOB_UID: ""}, "the environment variable TFSTEPS_JOB_UID is not set"),
    "no cluster": (["{folder}/good"], {}, "the cluster cannot be found: there is no kubeconfig"),
}


@pytest.mark.parametrize("case", UNUSABLE.values(), ids=UNUSABLE)
def test_what_a_retry_cannot_correct_is_one_line_and_exit_code_2(case, tmp_path, monkeypatch, capsys):
    arguments, variables, text = case
    files = {"text": "Workflow", "list": "[]", "empty": "{}", "good": json.dumps(WORKFLOW)}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    environ = {submitter.JOB_NAME: JOB, submitter.JOB_UID: UID, "KUBECONFIG": str(tmp_path / "none"), **variables}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert submitter.main([argument.format(folder=tmp_path) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert (out.count("\n"), err) == (1, "")
    assert text in out

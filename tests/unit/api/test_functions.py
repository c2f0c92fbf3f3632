"""`runs`, `show`, `logs` and `compare` as functions: what they return, how notebooks show it, and what they refuse."""

import contextlib
import datetime as dt
import inspect
import itertools
import json
import subprocess
import sys

import pytest

import tfsteps.api
from tests.unit.cli.command import output_lines
from tests.unit.cli.jobs_on_cluster import kubeconfig, pod_of, tfjob
from tests.unit.cli.statuses import FAILURE, saved, status
from tfsteps.api import Attempt, CommandError, SpecError, compare, logs, run, runs, show
from tfsteps.runs.events import State

SCRIPT = "<script>alert(1)</script>"


def test_runs_are_typed_and_in_the_order_of_the_command(capsys):
    saved(run="r1", state=State.FAILED, failure=FAILURE, created=1_795_000_000.0)
    saved(run="r2", state=State.SUCCEEDED, metrics={"loss": 0.25})
    listed = runs()
    assert [entry.run for entry in listed] == ["r2", "r1"] == [line.split()[0] for line in output_lines("runs")[1:]]
    assert (listed[0].succeeded, listed[0].metrics, listed[0].failure) == (True, {"loss": 0.25}, None)
    assert listed[1].created == dt.datetime.fromtimestamp(1_795_000_000, dt.UTC)
    assert "0.25" in listed._repr_html_()
    assert [entry.run for entry in runs(state="failed")] == ["r1"]
    assert [entry.run for entry in runs(since=dt.timedelta(hours=1))] == ["r2"]
    assert [entry.run for entry in runs(sort="loss", limit=1)] == ["r2"]
    assert len(runs(task="other")) == 0
    assert capsys.readouterr() == ("", ""), "functions print nothing"


def test_a_run_has_its_tree_its_attempts_and_why_it_failed():
    saved(run="r1", state=State.FAILED, failure=FAILURE)
    shown = show("latest")
    assert shown.id == "r1"
    assert shown.attempts[0].failure.exception == "ValueError: no data"
    assert [replica.exit_code for replica in shown.attempts[0].replicas] == [1, 1]
    assert [f"run          {shown.id}", *shown.tree] == output_lines("show", "r1")[: len(shown.tree) + 1]
    with pytest.raises(AttributeError, match="immutable"):
        shown.id = "r2"


def test_an_attempt_does_not_change_with_the_job():
    job = status()
    attempt = Attempt.of(job)
    job.warnings.append("later")
    job.replicas[0].restarts = 7
    assert (attempt.warnings, attempt.status.warnings) == ((), [])
    assert (attempt.replicas[0].restarts, attempt.status.replicas[0].restarts) == (0, 0)


def test_log_lines_have_their_time_and_replica(capsys):
    saved(("worker-0", b"a"), ("worker-1", b"\xff"), ("worker-1", b"loss: nan"), state=State.SUCCEEDED)
    log = logs("r1")
    assert [line.source for line in log] == ["worker-0", "worker-1", "worker-1"]
    assert log[0].at == dt.datetime.fromtimestamp(1_795_000_000.5, dt.UTC)
    assert log[1].text == "\N{REPLACEMENT CHARACTER}"
    assert str(log[1:]) == "[worker-1] \N{REPLACEMENT CHARACTER}\n[worker-1] loss: nan"
    assert [line.text for line in logs("r1", "worker", tail=1)] == ["loss: nan"]
    assert [line.text for line in logs("r1", grep="LOSS", ignore_case=True, around=1)][1:] == ["loss: nan"]
    assert len(logs("r1", since=dt.datetime.fromtimestamp(1_795_000_001, dt.UTC))) == 0
    assert capsys.readouterr() == ("", "")


def test_a_comparison_has_the_rows_of_the_command():
    saved(run="r1", state=State.SUCCEEDED, metrics={"loss": 0.5})
    saved(run="r2", state=State.SUCCEEDED, metrics={"loss": 0.25})
    compared = compare("r1", runs("r2")[0])
    assert compared.rows["metric loss"] == ["0.5", "0.25"]
    rows = len(compared.rows) + 1
    assert output_lines("compare", "r1", "r2")[:rows] == str(compared).splitlines()[:rows]
    assert "0.25" in compared._repr_html_()


@pytest.mark.parametrize("call", [lambda: show("r1"), runs, lambda: logs("r1"), lambda: compare("r1", "r2")])
def test_what_notebooks_show_is_escaped_and_without_secrets(call):
    foreign = {"message": f"{SCRIPT} https://me:hunter2@example", "warnings": [SCRIPT], "metrics": {SCRIPT: 1.0}}
    saved(("worker-0", f"{SCRIPT} https://me:hunter2@example".encode()), run="r1", task="a<b>", **foreign)
    saved(run="r2", task="a<b>", metrics={SCRIPT: 2.0})
    page = call()._repr_html_()
    assert "<script" not in page
    assert "<b>c" not in page
    assert "&lt;" in page
    assert "hunter2" not in page


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: show("nope"), "run 'nope' is unknown"),
        (lambda: logs("r1", "ps"), "run r1: replica 'ps' is unknown; it has worker-0, worker-1"),
        (lambda: logs("r1", around=2), "are about grep"),
        (lambda: logs("r1", tail=-1), "give 0 or more"),
        (lambda: logs("r1", tail=10**30), "give 0 or more, at most 1000000000, or leave them out"),
        (lambda: logs("r1", grep="a", around=10**30), "give 0 or more, at most 1000000000, or leave them out"),
        (lambda: logs("nope", since="soon"), "--since 'soon' is not a time"),
        (lambda: runs(limit=0), "limit 0 lists nothing"),
        (lambda: runs(state="done"), "--state 'done' is unknown"),
        (lambda: runs(labels={"a b": "c"}), "--label 'a b=c' is not a label"),
        (lambda: compare("r1"), "a comparison needs two runs or more, got 'r1'"),
        (compare, "a comparison needs two runs or more;"),
        (lambda: run("nope.yaml"), "job file 'nope.yaml' does not exist"),
        (run, "give a job file, or a command"),
        (lambda: run({"name": "a"}, workers=2), "a job as a mapping has all fields"),
        (lambda: run(command=["true"], system="nope"), "job system 'nope' is unknown"),
    ],
)
def test_errors_are_exceptions_with_the_message_of_the_command(call, message, capsys):
    saved(run="r1")
    with pytest.raises(CommandError) as error:
        call()
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert capsys.readouterr() == ("", "")


def test_a_wrong_job_names_its_field():
    with pytest.raises(SpecError, match="workerz"):
        run({"name": "a", "command": ["true"], "roles": {"workerz": {}}})


def test_runs_of_a_cluster(tmp_path, monkeypatch):
    job = tfjob("r1", ("Running", "True", 5))
    with kubeconfig(monkeypatch, tmp_path, job, pod_of(job, "worker-0", "Running")):
        (entry,) = runs(on="kubernetes")
        shown = show("r1", on="kubernetes")
    assert (entry.run, entry.system, entry.namespace, entry.state) == ("r1", "kubeflow", "ml", State.PENDING)
    assert shown.attempts[0].folder == "", "it was launched elsewhere"


def imported_by(program):
    code = f"import sys, json\n{program}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}, json.loads(done.stdout)


def test_what_is_imported_for_what():
    _, names = imported_by("import tfsteps, tfsteps.api")
    assert {name for name in names if name.startswith("tfsteps")} == {"tfsteps", "tfsteps.api"}
    packages, _ = imported_by("from tfsteps.api import runs\nruns()")
    assert not packages & {"kfp", "hera", "kubernetes", "urllib3", "tensorflow", "typer", "rich", "IPython"}


def test_all_names_are_there():
    assert all(getattr(tfsteps.api, name) for name in tfsteps.api.__all__)
    assert dir(tfsteps.api) == sorted(tfsteps.api.__all__)
    assert {"train_function", "__version__"} <= {*dir(tfsteps)}
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        _ = tfsteps.api.nope


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (lambda: run(["job.yaml"]), "job is a list; give a job file's path"),
        (lambda: run(3), "job is a int; give a job file's path"),
        (lambda: run(command="python train.py"), r"give a list: \['python', 'train.py'\]"),
        (lambda: runs(on="mars"), "--on 'mars' is unknown: use one of local, kubernetes, "),
        (lambda: runs(since=3), "since is 3; give text such as 2h"),
        (lambda: runs(since=dt.datetime.min), "since is .*; give text such as 2h"),  # noqa: DTZ901
        (lambda: run("a\0b"), r"job file 'a\\x00b' cannot be read: embedded null byte; give the path of"),
        (lambda: run(command=3), r'command is 3; give a list, such as \["python", "train.py"\]'),
        (lambda: run(command=b"ls"), "command is b'ls'; give a list"),
        (lambda: run(command=["true"], code=3), "code is 3; give text or a path or None"),
        (lambda: run(command=["true"], overrides=[1]), r"overrides is \[1\]; give a list of texts"),
        (lambda: run(command=["true"], overrides="name=x"), "overrides is 'name=x'; give a list of texts"),
        (lambda: runs(limit="3"), "limit is '3'; give a whole number or None"),
        (lambda: runs(labels=["a=b"]), r"labels is \['a=b'\]; give a mapping of texts or None"),
        (lambda: runs(state=3), "state is 3; give text or a list of texts"),
        (lambda: logs("\udc80"), r"run is '\\udc80'; give text of UTF-8 characters"),
        (lambda: logs("r", tail="3"), "tail is '3'; give a whole number or None"),
        (lambda: compare("a", 3), "runs is 3; give text or Attempt"),
    ],
)
def test_an_argument_of_another_type_is_one_clear_error(call, wrong):
    with pytest.raises(CommandError, match=wrong):
        call()


def test_words_of_a_command_are_texts_paths_and_numbers(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("import sys\nprint(sys.argv[1:])\n")
    attempt = run(command=[sys.executable, program, 3, 0.5, True], display=False)
    assert attempt.succeeded
    assert logs(attempt.run)[0].text == "['3', '0.5', 'true']"
    with pytest.raises(SpecError, match="command line: command: a number of more than 60 digits is not a word"):
        run(command=["echo", 10**5000])
    with pytest.raises(SpecError, match=r"command line: command: a list is not a word. Write a text"):
        run(command=["true", [1]])


@pytest.mark.parametrize("function", [run, runs, show, logs, compare])
def test_no_argument_becomes_a_traceback(function):
    saved(run="r1")
    names = inspect.signature(function).parameters.keys() - {"display", "on_change"}
    for name, value in itertools.product(names, [-1, 1.5, b"x", "\udc80", [[1]], {3: {}}, object()]):
        least = {"command": ["true"], "system": "nope"} if function is run else {"run": "r1"}
        least = {} if function in (runs, compare) else least
        arguments = ["r1", value] if name == "runs" else []
        with contextlib.suppress(CommandError, SpecError):
            function(*arguments, **({} if arguments else {**least, name: value}))


def test_an_argument_that_can_be_used_as_its_type_is_accepted():
    saved(run="r1", state=State.FAILED)
    assert [entry.run for entry in runs(state={"failed", "lost"})] == ["r1"]
    assert len(runs(labels={"version": 3})) == 0


def test_a_time_outside_of_the_calendar_is_the_nearest_in_it():
    saved(("worker-0", b"a"), state=State.SUCCEEDED)
    counts = {since: len(logs("r1", since=since)) for since in ("9999999999d", "9999-12-31T23:59:59.999999+00:00")}
    assert [*counts.values()] == [1, 0]
    assert len(logs("r1", since=dt.timedelta.max)) == 1


@pytest.mark.parametrize("field", ["command", "args", "env"])
def test_text_that_is_not_utf_8_is_refused_before_there_is_a_run(field):
    value = {"A": "\udcff"} if field == "env" else ["\udcff"]
    with pytest.raises(SpecError, match=rf"{field}.*has bytes that are not UTF-8.*set LC_ALL=C.UTF-8"):
        run({"name": "a", "command": ["true"], "roles": {"worker": {}}, field: value})
    assert len(runs()) == 0

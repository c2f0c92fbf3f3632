"""Command lines of `hai-cli`, and the files of tasks, as job files."""

import pathlib

import pytest

from tfsteps import spec
from tfsteps.imports.read import read_line, read_text
from tfsteps.imports.write import job_file
from tfsteps.systems import registry
from tfsteps.systems.manifest.fields import NotUnderstoodError


def test_a_task():
    line = (
        "HF_ENV_NAME=202111 hai-cli python train.py --lr 0.1 'a b' -- -n 2 -p 40 -i registry.local/vision/tf:2.21 "
        "-g v100 -e A=B -e C=d=e -f --force --sync_timeout 9 --options override_node_resource.cpu=4 --options new=1"
    )
    job = read_line(line)
    assert job.job == {
        "name": "train-py",
        "image": "registry.local/vision/tf:2.21",
        "command": ["python3", "-u", "train.py"],
        "args": ["--lr", "0.1", "a b"],
        "working_dir": str(pathlib.Path.cwd()),
        "env": {"A": "B", "C": "d=e"},
        "roles": {"worker": {"replicas": 2}},
        "queue": "v100",
        "systems": {"hai": {"priority": 40, "py_venv": "202111", "override_node_resource": {"cpu": 4}}},
    }
    assert [note for note in job.notes if "deadline" not in note] == ["options.new = 1: a job file has no field for it"]
    parsed = spec.parse(job_file(job), "job", registry.options())
    assert registry.get("hai").spec_problems(parsed) == []


def test_a_line_that_is_continued():
    assert read_line("hai-cli python train.py --lr 1 \\\n  -- -n 2").job["args"] == ["--lr", "1"]


def test_the_defaults_of_hai_cli():
    job = read_line("hai-cli bash run.sh -- -n 1", "mine")
    assert (job.job["name"], job.job["command"]) == ("mine", ["bash", "run.sh"])
    assert job.job["roles"] == {"worker": {}}
    assert job.job["systems"] == {"hai": {"priority": 30}}
    assert "hai-cli's default" in job_file(job)
    assert any("the image of the container" in note for note in job.notes)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("hai-cli python train.py", "only with `-- -n NODES`"),
        ("hai-cli python train.py ++ -ss 100", "only with `-- -n NODES`"),
        ("hai-cli run task.yml -n 3", "run takes a file: import it, `tfsteps import task.yml`"),
        ("hai-cli python a.py -- -n 1 --options x", "--options x: expected NAME=VALUE"),
        ("hai-cli python a.py -- -n 1 --options a=1 --options a.b=2", "--options a.b=2: expected NAME=VALUE"),
        ("hai-cli python train.py -- -p 30", "required: -n"),
        ("hai-cli python train.py -- -n two", "invalid int value"),
        ("hai-cli list -- -n 1", "expected `hai-cli python FILE`"),
        ("hai-cli -- -n 1", "expected `hai-cli python FILE`"),
        ("kubectl apply -f x", "begins with hai-cli or hfai, not 'kubectl'"),
        ("A=b", "not ''"),
        ("hai-cli 'python", "not closed"),
    ],
)
def test_what_is_no_task(line, wrong):
    with pytest.raises(NotUnderstoodError, match=wrong):
        read_line(line)


def test_a_line_whose_program_has_a_path(monkeypatch):
    monkeypatch.setenv("HF_ENV_NAME", "mine")
    monkeypatch.setenv("HF_ENV_OWNER", "ada")
    job = read_line("X=1 hai-cli exec /w/prog -- -n 1 -ls 3 --input data:2")
    assert (job.job["working_dir"], job.job["command"]) == ("/w", ["prog"])
    assert job.job["systems"]["hai"]["py_venv"] == "mine[ada]", "hai-cli passes the active environment on"
    assert [note.partition(":")[0] for note in job.notes][:3] == ["X", "--life_state", "--input data"]
    assert "py_venv" not in read_line("hai-cli exec /w/prog -- -n 1 --no_inherit").job["systems"]["hai"]


TASK = """
version: 2
name: bert
priority: 30
spec:
  workspace: /shared/bert
  entrypoint: train.py
  parameters: --lr 0.1 --name 'a $b'
  environments: {A: "'b c'", B: 1, P: "$PATH:/x", Q: 'a b', E: ""}
resource: {image: default, group: v100, node_count: 2, gpu: 0, cpu: 3}
options: {mount_code: 0, py_venv: 202111, timeout: 3600, tags: [a], novel: 3}
services: [{name: web, type: http, port: 8080}]
"""


def test_the_file_of_a_task():
    [job], _ = read_text(TASK)
    assert job.source == "task bert (version 2)"
    assert job.job == {
        "name": "bert",
        "command": ["python3", "-u", "train.py"],
        "args": ["--lr", "0.1", "--name", "a $b"],
        "working_dir": "/shared/bert",
        "env": {"A": "b c", "B": "1", "E": ""},
        "roles": {"worker": {"replicas": 2}},
        "queue": "v100",
        "systems": {
            "hai": {
                "priority": 30,
                "mount_code": 0,
                "py_venv": "202111",
                "timeout": "1h",
                "services": [{"name": "web", "type": "http", "port": 8080}],
            }
        },
    }
    fields = [note.split(" = ")[0] for note in job.notes if " = " in note]
    assert fields == [
        "spec.environments.P",
        "spec.environments.Q",
        "resource.cpu",
        "options.tags",
        "options.novel",
    ]


def test_parameters_that_a_shell_expands():
    [job], _ = read_text(
        "{version: 2, name: x, spec: {entrypoint: run.sh, git_remote_repo: 'https://git/x', "
        "parameters: '--rank $RANK | tee log'}}"
    )
    assert job.job["command"] == ["bash", "-c", "bash run.sh --rank $RANK | tee log"]
    assert job.job["systems"] == {"hai": {"git_remote_repo": "https://git/x"}}
    parsed = spec.parse(job_file(job), "job", registry.options())
    assert registry.get("hai").spec_problems(parsed) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{version: 2, services: {web: {}}}", "task None .version 2.: spec.entrypoint is missing"),
        ("{version: 2, task_type: jupyter}", "task_type is jupyter"),
        ('{version: 2, spec: {entrypoint: a.py, parameters: "\'"}}', "spec.parameters is not closed"),
        ("{version: 2, spec: {entrypoint: a, environments: {TFSTEPS_PLAN: x}}}", "`tfsteps rerun RUN`"),
        ("{version: 1, spec: {entrypoint: a.py}}", "has no job that can be imported"),
        ("{version: '2', services: {}}", "has no job that can be imported"),
    ],
)
def test_a_file_that_is_no_task(text, wrong):
    with pytest.raises(NotUnderstoodError, match=wrong):
        read_text(text)

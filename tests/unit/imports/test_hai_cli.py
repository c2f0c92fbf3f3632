"""Command lines of `hai-cli` as job files."""

import pathlib

import pytest

from tfsteps import spec
from tfsteps.imports.fields import NotUnderstoodError
from tfsteps.imports.read import read_line
from tfsteps.imports.write import job_file
from tfsteps.systems import registry


def test_a_task():
    line = (
        "HF_ENV_NAME=202111 hai-cli python train.py --lr 0.1 'a b' -- -n 2 -p 40 -i registry.local/vision/tf:2.21 "
        "-g v100 -e A=B -e C=d=e -f --force --options x"
    )
    job = read_line(line)
    assert job.job == {
        "name": "train-py",
        "image": "registry.local/vision/tf:2.21",
        "command": ["python3", "-u", "train.py"],
        "args": ["--lr", "0.1", "a b"],
        "working_dir": str(pathlib.Path.cwd()),
        "env": {"HF_ENV_NAME": "202111", "A": "B", "C": "d=e"},
        "roles": {"worker": {"replicas": 2}},
        "queue": "v100",
        "systems": {"hai": {"priority": 40}},
    }
    assert "--options: a job file has no field for it" in job.notes
    parsed = spec.parse(job_file(job), "job", registry.options())
    assert registry.get("hai").spec_problems(parsed) == []


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

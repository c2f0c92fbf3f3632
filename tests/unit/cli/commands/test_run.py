"""`tfsteps run` and `validate`: jobs from a file with overrides, and jobs from a command line."""

import pytest
import yaml

from tests.unit.cli.command import output_lines, refused, tfsteps

FILE = "name: good\ncommand: [python, train.py]\nroles: {worker: {replicas: 2}}\n"


@pytest.fixture(autouse=True)
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(FILE)


def planned(*args):
    """Return the printed plan, and the job file above it."""
    code, out, err = tfsteps("run", "--dry-run", *args)
    assert (code, err) == (0, "")
    comment = "\n".join(line.removeprefix("#   ") for line in out.splitlines() if line.startswith("#   "))
    return yaml.safe_load(out), yaml.safe_load(comment)


def test_a_dry_run_and_validate_apply_overrides():
    plan, comment = planned("job.yaml", "--set", "roles.worker.replicas=3", "--set", "env.LR=0.3")
    assert [item["replica"] for item in plan["objects"]] == ["worker-0", "worker-1", "worker-2"]
    assert plan["objects"][0]["env"]["LR"] == "0.3"
    assert comment is None
    assert output_lines("validate", "job.yaml", "--set", "name=better") == ["job.yaml: better is fine"]
    error = refused("validate", "job.yaml", "--set", "roles.worker.replicas=0")
    assert error.startswith("--set roles.worker.replicas: 0 is out of range. Allowed: ")


def test_a_dry_run_says_which_trainer_the_trainjob_is_for():
    code, out, err = tfsteps("run", "--dry-run", "job.yaml", "--system", "trainjob", "--set", "image=a:1")
    assert code == 0
    assert "runtimePatches" in yaml.safe_load(out)["spec"]
    assert "as Trainer 2.2 and newer take it" in err


def test_a_problem_of_the_job_system_names_the_override():
    error = refused("validate", "job.yaml", "--system", "kubeflow", "--set", "image=a:1", "--set", "output_dir=here")
    assert error.startswith("--set output_dir: 'here' is relative")


def test_a_command_is_a_job_with_workers():
    plan, comment = planned("--workers", "2", "--", "python", "-u", "My_Train.py", "--epochs", "5")
    assert (plan["task"], len(plan["objects"])) == ("my-train", 2)
    assert comment == {
        "name": "my-train",
        "roles": {"worker": {"replicas": 2}},
        "command": ["python", "-u", "My_Train.py", "--epochs", "5"],
    }
    assert yaml.safe_load(yaml.safe_dump(comment)) == comment


def test_the_printed_job_file_is_valid_and_means_the_same(tmp_path):
    options = ["--chief", "--workers", "2", "--ps", "1", "--name", "mnist", "--image", "acme/mnist:1"]
    _, comment = planned(*options, "--set", "env.LR=0.3", "--", "python", "train.py")
    (tmp_path / "same.yaml").write_text(yaml.safe_dump(comment))
    plan, _ = planned("same.yaml")
    assert [item["replica"] for item in plan["objects"]] == ["chief-0", "worker-0", "worker-1", "ps-0"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["train"], "train"),
        (["python3.11", "train.py"], "train"),
        (["python", "-c", "print(1)"], "python"),
        (["/usr/bin/42"], "job"),
        (["./" + "x" * 200], "x" * 40),
    ],
)
def test_the_name_is_that_of_the_program(command, name):
    assert planned("--", *command)[0]["task"] == name


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["job.yaml", "--", "true"],
            "error: job file 'job.yaml' and a command after `--` cannot both be run; leave one out\n",
        ),
        ([], "error: give a job file, or a command after `--`: `tfsteps run --workers 2 -- python train.py`\n"),
        (["--workers", "2", "--"], "error: there is no command after `--`; write one, such as `-- python train.py`\n"),
        (
            ["job.yaml", "--workers", "2"],
            "error: --workers is for a command after `--`; with a job file, write --set roles.worker.replicas=2\n",
        ),
        (
            ["job.yaml", "--image", "a:1"],
            "error: --image is for a command after `--`; with a job file, write --set image=...\n",
        ),
        (
            ["--ps", "1", "--", "true"],
            "error: --ps 1: TensorFlow 2's parameter servers hang without a chief; add --chief, ",
        ),
        (["--", "train.py"], "error: train.py is a program, not a command; write `tfsteps run -- python train.py`\n"),
        (["train.py"], "error: train.py is a program, not a job file; write `tfsteps run -- python train.py`\n"),
        (
            ["--workers", "2", "python", "train.py", "--epochs", "2"],
            "error: a command follows `--`; write `tfsteps run --workers 2 -- python train.py --epochs 2`\n",
        ),
        (["--name", "Foo_1", "--", "true"], "--name: name: 'Foo_1' is not allowed here. "),
        (
            ["--system", "jobs", "--dry-run", "--", "true"],
            "--image: roles.worker.image: is missing. Add `image:` to the job or to the role: a stock image",
        ),
    ],
)
def test_a_wrong_command_line_is_one_clear_error(args, message):
    assert refused("run", *args).startswith(message)


def test_detach_keeps_no_tensorboard():
    error = refused("run", "job.yaml", "--detach", "--keep-tensorboard")
    assert error == "error: --keep-tensorboard: a detached job has no terminal; see `tfsteps tensorboard`\n"

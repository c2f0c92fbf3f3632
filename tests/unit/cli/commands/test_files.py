"""`tfsteps init`, `validate` and `schema`."""

import ast
import json
import subprocess

import pytest
import yaml
from pathspec import GitIgnoreSpec

from tests.unit.cli.command import COMMAND, output_lines, refused, tfsteps
from tfsteps import spec
from tfsteps.cli.commands.files import Template
from tfsteps.systems import registry

GOOD = "name: good\ncommand: [python, train.py]\nroles: {worker: {replicas: 2}}\n"


@pytest.mark.parametrize("folder", [".", "new/deeper"])
def test_init_writes_a_job_that_is_valid_and_a_program_that_compiles(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    code, out, err = tfsteps("init", folder)
    job = tmp_path / folder / "job.yaml"
    assert code == 0
    assert {(tmp_path / line).resolve() for line in out.splitlines()} == {job, job.with_name("train.py")}
    assert err == f"Run it: tfsteps run {folder.removeprefix('.')}{'/' if folder != '.' else ''}job.yaml\n"
    assert not registry.get("local").warnings(spec.load(job, registry.options()))
    ast.parse(job.with_name("train.py").read_text())


@pytest.mark.parametrize("template", Template)
def test_every_template_is_a_valid_job_and_a_program_that_compiles(tmp_path, template):
    folder = tmp_path / "My model, 2"
    assert tfsteps("init", folder, "--template", template)[0] == 0
    job = spec.load(folder / "job.yaml", registry.options())
    assert not registry.get("local").warnings(job)
    assert (job.name, *job.command) == ("my-model-2", "python", "train.py"), "the job has the name of the folder"
    assert "/my-model-2:1\n" in (folder / "job.yaml").read_text()
    assert {"TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS"} <= set(job.env)
    ast.parse((folder / "train.py").read_text())


def test_no_template_is_the_mirrored_one(tmp_path):
    assert tfsteps("init", tmp_path / "a" / "mine")[0] == 0
    assert tfsteps("init", tmp_path / "b" / "mine", "--template", "mirrored")[0] == 0
    for name in ("job.yaml", "train.py"):
        assert (tmp_path / "a" / "mine" / name).read_text() == (tmp_path / "b" / "mine" / name).read_text()


def instructions(dockerfile):
    """Return (instruction, arguments) of each instruction of a Dockerfile; fails on what is none."""
    lines = [line for line in dockerfile.read_text().splitlines() if line and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    parsed = [line.split(maxsplit=1) for line in joined]
    assert {name for name, _ in parsed} <= {"ARG", "FROM", "COPY", "RUN", "WORKDIR", "ENV", "USER", "CMD"}
    return parsed


@pytest.mark.parametrize("base", [None, "acme/tf:2@sha256:" + "0" * 64])
def test_init_writes_a_dockerfile_that_builds_the_folder(tmp_path, base):
    folder = tmp_path / "mine"
    assert tfsteps("init", folder, "--dockerfile", *(["--base", base] if base else []))[0] == 0
    parsed = instructions(folder / "Dockerfile")
    assert parsed[:2] == [["ARG", f"BASE={base or 'tensorflow/tensorflow:2.18.0'}"], ["FROM", "${BASE}"]]
    values = dict(parsed)
    job = spec.load(folder / "job.yaml", registry.options())
    assert json.loads(values["CMD"]) == [*job.command]
    assert int(values["USER"].split(":")[0]) > 0
    assert values["WORKDIR"] == "/program"
    sources = [arguments.split()[0] for name, arguments in parsed if name == "COPY"]
    assert sources == ["requirements.txt", "."]
    ignored = GitIgnoreSpec.from_lines((folder / ".dockerignore").read_text().splitlines())
    assert not [*ignored.match_files(["requirements.txt", "train.py", "job.yaml", "lib/words.py"])]
    secret = [".env", "lib/.env", "a/.ssh/id", ".git/config", "k.pem", "__pycache__/a.pyc", "a/.config/gcloud/x"]
    assert {*ignored.match_files(secret)} == {*secret}


def test_init_adds_a_dockerfile_to_a_folder_with_a_job(tmp_path):
    (tmp_path / "job.yaml").write_text(GOOD.replace("train.py", "src/main.py"))
    (tmp_path / "requirements.txt").write_text("pandas==2.2.3\n")
    code, out, _ = tfsteps("init", tmp_path, "--dockerfile")
    assert (code, [line.rpartition("/")[2] for line in out.splitlines()]) == (0, ["Dockerfile", ".dockerignore"])
    assert dict(instructions(tmp_path / "Dockerfile"))["CMD"] == '["python", "src/main.py"]'
    assert (tmp_path / "requirements.txt").read_text() == "pandas==2.2.3\n"
    assert "Dockerfile' exists and is left as it is" in refused("init", tmp_path, "--dockerfile")


@pytest.mark.parametrize(
    ("job", "lines"),
    [
        ("roles: {worker: {command: [python, w.py]}}", ["# Of the role worker.", 'CMD ["python", "w.py"]']),
        ("command: [python, all.py]\nroles: {chief: {}, worker: {}}", ['CMD ["python", "all.py"]']),
        (
            "command: [python, all.py]\nargs: [--dir=$(DIR), 'a b']\nenv: {DIR: /d}\nroles: {chief: {}, worker: {}}",
            [
                "# Kubernetes replaces $(NAME) by the variable; `docker run` does not.",
                'CMD ["python", "all.py", "--dir=$(DIR)", "a b"]',
            ],
        ),
        (
            "command: [python, all.py]\nroles: {chief: {args: [a]}, worker: {args: [b]}}",
            [
                "# Of the role chief; worker in job.yaml: another command, other arguments, or none.",
                'CMD ["python", "all.py", "a"]',
            ],
        ),
        (
            "args: [--steps, '10']\nroles: {worker: {}}",
            [
                "# job.yaml has no command, so that the replicas run this one: correct it.",
                'ENTRYPOINT ["python", "train.py"]',
                'CMD ["--steps", "10"]',
            ],
        ),
        (
            "roles: {chief: {command: [python, c.py], args: [x]}, worker: {args: [y]}}",
            [
                "# Of the role chief; worker in job.yaml: another command, other arguments, or none.",
                'ENTRYPOINT ["python", "c.py"]',
                'CMD ["x"]',
            ],
        ),
        (
            "roles: {worker: {command: [python, w.py]}, chief: {command: [python, c.py]}, ps: {command: [sh, s]}}",
            [
                "# Of the role chief; worker, ps in job.yaml: another command, other arguments, or none.",
                'CMD ["python", "c.py"]',
            ],
        ),
        (
            "command: [python, all.py]\nroles: {worker: {}, evaluator: {command: [python, e.py]}}",
            [
                "# Of the role worker; evaluator in job.yaml: another command, other arguments, or none.",
                'CMD ["python", "all.py"]',
            ],
        ),
        (
            "roles: {chief: {}, worker: {command: [python, w.py]}}",
            [
                "# Of the role worker; chief in job.yaml: another command, other arguments, or none.",
                'CMD ["python", "w.py"]',
            ],
        ),
        (
            "roles: {worker: {}}",
            [
                "# job.yaml has no command, so that the replicas run this one: correct it.",
                'CMD ["python", "train.py"]',
            ],
        ),
    ],
)
def test_the_command_of_the_image_is_that_of_the_decisive_role(tmp_path, job, lines):
    (tmp_path / "job.yaml").write_text(f"name: mine\n{job}\n")
    assert tfsteps("init", tmp_path, "--dockerfile")[0] == 0
    written = (tmp_path / "Dockerfile").read_text().splitlines()
    assert written[written.index("USER 65532:65532") + 1 :] == lines


def test_a_wrong_base_is_refused_before_anything_is_written(tmp_path):
    assert "--base 'A B' is no image reference" in refused("init", tmp_path / "a", "--dockerfile", "--base", "A B")
    assert "--base a:1 is for --dockerfile" in refused("init", tmp_path / "a", "--base", "a:1")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("name", ["job.yaml", "train.py"])
def test_init_overwrites_nothing(tmp_path, name):
    (tmp_path / name).write_text("mine")
    assert f"'{tmp_path / name}' exists and is left as it is" in refused("init", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_init_names_the_path_that_it_cannot_write(tmp_path):
    (tmp_path / "file").touch()
    assert "file/folder/job.yaml' cannot be written: " in refused("init", tmp_path / "file" / "folder")
    assert "cannot be written: [Errno 36] File name too long" in refused("init", tmp_path / ("a" * 300))


def test_init_leaves_nothing_of_a_folder_that_it_cannot_write_whole(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    for folder in ("new/deeper", "mine"):
        script = 'ulimit -f 2; "$0" init "$1"'  # KiB of a file: enough for job.yaml
        command = ["bash", "-c", script, COMMAND, folder]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"'{folder}/train.py' cannot be written: [Errno 27] File too large; choose another folder" in done.stderr
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["mine", "mine/notes"]


def test_the_command_after_init_does_not_read_a_folder_as_an_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tfsteps("init", "--", "-dash")[2] == "Run it: tfsteps run ./-dash/job.yaml\n"


def test_validate_a_good_job(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(GOOD)
    assert output_lines("validate", job) == [f"{job}: good is fine"]
    assert output_lines("validate", job, "--system", "local") == [f"{job}: good is fine"]
    assert tfsteps("validate", "-", input=GOOD) == (0, "-: good is fine\n", "")


def test_validate_shows_what_short_forms_stand_for(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(GOOD + '\nresources: {gpu: "2(T4)"}\n')
    code, shown, _ = tfsteps("validate", job, "--show")
    assert code == 0
    assert yaml.safe_load(shown)["resources"] == {"gpu": 2, "gpu_type": "T4"}
    job.write_text(shown)
    assert tfsteps("validate", job, "--show") == (0, shown, "")


def test_validate_prints_every_problem_with_its_line(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("name: Bad\ncommand: 3\nrolles: {}\n")
    err = refused("validate", job)
    problems = [line.partition(f"{job}:")[2].split(": ")[:2] for line in err.splitlines()]
    assert ["2", "command"] in problems
    assert ["3", "rolles"] in problems
    assert len(problems) >= 3


def test_validate_reports_the_problems_of_each_file_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {"a": GOOD, "b": GOOD.replace("good", "Bad"), "c": GOOD.replace("good", "fine")}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    code, out, err = tfsteps("validate", "a.yaml", "b.yaml", "no.yaml", "c.yaml")
    assert (code, out) == (2, "a.yaml: good is fine\nc.yaml: fine is fine\n")
    assert [line for line in err.splitlines() if line.startswith("b.yaml:1: name: ")]
    assert "error: job file 'no.yaml' does not exist" in err
    assert output_lines("validate", "a.yaml", "c.yaml") == ["a.yaml: good is fine", "c.yaml: fine is fine"]
    documents = yaml.safe_load_all(tfsteps("validate", "--show", "a.yaml", "c.yaml")[1])
    assert [document["name"] for document in documents] == ["good", "fine"]


def test_validate_for_a_system_that_is_not_there(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(GOOD)
    assert (
        refused("validate", job, "--system", "lcoal")
        == "error: job system 'lcoal' is unknown: use one of local, kubeflow, t9k, "
        "tfjob-v1alpha1, hai, jobset, trainjob, jobs\n"
    )


def test_schema_is_one_json_object_here_and_in_a_file(tmp_path):
    printed = "\n".join(output_lines("schema")) + "\n"
    assert json.loads(printed)["properties"]["roles"]
    assert output_lines("schema", "--output", tmp_path / "schema.json") == []
    assert (tmp_path / "schema.json").read_text() == printed
    assert "cannot be written" in refused("schema", "--output", tmp_path / "no" / "schema.json")


@pytest.mark.parametrize("variable", ["TFSTEPS_CREATOR", "KFJ_CREATOR"])
def test_a_personal_folder_is_that_of_the_creator_without_a_cluster_too(tmp_path, monkeypatch, variable):
    file = tmp_path / "job.yaml"
    job = {"name": "j", "image": "x:1", "command": ["true"], "roles": {"worker": {}}, "volumes": ["w(pvc):/mnt"]}
    file.write_text(yaml.safe_dump(job))
    assert "Set TFSTEPS_CREATOR where the job is launched" in refused("validate", file, "--system", "kubeflow")
    monkeypatch.setenv(variable, "ann")
    assert output_lines("validate", file, "--system", "kubeflow")[0].endswith("j is fine")
    planned = "\n".join(output_lines("run", file, "--system", "kubeflow", "--dry-run"))
    assert ("subPath: ann" in planned, "mountPath: /mnt/ann" in planned) == (True, True)

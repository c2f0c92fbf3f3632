"""`tfsteps import`: files, standard input, a cluster; what it writes and refuses."""

import contextlib

import pytest
import yaml

from tests.unit.cli.command import refused, tfsteps
from tests.unit.cli.jobs_on_cluster import write_kubeconfig
from tests.unit.imports.test_read import JOB_FILE, JOBSET, TFJOB
from tests.wire.scripted import Answer, refusal, serve


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "tfjob.yaml"
    path.write_text(TFJOB)
    return path


def test_a_file(manifest):
    code, out, err = tfsteps("import", manifest)
    assert (code, out) == (0, JOB_FILE)
    assert "metadata.namespace = 'team': a job file has no namespace: give it with --namespace" in err


def test_standard_input_and_a_name():
    code, out, _ = tfsteps("import", "-", "--name", "mine", input=TFJOB)
    assert code == 0
    assert yaml.safe_load(out)["name"] == "mine"


def test_a_file_is_written_and_never_overwritten(manifest, tmp_path):
    target = tmp_path / "job.yaml"
    code, out, _ = tfsteps("import", manifest, "-o", target)
    assert (code, out, target.read_text()) == (0, f"{target}\n", JOB_FILE)
    assert "exists and is left as it is" in tfsteps("import", manifest, "-o", target)[2]
    assert tfsteps("validate", target)[0] == 0


def test_several_jobs_go_to_a_folder(manifest, tmp_path):
    more = tmp_path / "jobset.yaml"
    more.write_text(JOBSET)
    code, out, _ = tfsteps("import", manifest, more, "-o", tmp_path / "jobs")
    assert code == 0
    assert [line.rpartition("/")[2] for line in out.splitlines()] == ["flat.yaml", "js.yaml"]
    assert "--name x is for one job, and there are 2" in refused("import", manifest, more, "--name", "x")
    assert "two jobs would be written" in refused("import", manifest, manifest, "-o", tmp_path / "others")


def test_a_job_file_that_has_to_be_corrected(manifest):
    manifest.write_text(TFJOB.replace("registry.example/team/flat:1", "registry.example/<project>/flat"))
    code, out, err = tfsteps("import", manifest)
    assert code == 2
    assert yaml.safe_load(out)["name"] == "flat"
    assert "image: 'registry.example/<project>/flat' is not allowed here" in err


@pytest.mark.parametrize(
    ("argument", "words"),
    [("missing.yaml", "cannot be read"), ("pod/mnist", "KIND/NAME of a job on a cluster, such as tfjob/mnist")],
)
def test_what_is_neither_a_file_nor_a_job(argument, words):
    assert words in refused("import", argument)


@contextlib.contextmanager
def cluster(monkeypatch, folder, answers):
    """Serve {path's part: answer}; anything else is not served."""

    def answer(asked):
        answers_of_path = (answer for part, answer in answers.items() if part in asked.path)
        return next(answers_of_path, Answer(404, b"404 page not found"))

    with serve(answer) as server:
        write_kubeconfig(folder / "kubeconfig", server, monkeypatch)
        yield server


def test_a_program_of_a_pipeline_is_to_be_compiled(tmp_path):
    program = tmp_path / "pipeline.py"
    program.write_text("@dsl.pipeline(name='p')\ndef p(n: str): train(n)\n")
    assert "pipeline.py is a Python program: compile its pipeline" in refused("import", program)


def test_a_job_of_the_cluster(monkeypatch, tmp_path):
    item = yaml.safe_load(TFJOB)
    item["status"] = {"conditions": []}
    answers = {"kubeflow.org/v1/namespaces/team/tfjobs/flat": Answer(body=item)}
    with cluster(monkeypatch, tmp_path, answers):
        code, out, err = tfsteps("import", "tfjob/flat", "-n", "team")
    assert (code, out) == (0, JOB_FILE)
    assert "uid" not in err


def test_the_next_kind_of_that_name(monkeypatch, tmp_path):
    missing = refusal(404, "NotFound", about="flat")
    jobset = yaml.safe_load(JOBSET)
    jobset["metadata"]["namespace"] = "ml"
    with cluster(monkeypatch, tmp_path, {"kubeflow.org/v1/": missing, "jobsets/js": Answer(body=jobset)}):
        assert "there is no tfjob flat in namespace ml" in refused("import", "tfjob/flat")
        assert tfsteps("import", "jobset/js")[0] == 0


def test_what_is_not_known_to_be_missing_is_no_miss(monkeypatch, tmp_path):
    with cluster(monkeypatch, tmp_path, {"kubeflow.org/v1/": refusal(403, "Forbidden", "no rights")}):
        assert "no rights" in refused("import", "tfjob/flat")


GROUPED = yaml.safe_load(TFJOB)
[_worker] = GROUPED["spec"]["tfReplicaSpecs"].values()
_worker["template"]["metadata"] = {"labels": {"scheduling.x-k8s.io/pod-group": "both"}}
_worker["template"]["spec"]["schedulerName"] = "gangs"
GROUP = {"metadata": {"name": "both", "namespace": "team"}, "spec": {"minMember": 1}}
JOB_PATH, GROUP_PATH = "kubeflow.org/v1/namespaces/team/tfjobs/flat", "v1alpha1/namespaces/team/podgroups/both"


def test_the_pod_group_of_a_job_of_the_cluster(monkeypatch, tmp_path):
    answers = {JOB_PATH: Answer(body=GROUPED), GROUP_PATH: Answer(body=GROUP)}
    with cluster(monkeypatch, tmp_path, answers) as server:
        code, out, err = tfsteps("import", "tfjob/flat", "-n", "team")
    assert code == 0
    assert yaml.safe_load(out)["gang"] == {"scheduler": "gangs", "min_available": 1}
    assert "PodGroup" not in err, err
    assert [asked.path.rpartition("/")[2] for asked in server.asked] == ["flat", "both"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusal(403, "Forbidden", "no rights"), "no rights"),
        (refusal(404, "NotFound", about="both"), "tfjob/flat: PodGroup both of its pods: "),
        (Answer(404, b"404 page not found"), "tfjob/flat: PodGroup both of its pods: "),
    ],
)
def test_a_pod_group_that_cannot_be_read_is_said(monkeypatch, tmp_path, answer, words):
    with cluster(monkeypatch, tmp_path, {JOB_PATH: Answer(body=GROUPED), GROUP_PATH: answer}):
        code, out, err = tfsteps("import", "tfjob/flat", "-n", "team")
    assert (code, "gang" in yaml.safe_load(out)) == (0, False)
    assert words in err
    assert "= both of the pods stays" in err


def test_a_task_of_hai_in_place_of_a_job_file(manifest):
    manifest.write_text("{version: 2, name: a, spec: {entrypoint: a.py}, resource: {node_count: 2}}")
    [line] = refused("validate", manifest).splitlines()
    assert "is the task of another launcher, not a job file" in line
    assert f"`tfsteps import {manifest} -o job.yaml`" in line
    assert tfsteps("import", manifest)[0] == 0


@pytest.mark.parametrize("command", [("run", "--dry-run"), ("validate",)])
@pytest.mark.parametrize("text", [TFJOB, f"apiVersion: v1\nkind: Service\n---\n{TFJOB}", JOBSET])
def test_a_manifest_in_place_of_a_job_file(manifest, command, text):
    manifest.write_text(text)
    [line] = refused(*command, manifest).splitlines()
    assert "is a Kubernetes object, not a job file" in line
    assert f"`tfsteps import {manifest} -o job.yaml`" in line


def test_a_pipeline_of_kubeflow(manifest, tmp_path):
    program, compiled = tmp_path / "flat.py", tmp_path / "flat.yaml"
    assert tfsteps("import", manifest, "--as", "kfp", "-o", program)[0] == 0
    assert "# backoff_limit: the operator ends the job when" in program.read_text()
    code, _, err = tfsteps("compile", program, "-o", compiled)
    assert code == 0, err
    assert "registry.example/team/flat:1" in compiled.read_text()


def test_a_workflow_of_argo(manifest, tmp_path):
    assert tfsteps("import", manifest, "--as", "argo", "-o", tmp_path)[0] == 0
    code, out, err = tfsteps("lint", tmp_path / "flat.yaml")
    assert code == 0, out + err


def test_what_no_engine_writes(manifest):
    assert "--as airflow is unknown: use one of job, kfp, argo" in refused("import", manifest, "--as", "airflow")


@pytest.mark.parametrize(
    ("target", "file", "words"),
    [
        ("argo", "mnist.py", "would get YAML, and a name for that ends in .yaml; write --output mnist.yaml, or choose"),
        ("job", "mnist.py", "would get YAML, and a name for that ends in .yaml; write --output mnist.yaml, or choose"),
        (
            "kfp",
            "k.yaml",
            "would get a Python program, and a name for that ends in .py; write --output k.py, or choose",
        ),
        ("kfp", "new/k", "would get a Python program, and a name for that ends in .py; write --output new/k.py, or"),
    ],
)
def test_the_name_of_a_file_fits_what_is_written(manifest, monkeypatch, target, file, words):
    monkeypatch.chdir(manifest.parent)
    assert words in refused("import", manifest, "--as", target, "-o", file)
    assert [*manifest.parent.iterdir()] == [manifest]
    for name, other in (("a.yml", "argo"), ("a", "job"), ("a.json", "job"), ("a.py", "kfp")):
        assert tfsteps("import", manifest, "--as", other, "-o", name)[0] == 0


def test_a_command_line(manifest):
    code, out, _ = tfsteps("import", "--command", "hai-cli python train.py -- -n 2")
    assert code == 0
    assert yaml.safe_load(out)["roles"] == {"worker": {"replicas": 2}}
    assert "--command: hai-cli: " in refused("import", "--command", "hai-cli python train.py -- -p 3")
    assert "give manifests, or one --command LINE" in refused("import")
    assert "give manifests, or one --command LINE" in refused("import", manifest, "--command", "hai-cli")


def test_nothing_is_written_under_a_wrong_name_or_beside_a_file_that_stays(tmp_path):
    manifest, folder = tmp_path / "tfjob.yaml", tmp_path / "jobs"
    manifest.write_text(TFJOB)
    folder.mkdir()
    wrong = refused("import", manifest, "-o", folder, "--name", "../../x")
    assert "--name '../../x' is not a job's name" in wrong
    assert "write x" in wrong
    more = tmp_path / "more.yaml"
    more.write_text(TFJOB.replace("name: flat", "name: other"))
    (folder / "other.yaml").write_text("mine")
    assert "exists and is left as it is" in refused("import", manifest, more, "-o", folder)
    assert [file.name for file in folder.iterdir()] == ["other.yaml"]


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_file_in_another_encoding(manifest, encoding):
    manifest.write_text("# é\n" + TFJOB, encoding)
    assert "is not UTF-8 (byte " in refused("import", manifest)


def test_standard_input_has_a_limit():
    code, _, err = tfsteps("import", "-", input=TFJOB + "#" * (4 << 20))
    assert code == 2
    assert "'-' is longer than 4 MiB; give a manifest, or KIND/NAME" in err


def test_any_name_becomes_a_program_and_several_jobs_need_a_folder(manifest, tmp_path):
    manifest.write_text(TFJOB.replace("name: flat", "name: class"))
    assert tfsteps("import", manifest, "--as", "kfp", "-o", tmp_path / "class.py")[0] == 0
    assert "def pipeline() -> None:" in (tmp_path / "class.py").read_text()
    compile((tmp_path / "class.py").read_text(), "class.py", "exec")
    manifest.write_text(f"{TFJOB}---\n{TFJOB}")
    assert "2 jobs become 2 programs, which standard output cannot hold; add --output FOLDER" in refused(
        "import", manifest, "--as", "kfp"
    )

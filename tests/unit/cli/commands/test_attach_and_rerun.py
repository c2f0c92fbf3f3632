"""`tfsteps attach` and `rerun` of runs that cannot be followed or run again, and what `rerun` prints."""

import pathlib

import msgspec
import pytest
import yaml

from tests.unit.cli.command import refused, tfsteps
from tests.unit.cli.jobs_on_cluster import kubeconfig, pod_of, tfjob
from tests.unit.cli.statuses import saved
from tfsteps import spec
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.pipeline_record import LocalSubmission, PipelineRecord
from tfsteps.spec.step_inputs import with_data

JOB = {"name": "mnist", "command": ["python", "train.py"], "env": {"A": "1"}, "roles": {"worker": {"replicas": 2}}}


def recorded(tmp_path, **more):
    """Save an ended run of JOB, with its job."""
    attempt = saved(state=State.SUCCEEDED, **{"system": "local", "base_dir": str(tmp_path), **more})
    (attempt.folder / "job.json").write_bytes(msgspec.json.encode(spec.from_plain(JOB)))
    return attempt


def again(*args):
    """Return the heading of a dry run, and what it would start."""
    code, out, err = tfsteps("rerun", "r1", "--dry-run", *args)
    assert code == 0
    return err, yaml.safe_load(out)


def test_rerun_starts_the_same_job_as_a_new_run(tmp_path):
    recorded(tmp_path)
    heading, plan = again()
    assert heading == "again: run r1, without changes\n"
    assert (plan["run"] != "r1", plan["task"], plan["attempt"]) == (True, "mnist", 0)
    assert (len(plan["objects"]), plan["objects"][0]["working_dir"]) == (2, str(tmp_path))


@pytest.mark.parametrize(
    ("override", "change"),
    [
        ("env.A=2", "env.A 1 -> 2"),
        ("env.B=2", "env.B default -> 2"),
        ("env.A=null", "env.A 1 -> default"),
        ("roles.worker.replicas=4", "roles.worker.replicas 2 -> 4"),
        ("args=[--epochs, 5]", 'args default -> ["--epochs","5"]'),
        ("env.hub_token=hunter2", "env.hub_token default -> ***"),
        ("args=[--password, hunter2]", 'args default -> ["--password","***"]'),
    ],
)
def test_rerun_names_the_fields_that_differ_and_hides_secrets(tmp_path, override, change):
    recorded(tmp_path)
    assert again("--set", override)[0] == f"again: run r1, {change}\n"


def test_rerun_keeps_the_data_of_a_step(tmp_path):
    attempt = recorded(tmp_path)
    (attempt.folder / "job.json").write_bytes(msgspec.json.encode(with_data(spec.from_plain(JOB), "/data")))
    heading, plan = again("--set", "env.A=2")
    assert heading == "again: run r1, env.A 1 -> 2\n"
    assert plan["objects"][0]["env"].items() >= {"TFSTEPS_DATA": "/data", "A": "2"}.items()


def test_rerun_checks_the_changed_job(tmp_path):
    recorded(tmp_path)
    assert refused("rerun", "r1", "--set", "roles.worker.replicas=0").startswith(
        "--set roles.worker.replicas: 0 is out of range"
    )
    assert refused("rerun", "r1", "--run-id", "r1") == (
        "error: --run-id 'r1' is the run itself; give another one, or leave it out\n"
    )


def test_rerun_needs_the_working_folder(tmp_path):
    recorded(tmp_path, base_dir=str(tmp_path / "gone"))
    assert refused("rerun", "r1") == (
        f"error: run r1: its working folder '{tmp_path / 'gone'}' does not exist any more; restore it\n"
    )


def test_a_job_that_is_recorded_elsewhere_cannot_be_run_again(tmp_path, monkeypatch):
    with kubeconfig(monkeypatch, tmp_path, tfjob("r1", ("Running", "True", 1))):
        assert refused("rerun", "r1", "--on", "kubernetes") == (
            "error: run r1: its job file is recorded only on the machine that launched it; rerun it there, or write "
            "`tfsteps run FILE --on kubernetes`\n"
        )


@pytest.mark.parametrize("loss", [pathlib.Path.unlink, lambda file: (file.unlink(), file.mkdir())])
def test_a_job_whose_file_was_removed_from_its_record_cannot_be_run_again(tmp_path, loss):
    loss(recorded(tmp_path).folder / "job.json")
    why = "job.json is missing in its record, or cannot be read; restore it, or write `tfsteps run FILE`"
    assert refused("rerun", "r1") == f"error: run r1: {why}\n"


@pytest.mark.parametrize(
    ("run_id", "wrong"),
    [
        ("latest", "cannot be used: it means the newest run; give another name"),
        ("-x", "cannot be used: commands read it as an option; give another name"),
        ("../x", "leads to another folder: write a name without"),
        ("", "cannot be used: write printable text"),
    ],
)
def test_a_pipeline_gets_no_id_that_no_command_finds(run_id, wrong):
    PipelineRecord(run="p1", pipeline="nightly", state=State.SUCCEEDED, created=1.0).write()
    folders = sorted(store.home().rglob("*"))
    assert refused("rerun", "p1", f"--run-id={run_id}").startswith(f"error: --run-id '{run_id}' {wrong}")
    assert sorted(store.home().rglob("*")) == folders


@pytest.mark.parametrize(
    ("engine", "wrong"),
    [
        ("gone", "its engine 'gone' is not installed; install the package that adds it"),
        ("argo", "runs of engine argo cannot be rerun; submit it again"),
    ],
)
def test_a_pipeline_is_run_again_by_its_own_engine_alone(tmp_path, engine, wrong):
    PipelineRecord(run="p1", pipeline="nightly", engine=engine, state=State.SUCCEEDED, created=1.0).write()
    text = "{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: w}, spec: {}}"
    store.pipeline_folder("p1").mkdir(parents=True, exist_ok=True)
    LocalSubmission(pipeline=text, folder=str(tmp_path), arguments={}, images=[]).write("p1")
    assert refused("rerun", "p1") == f"error: run p1: {wrong}\n"


@pytest.mark.parametrize(
    ("engine", "why"),
    [("toy", "engine toy has not recorded its pipeline"), ("", "its pipeline is not recorded")],
)
def test_a_pipeline_that_is_not_recorded_is_not_run_again(engine, why):
    PipelineRecord(run="p1", pipeline="nightly", engine=engine, state=State.SUCCEEDED, created=1.0).write()
    fix = "submit it again, or rerun one job by --task NAME"
    assert refused("rerun", "p1") == f"error: run p1: {why}; {fix}\n"


def test_a_job_called_latest_is_found_by_its_run(tmp_path):
    saved(run="latest-k7", task="latest", state=State.SUCCEEDED, system="local", created=1.0)
    saved(run="r2", state=State.SUCCEEDED, system="local", created=2.0)
    assert tfsteps("show", "latest")[1].startswith("run          r2\n")
    for words in (("latest-k7",), ("latest-",), ("latest-k7", "--task", "latest")):
        assert tfsteps("show", *words)[1].startswith("run          latest-k7\n")


def test_a_run_of_several_tasks_needs_the_name_of_one(tmp_path):
    recorded(tmp_path)
    saved(task="other", state=State.SUCCEEDED, system="local")
    for command in ("attach", "rerun"):
        assert refused(command, "r1") == "error: run r1 has several tasks: mnist, other; choose one by --task\n"
    assert tfsteps("rerun", "r1", "--task", "mnist", "--dry-run")[0] == 0


def test_attach_only_watches_a_job_that_was_launched_elsewhere(tmp_path, monkeypatch):
    job = tfjob("r1", ("Succeeded", "True", 9))
    pod = pod_of(job, "chief-0", "Succeeded", 0, ended=8)
    logs = {pod["metadata"]["name"]: [(3, "hello")]}
    with kubeconfig(monkeypatch, tmp_path, job, pod, logs=logs) as (server, _):
        code, out, err = tfsteps("attach", "r1", "--on", "kubernetes")
        changes = [asked for asked in server.asked if asked.method != "GET"]
    assert (code, changes) == (0, [])
    assert "[chief-0] hello" in out.splitlines()
    assert out.splitlines()[-1].startswith("mnist succeeded after ")
    assert "was launched elsewhere, and its job file is not known here" in err
    assert "`tfsteps run FILE --run-id r1 --task mnist --adopt --on kubernetes`" in err

"""The code of a job on Kubernetes: a replica's own command, run by a shell of this machine, unpacks it and starts."""

import base64
import json
import os
import pathlib
import subprocess

import msgspec
import pytest

from tests.support.code_store import served
from tests.support.features import IDENTITY, PLACES
from tfsteps import spec
from tfsteps.runs import code_archive
from tfsteps.settings.find import VARIABLE
from tfsteps.spec import CodeSource
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes import code, code_claim
from tfsteps.systems.kubernetes.permissions import needed
from tfsteps.systems.kubernetes.system import SPEC_HASH
from tfsteps.systems.trainjob import trainjob

TASK = (pathlib.Path(trainjob.__file__).parent / "task.sh").read_text()
SYSTEMS = registry.on_kubernetes()
PROGRAM = """
import os, sys
from lib.words import TEXT
print(TEXT, os.getcwd(), *sys.argv[1:])
"""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "program"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "words.py").write_text("TEXT = 'shipped'\n")
    (folder / "train.py").write_text(PROGRAM)
    return folder


def job_of(folder, bucket=None, **fields):
    plain = {"name": "a", "image": "tf:2", "command": ["python3", "train.py"], "roles": {"worker": {}}, **fields}
    job = spec.from_plain({**plain, "code": str(folder)}, "test", registry.options())
    source, _ = code_archive.resolve(job.code_source, folder)
    return msgspec.structs.replace(job, code=msgspec.structs.replace(source, bucket=bucket))


def planned(system, job):
    return json.loads(msgspec.json.encode(registry.get(system).plan(job, IDENTITY, PLACES)))


def container(objects):
    """Return the first container of the objects, wherever a kind has it; of a TrainJob, its trainer."""
    if isinstance(objects, dict) and "trainer" in objects:
        return {"command": ["sh", "-c", TASK, "task"], **objects["trainer"]}
    if isinstance(objects, dict) and "command" in objects and "image" in objects:
        return objects
    parts = objects.values() if isinstance(objects, dict) else objects if isinstance(objects, list) else ()
    return next(filter(None, map(container, parts)), None)


def run(objects, tmp_path):
    """Run the command of a replica in a folder in which the ConfigMap is mounted; return (exit code, output)."""
    mounted, unpacked = tmp_path / "mounted", tmp_path / "unpacked"
    mounted.mkdir(exist_ok=True)
    for config_map in (item for item in objects if item["kind"] == "ConfigMap"):
        for name, text in config_map["binaryData"].items():
            (mounted / name).write_bytes(base64.b64decode(text))
    main = container(objects)
    words = [*main["command"], *main.get("args", [])]
    words = [word.replace("/tmp/tfsteps-code", str(unpacked)).replace("/tfsteps-code", str(mounted)) for word in words]
    words = [word.replace("$$", "$") for word in words]  # as Kubernetes does
    env = {**os.environ, "JOB_COMPLETION_INDEX": "0", "TFSTEPS_JOB": "a", "TFSTEPS_NAMESPACE": "ns"}
    env |= {item["name"]: item["value"] for item in main["env"] if "value" in item and "$(" not in item["value"]}
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_replica_starts_in_its_unpacked_code(system, folder, tmp_path):
    objects = planned(system, job_of(folder, args=["--n", "1"]))
    assert run(objects, tmp_path) == (0, f"shipped {tmp_path / 'unpacked'} --n 1\n")
    assert run(objects, tmp_path)[0] == 0  # a restart in place


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_relative_working_dir_is_below_the_code(system, folder, tmp_path):
    (folder / "lib" / "$$x").mkdir()
    (folder / "lib" / "$$x" / "it's").write_text("")
    job = job_of(folder, working_dir="lib/$$x", command=["sh", "-c", "pwd; ls"])
    assert run(planned(system, job), tmp_path) == (0, f"{tmp_path}/unpacked/lib/$$x\nit's\n")


def test_a_missing_working_dir_ends_the_replica_with_the_reason(folder, tmp_path):
    exit_code, output = run(planned("jobs", job_of(folder, working_dir="none")), tmp_path)
    assert (exit_code, "none" in output, "tfsteps: the code cannot be used, see above" in output) == (1, True, True)


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_absolute_working_dir_stays_the_images(system, folder, tmp_path):
    objects = planned(
        system, job_of(folder, working_dir="/", command=["sh", "-c", "cat $TFSTEPS_CODE_DIR/lib/words.py"])
    )
    objects = json.loads(json.dumps(objects).replace("/tmp/tfsteps-code", str(tmp_path / "unpacked")))
    assert run(objects, tmp_path) == (0, "TEXT = 'shipped'\n")


def test_a_damaged_mount_ends_the_replica_with_the_reason(folder, tmp_path):
    objects = planned("jobs", job_of(folder))
    objects[-1]["binaryData"] = {"code.tar.gz": base64.b64encode(b"no archive").decode()}
    exit_code, output = run(objects, tmp_path)
    assert exit_code == 1
    assert "tfsteps: the code cannot be used, see above; the image needs tar" in output


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_hash_of_the_job_is_that_of_its_code(system, folder):
    def annotation():
        return planned(system, job_of(folder))[0]["metadata"]["annotations"]["tfsteps.dev/spec-hash"]

    first = annotation()
    assert annotation() == first
    (folder / "train.py").write_text("print(2)")
    assert annotation() != first


def test_the_config_map_is_immutable_and_of_one_attempt(folder):
    job = job_of(folder)
    [config_map] = code.config_maps(job, job.code_source, IDENTITY, "ns")
    [of_next] = code.config_maps(job, job.code_source, msgspec.structs.replace(IDENTITY, attempt=3), "ns")
    assert config_map["immutable"] is True
    assert config_map["metadata"]["labels"] == IDENTITY.labels()
    assert config_map["metadata"]["name"] != of_next["metadata"]["name"]
    assert job.code.digest[:12] in config_map["metadata"]["name"]


def test_the_config_map_has_the_labels_of_the_job(folder):
    job = job_of(folder, labels={"run-id": "7f", "task-id": "12"})
    [config_map] = code.config_maps(job, job.code_source, IDENTITY, "ns")
    assert config_map["metadata"]["labels"] == {"run-id": "7f", "task-id": "12", **IDENTITY.labels()}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_replica_fetches_its_code_from_a_bucket(system, folder, tmp_path):
    with served() as (store, address):
        job = job_of(folder, f"{address}/code", args=["--n", "it's $$x"], working_dir="lib", command=["ls"])
        code_archive.upload(job.code)
        objects = planned(system, job)
        mounted = '"/tfsteps-code"' in json.dumps(objects)
        assert ("ConfigMap" in [item["kind"] for item in objects], mounted) == (False, False)
        job = job_of(folder, f"{address}/code", args=["--n", "it's"])
        assert run(planned(system, job), tmp_path) == (0, f"shipped {tmp_path / 'unpacked'} --n it's\n")
        store.objects.clear()
        exit_code, output = run(planned(system, job), tmp_path)
    assert exit_code == 1
    assert "HTTP Error 404" in output
    assert "tfsteps: the code cannot be used, see above; the image needs Python" in output


def test_the_hash_of_the_job_has_the_bucket_and_the_code(folder):
    def annotation(bucket):
        return planned("jobs", job_of(folder, bucket))[0]["metadata"]["annotations"]["tfsteps.dev/spec-hash"]

    hashes = [annotation(None), annotation("s3://a"), annotation("s3://b")]
    (folder / "train.py").write_text("print(2)")
    assert len({*hashes, annotation("s3://a")}) == 4


@pytest.mark.parametrize("bucket", ["team/code", "ftp://a/b", "s3://key:secret@a", "https://a/b?token=1", "s3:///a"])
def test_a_bucket_that_is_none_is_refused(bucket):
    fields = {"name": "a", "image": "i", "command": ["a"], "roles": {"worker": {}}}
    with pytest.raises(spec.SpecError, match=r"code\.bucket: .*without credentials"):
        spec.from_plain({**fields, "code": {"bucket": bucket}}, "test")


def test_roles_keep_their_own_commands(folder, tmp_path):
    roles = {"chief": {"command": ["sh", "-c", "echo chief"]}, "worker": {}}
    first, *_ = objects = planned("kubeflow", job_of(folder, roles=roles))
    commands = {
        kind: item["template"]["spec"]["containers"][0]["command"][4:]
        for kind, item in first["spec"]["tfReplicaSpecs"].items()
    }
    assert commands == {"Chief": ["sh", "-c", "echo chief"], "Worker": ["python3", "train.py"]}
    assert run(objects, tmp_path) == (0, "chief\n")


def test_code_without_a_command_is_refused():
    job = spec.from_plain({"name": "a", "image": "i", "code": ".", "roles": {"worker": {}}}, "test")
    [problem] = registry.get("kubeflow").spec_problems(job)
    assert "the code is unpacked before a command" in str(problem)


def test_code_that_was_not_packed_is_refused():
    job = spec.from_plain({"name": "a", "image": "i", "command": ["a"], "code": ".", "roles": {"worker": {}}}, "test")
    with pytest.raises(LaunchError, match="is a folder of the machine that submits"):
        planned("kubeflow", job)


def test_too_much_for_a_config_map_is_refused_with_the_largest_files(folder):
    (folder / "weights.bin").write_bytes(os.urandom(800 << 10))
    with pytest.raises(
        LaunchError, match=r"at most 700 KiB; the largest files: weights.bin \(800 KiB\).*tfstepsignore.*code.bucket"
    ):
        planned("jobs", job_of(folder))


def test_only_jobs_with_code_need_the_permission(folder):
    def asked(job):
        return [str(item) for item in needed(registry.kinds_of("jobs")[0].resource, job)]

    job = job_of(folder)
    assert {"get configmaps", "create configmaps"} <= {*asked(job)}
    assert "create configmaps" not in asked(msgspec.structs.replace(job, code=None))
    assert "create configmaps" not in asked(job_of(folder, "s3://code"))
    on_claim = asked(job_of(folder, "pvc://code/team"))  # a Job stores it, and the job is Jobs
    assert sorted({*on_claim}) == sorted(on_claim)
    assert {"create jobs.batch", "get configmaps"} <= {*on_claim}


def test_a_source_is_a_folder_or_a_mapping():
    fields = {"name": "a", "roles": {"worker": {}}}
    assert spec.from_plain({**fields, "code": "src"}).code_source == CodeSource(folder="src")
    assert spec.from_plain({**fields, "code": {"folder": "src"}}).code_source == CodeSource(folder="src")
    assert spec.from_plain(fields).code_source is None


def test_settings_of_the_platform_do_not_change_by_what_a_job_with_code_is_recognized(folder, tmp_path, monkeypatch):
    """Settings are applied before the code is packed."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("defaults: {labels: {team: vision}}\n")
    monkeypatch.setenv(VARIABLE, str(settings))
    packed, bare = job_of(folder), registry.get("jobset")
    system = registry.get("jobset")
    unpacked = msgspec.structs.replace(packed, code=CodeSource())
    job = msgspec.structs.replace(system.with_settings(unpacked, registry.options()), code=packed.code)
    with_settings, without = system.plan(job, IDENTITY, PLACES), bare.plan(packed, IDENTITY, PLACES)
    assert job.labels == {"team": "vision"}
    hashes = [objects[0]["metadata"]["annotations"][SPEC_HASH] for objects in (with_settings, without)]
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_replica_uses_its_code_from_a_claim(system, folder, tmp_path):
    job = job_of(folder, "pvc://code/team", args=["--n", "1"])
    objects = planned(system, job)
    text = json.dumps(objects)
    assert ('"claimName": "code"' in text, '"readOnly": true' in text, '"subPath": "team"' in text) == (True,) * 3
    assert "ConfigMap" not in [item["kind"] for item in objects]
    (tmp_path / "mounted").mkdir()
    archive = tmp_path / "mounted" / f"{job.code.digest}.tar.gz"
    archive.write_bytes(code_archive.read(job.code.digest))
    assert run(objects, tmp_path) == (0, f"shipped {tmp_path / 'unpacked'} --n 1\n")


def test_what_is_on_the_claim_must_have_the_hash_of_the_job(folder, tmp_path):
    job = job_of(folder, "pvc://code")
    objects = json.loads(json.dumps(planned("jobs", job)).replace("WAITS = (1, 3, 9)", "WAITS = ()"))
    (folder / "train.py").write_text("print('of-other-code')")
    other = code_archive.read(job_of(folder).code.digest)
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / f"{job.code.digest}.tar.gz").write_bytes(other)
    exit_code, output = run(objects, tmp_path)
    assert (exit_code, "of-other-code" in output) == (1, False)
    assert "launch the job again, which stores it on the claim" in output
    assert not (tmp_path / "unpacked" / "train.py").exists()


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_pod_that_stores_code_is_like_a_replica(system, folder):
    job = job_of(
        folder, "pvc://code/team", pod={"spec": {"securityContext": {"runAsUser": 7}}}, node_selector={"a": "b"}
    )
    objects = planned(system, job)
    role = next(iter(registry.kinds_of(system)[0].roles({**objects[0], "dependents": objects[1:]}).values()))
    spec_ = code_claim.manifest_of(job.code, "n", "tf:2", role.template["spec"], 2)["spec"]["template"]["spec"]
    assert (spec_["securityContext"], spec_["nodeSelector"]) == ({"runAsUser": 7}, {"a": "b"})
    [container_] = spec_["containers"]
    assert container_["command"][-5:] == [
        "/tfsteps-claim/team",
        job.code.digest,
        "90",
        "/tfsteps-parts/0",
        "/tfsteps-parts/1",
    ]
